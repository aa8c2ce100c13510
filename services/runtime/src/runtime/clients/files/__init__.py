"""Store the files of a table in two steps: a staged file becomes visible only when it is published.

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
class StoredFile:
    """A visible file."""

    name: str
    """Last part of its name."""
    size: int
    """Bytes."""
    written: datetime


class Files(Protocol):
    """Files of one table. Every method raises JobError: TemporaryError while the store does not answer."""

    def stage(self, name: str, content: pa.Buffer) -> str:
        """Write a file durably without making it visible; return its handle for `publish`."""

    def publish(self, name: str, staged: str) -> None:
        """Make a staged file visible under its name. Idempotent. Raises: JobError when it is gone."""

    def list_staged(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield last part and `discard`'s handle of the staged files whose last part begins with `prefix`."""

    def discard(self, staged: str) -> None:
        """Remove a staged file; one that is gone is no error."""

    def put_once(self, name: str, content: bytes) -> bool:
        """Create a small file atomically; return False where one of this name exists."""

    def get(self, name: str) -> bytes | None:
        """Read a visible file; None where there is none."""

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; empty where there is no such folder."""

    def files(self, folder: str) -> list[StoredFile]:
        """List the visible files in a folder, sorted; empty where there is no such folder."""

    def probe(self) -> None:
        """Check that files can be written now."""


def of(sink: spec_pb2.ResolvedSink) -> Files:
    """Open the files of a sink's table. Raises: JobError (USER) where it may not write there."""
    if is_s3(sink.sink.parquet):
        from runtime.clients.files.s3 import S3Files  # loads boto3: half a second

        return S3Files.of(sink)
    from runtime.clients.files.local import LocalFiles

    return LocalFiles.of(sink)
