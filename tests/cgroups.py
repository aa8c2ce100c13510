"""A limit on the memory of processes, by the kernel: a control group of a test's own, of version 1 or 2."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

ROOT = Path("/sys/fs/cgroup")
DEADLINE_S = 30.0


@contextmanager
def limited(
    processes: Iterable[psutil.Process], size: int, *, settle_s: float = 0.0
) -> Iterator[Callable[[], int]]:
    """These processes, and what they start, have `size` bytes together: the kernel kills who wants more.

    Yields a count of those it has killed. Pages that they had before are not counted. Skips the test where no
    group can be made. settle_s: for so long they have no limit, so that who counts kills in their group has
    looked there before.
    """
    version_1 = (ROOT / "memory").is_dir()
    group = (ROOT / "memory" if version_1 else ROOT) / f"daggers-test-{uuid4().hex[:8]}"
    limit = group / ("memory.limit_in_bytes" if version_1 else "memory.max")
    try:
        group.mkdir()
        limit.write_text("-1" if version_1 else "max")
    except OSError as refused:
        pytest.skip(f"no cgroup can be made here: {refused.strerror}")
    try:
        for process in processes:
            with suppress(psutil.Error, ProcessLookupError):
                (group / "cgroup.procs").write_text(str(process.pid))
        time.sleep(settle_s)
        limit.write_text(str(size))
        events = group / ("memory.oom_control" if version_1 else "memory.events")
        yield lambda: int(dict(map(str.split, events.read_text().splitlines()))["oom_kill"])
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """Move out who is left in it, and remove it."""
    end = time.monotonic() + DEADLINE_S
    while True:
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (group.parent / "cgroup.procs").write_text(pid)
        try:
            return group.rmdir()
        except OSError:  # one of them is ending
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
