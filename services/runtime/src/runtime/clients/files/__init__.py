"""Places that hold the files of a table: written first, seen later, decided on by what is put once.

Names are relative to the table's folder, with `/` between their parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec.sinks.parquet import is_s3


@dataclass(frozen=True, slots=True)
class Seen:
    """A file that is seen."""

    name: str
    """The last part."""
    size: int
    """Bytes."""
    written: datetime


class Files(Protocol):
    """The files of one table. Each call raises `JobError`: TemporaryError while the place is away."""

    def stage(self, name: str, content: pa.Buffer) -> str:
        """Make a file durable that nobody sees under its name yet; what `publish` needs to know of it."""

    def publish(self, name: str, staged: str) -> None:
        """Have a staged file seen under its name. Twice is as once. Raises: JobError when it is gone."""

    def staged(self, prefix: str) -> Iterator[tuple[str, str]]:
        """The files that are staged and not seen, whose last part begins so: last part, and what `discard`
        needs to know.
        """

    def discard(self, staged: str) -> None:
        """Remove a staged file; one that is gone is no trouble."""

    def put_once(self, name: str, content: bytes) -> bool:
        """Make a small file, whole or not at all; False where one of this name is there."""

    def get(self, name: str) -> bytes | None:
        """A file that is seen; None where there is none."""

    def names(self, folder: str) -> list[str]:
        """What is seen in a folder, in order; nothing where there is none."""

    def files(self, folder: str) -> list[Seen]:
        """The files that are seen in a folder, in order; nothing where there is none."""

    def probe(self) -> None:
        """Return if files can be written now."""


def of(sink: spec_pb2.ResolvedSink) -> Files:
    """The files of a sink's table. Raises: JobError (USER) where it may not write."""
    if is_s3(sink.sink.parquet):
        from runtime.clients.files.s3 import S3Files  # its client takes half a second, for those who need it

        return S3Files.of(sink)
    from runtime.clients.files.local import LocalFiles

    return LocalFiles.of(sink)
