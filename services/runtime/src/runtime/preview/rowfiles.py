"""Rows of a preview on their way from its workers: files in its folder, which come while a task goes on.

Spark hands over what a task gives when that ends; somebody waits for the first rows of it.
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
    """The rows of one preview. Picklable; who reads them is one thread at a time."""

    folder: Path

    @classmethod
    def opened(cls, run_dir: Path, *, rows: int, size: int) -> RowFiles:
        """To be called once. All workers together may hand over so many rows, and so many bytes."""
        folder = run_dir / _FOLDER
        folder.mkdir()
        (folder / _LEFT).write_text(f"{rows} {size}")
        return cls(folder)

    def writer(self) -> RowWriter:
        """For one task."""
        return RowWriter(self.folder)

    def come(self) -> Iterator[gateway_pb2.PreviewRows]:
        """The rows that have come since the last call, those of one task in order."""
        for file in sorted(file for file in self.folder.iterdir() if not file.name.startswith(".")):
            content = file.read_bytes()
            file.unlink()
            yield gateway_pb2.PreviewRows.FromString(content)


class RowWriter:
    """Hands over the rows of one task."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._task, self._number = folder, uuid4().hex, 0
        self.takes = True
        """Whether there may be more."""

    def put(self, step: gateway_pb2.PreviewRows) -> None:
        """Hand over rows, the first of them where not all are taken."""
        content = step.SerializeToString()
        taken = self._claim(len(step.rows), len(content))
        self.takes = taken == len(step.rows)
        if not taken:
            return
        if not self.takes:
            del step.rows[taken:]
            content = step.SerializeToString()
        self._number += 1
        part = self._folder / f"{_PART}-{self._task}"
        part.write_bytes(content)
        part.rename(self._folder / f"{self._task}-{self._number:06}")

    def _claim(self, rows: int, size: int) -> int:
        """How many of these rows may be handed over. What does not fit is the end, as it would be for all."""
        with (self._folder / _LEFT).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            left, bytes_left = map(int, file.read().split())
            taken = min(rows, left) if size <= bytes_left else 0
            after = (left - taken, bytes_left - size) if taken == rows else (0, 0)
            file.seek(0)
            file.truncate()
            file.write(f"{after[0]} {after[1]}")
        return taken
