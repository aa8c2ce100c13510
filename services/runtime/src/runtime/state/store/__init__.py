"""Store checkpoints and leases in a directory of this machine, or in a Hadoop file system, by one interface.

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
    """Path below a checkpoint root; `str` of it is for Spark. Every method raises OSError."""

    @property
    def name(self) -> str:
        """Last part of the path."""

    @property
    def local(self) -> Path | None:
        """The path on this machine; None for a remote one."""

    def __lt__(self, other: Self, /) -> bool: ...

    def __truediv__(self, name: str, /) -> Self: ...

    def with_name(self, name: str, /) -> Self:
        """Return the path called `name` beside this one."""

    def iterdir(self) -> Iterator[Self]:
        """List this directory."""

    def is_dir(self) -> bool:
        """Tell whether it is a directory."""

    def exists(self) -> bool:
        """Tell whether there is a file or a directory of this name."""

    def modified_at(self) -> float:
        """Return the time of the last write, in seconds since 1970."""

    def read_text(self) -> str:
        """Read a whole file as UTF-8."""

    def create(self) -> None:
        """Create an empty file; it may exist."""

    def write_text(self, text: str, /) -> None:
        """Replace the content of a file atomically and durably; it may not exist."""

    def remove(self) -> None:
        """Delete it, with everything below it."""


class Store(Protocol):
    """Store of a lease."""

    def read(self) -> int:
        """Return the generation that holds it; 0 before the first. Raises: OSError, ValueError."""

    def take(self, generation: int) -> int:
        """Take it from an older generation, if any; return the generation that holds it then."""

    def take_again(self, generation: int) -> int:
        """Take a lease back that is gone. Raises: OSError where the whole checkpoint root is gone."""


def open_root(checkpoint_root: str) -> tuple[Place, Store]:
    """Open a checkpoint root and the store of the lease in it. Raises: JobError (EXTERNAL)."""
    directory = checkpointroot.directory(checkpoint_root)
    if not (directory or urlsplit(checkpoint_root).path).startswith("/"):
        raise external(
            "CHECKPOINT_ROOT_UNSUPPORTED",
            f"The checkpoint root {checkpoint_root!r} is not absolute: give a directory from / on, or a URI.",
        )
    if directory is not None:
        local = Path(directory)
        return LocalPlace(local), LocalStore(local)
    # loads PySpark, which local directories do not need
    from runtime.state.store.hadoop import HadoopStore, hadoop_path

    remote = hadoop_path(checkpoint_root)
    return remote, HadoopStore(remote)
