"""Where checkpoints and leases are: a directory of this machine, or a Hadoop file system; both look alike.

local   directories, of this machine or of a mount that hosts share
hadoop  HDFS and others, through the JVM
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import urlsplit

from daggerspec import checkpointroot
from runtime.errors import external
from runtime.state.store.local import LocalPlace, LocalStore


class Place(Protocol):
    """A path below a checkpoint root; its text is what Spark is told. Every method raises `OSError`."""

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def local(self) -> Path | None:
        """The same on this machine; None where it is on no machine."""

    def __lt__(self, other: Self, /) -> bool: ...

    def __truediv__(self, name: str, /) -> Self: ...

    def with_name(self, name: str, /) -> Self:
        """What is called `name` beside it."""

    def iterdir(self) -> Iterator[Self]:
        """What is in this directory."""

    def is_dir(self) -> bool:
        """Whether it is a directory."""

    def exists(self) -> bool:
        """Whether there is a file or a directory of this name."""

    def modified(self) -> float:
        """When it was written last, in seconds after the epoch."""

    def read_text(self) -> str:
        """All of a file, as UTF-8."""

    def create(self) -> None:
        """An empty file; it may exist."""

    def write_text(self, text: str, /) -> None:
        """Make this all of a file, which may exist, in one step that survives a power cut."""

    def remove(self) -> None:
        """Delete it, and all below it."""


class Store(Protocol):
    """Where the lease is."""

    def read(self) -> int:
        """The generation that holds it; 0 when nobody ever did. Raises OSError, ValueError."""

    def take(self, generation: int) -> int:
        """Take it from an older generation, or from none; the generation that holds it then."""

    def take_again(self, generation: int) -> int:
        """The same of one that had it. Raises OSError where the whole checkpoint root is gone."""


def open_root(checkpoint_root: str) -> tuple[Place, Store]:
    """The place that a checkpoint root names, and the lease in it. Raises `JobError` (EXTERNAL)."""
    directory = checkpointroot.directory(checkpoint_root)
    if not (directory or urlsplit(checkpoint_root).path).startswith("/"):
        raise external(
            "CHECKPOINT_ROOT_UNSUPPORTED",
            f"The checkpoint root {checkpoint_root!r} is not absolute: give a directory from / on, or a URI.",
        )
    if directory is not None:
        local = Path(directory)
        return LocalPlace(local), LocalStore(local)
    # With PySpark, which who looks at directories of this machine goes without.
    from runtime.state.store.hadoop import HadoopStore, hadoop_path

    remote = hadoop_path(checkpoint_root)
    return remote, HadoopStore(remote)
