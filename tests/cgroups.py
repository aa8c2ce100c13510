"""A limit on the memory of processes, by the kernel: a control group of a test's own, of version 1 or 2."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil
import pytest

ROOT = Path("/sys/fs/cgroup")
DEADLINE_S = 30.0
_VERSION_1: Final = (ROOT / "memory").is_dir()
_LIMIT: Final = "memory.limit_in_bytes" if _VERSION_1 else "memory.max"
_UNLIMITED: Final = "-1" if _VERSION_1 else "max"
_EVENTS: Final = "memory.oom_control" if _VERSION_1 else "memory.events"


class MemoryGroup:
    """Processes, with what they start, that have so many bytes together: the kernel kills who wants more."""

    def __init__(self) -> None:
        """Make it, without a limit. Raises: OSError where no group can be made."""
        self._folder = (ROOT / "memory" if _VERSION_1 else ROOT) / f"daggers-test-{uuid4().hex[:8]}"
        self._folder.mkdir()
        try:
            (self._folder / _LIMIT).write_text(_UNLIMITED)
        except OSError:
            self._folder.rmdir()
            raise

    @property
    def members(self) -> Path:
        """File that a process id is written to, to add it. Pages that it has already are not counted."""
        return self._folder / "cgroup.procs"

    def add(self, process: psutil.Process) -> None:
        """Add a process; nothing where it has ended."""
        with suppress(psutil.Error, ProcessLookupError):
            self.members.write_text(str(process.pid))

    def limit(self, size: int) -> None:
        """Limit what they have together. size: bytes."""
        (self._folder / _LIMIT).write_text(str(size))

    def count_kills(self) -> int:
        """Count those that the kernel has killed for memory."""
        lines = (self._folder / _EVENTS).read_text().splitlines()
        return int(dict(map(str.split, lines))["oom_kill"])

    def remove(self) -> None:
        """Move out who is left in it, and remove it."""
        end = time.monotonic() + DEADLINE_S
        while True:
            for pid in self.members.read_text().split():
                with suppress(OSError):
                    (self._folder.parent / "cgroup.procs").write_text(pid)
            try:
                return self._folder.rmdir()
            except OSError:  # one of them is ending
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)


@contextmanager
def limited(
    processes: Iterable[psutil.Process], size: int, *, settle_s: float = 0.0
) -> Iterator[Callable[[], int]]:
    """These processes, and what they start, have `size` bytes together: the kernel kills who wants more.

    Yields a count of those it has killed. Pages that they had before are not counted. Skips the test where no
    group can be made. settle_s: for so long they have no limit, so that who counts kills in their group has
    looked there before.
    """
    try:
        group = MemoryGroup()
    except OSError as refused:
        pytest.skip(f"no cgroup can be made here: {refused.strerror}")
    try:
        for process in processes:
            group.add(process)
        time.sleep(settle_s)
        group.limit(size)
        yield group.count_kills
    finally:
        group.remove()
