"""Hand rows of a preview over from its workers: files in its folder, which come while a task goes on.

Spark hands over the result of a task when that ends; the caller waits for the first rows of it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from daggers.v1 import gateway_pb2

_FOLDER: Final = "rows"
_LEFT: Final = ".left"
_PART: Final = ".part"


@dataclass(frozen=True, slots=True)
class RowFiles:
    """Folder of the rows of one preview. Picklable; one thread at a time may read it."""

    folder: Path

    @classmethod
    def create(cls, run_dir: Path, *, rows: int, size: int) -> RowFiles:
        """Create the folder, once. All workers together may hand over that many rows and bytes."""
        folder = run_dir / _FOLDER
        folder.mkdir()
        (folder / _LEFT).write_text(f"{rows} {size}")
        return cls(folder)

    def writer(self) -> RowWriter:
        """Create the writer of one task."""
        return RowWriter(self.folder)

    def take_new(self) -> Iterator[gateway_pb2.PreviewRows]:
        """Yield and remove the rows that have come since the last call, those of one task in order."""
        for file in sorted(file for file in self.folder.iterdir() if not file.name.startswith(".")):
            content = file.read_bytes()
            file.unlink()
            yield gateway_pb2.PreviewRows.FromString(content)


class RowWriter:
    """Hands over the rows of one task."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._task, self._number = folder, uuid4().hex, 0
        self.takes = True
        """True while more rows may be handed over."""

    def put(self, step: gateway_pb2.PreviewRows) -> None:
        """Hand rows over, only the first of them where there is no room for all."""
        content = step.SerializeToString()
        claimed = self._claim(len(step.rows), len(content))
        self.takes = claimed == len(step.rows)
        if not claimed:
            return
        if not self.takes:
            del step.rows[claimed:]
            content = step.SerializeToString()
        self._number += 1
        part = self._folder / f"{_PART}-{self._task}"
        part.write_bytes(content)
        part.rename(self._folder / f"{self._task}-{self._number:06}")

    def _claim(self, rows: int, size: int) -> int:
        """Claim room; return how many of the rows may be handed over. After rows that do not fit none may."""
        with (self._folder / _LEFT).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            left, bytes_left = map(int, file.read().split())
            claimed = min(rows, left) if size <= bytes_left else 0
            after = (left - claimed, bytes_left - size) if claimed == rows else (0, 0)
            file.seek(0)
            file.truncate()
            file.write(f"{after[0]} {after[1]}")
        return claimed
