"""Folders in which the processes work that preview: one for each, below one for each scheduler of the host.

Schedulers of one host share its memory, so each counts the processes of the others by their folders.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from chassis import processes
from daggerspec import rundir


class PreviewFolders:
    """Folders of one scheduler, `whose`: PID:START_TICKS."""

    def __init__(self, root: Path, whose: str) -> None:
        """Remove folders under `root`, of all schedulers, whose scheduler is gone, and end the processes
        there.
        """
        self._root, self._own = root, root / whose.replace(":", "-")
        for path in self._all():
            if path == self._own or not _has_owner(path):
                _end_all(path)
                shutil.rmtree(path, ignore_errors=True)

    def make(self, name: str) -> Path:
        """Make a folder with a temporary one. Raises: OSError."""
        folder = self._own / name
        (folder / rundir.TEMPORARY).mkdir(parents=True, mode=0o700)
        return folder

    def remove(self, folder: Path) -> None:
        """Remove a folder once its process has ended."""
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another process has one
            self._own.rmdir()

    def others(self) -> int:
        """Count the processes of other living schedulers of this host."""
        count = 0
        for path in self._all():
            if path != self._own and _has_owner(path):
                with suppress(OSError):
                    count += len(os.listdir(path))  # noqa: PTH208 - names are enough
        return count

    def _all(self) -> list[Path]:
        try:
            return sorted(path for path in self._root.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []


def size(folder: Path) -> int:
    """Return the bytes on disk below a folder; of files that change meanwhile, those that were found."""
    return sum(_sizes(folder))


def _sizes(folder: str | Path) -> Iterator[int]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _sizes(entry.path)
                else:
                    yield entry.stat(follow_symlinks=False).st_blocks * 512


def _has_owner(folder: Path) -> bool:
    """Tell whether the scheduler of a folder lives."""
    pid, _, ticks = folder.name.partition("-")
    is_identity = pid.isdigit() and ticks.isdigit()
    return is_identity and processes.start_ticks(int(pid)) == int(ticks)


def _end_all(folder: Path) -> None:
    """Send SIGKILL to all who work below: their scheduler is gone, and what is stopped does not end by
    itself.
    """
    for process in processes.everybody():
        if Path(processes.working_directory(process.pid)).is_relative_to(folder):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
