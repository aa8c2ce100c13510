"""The JVM that started this process, and without which nothing here can work or be stopped."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from daggers.v1 import events_pb2

from daggerspec import exits
from runtime import errors

_POLL_S = 1.0
# A dying process's sockets are closed first; its children learn of it after its memory is freed.
_DYING_S = 3.0
_VMSTAT = Path("/proc/vmstat")


def kills() -> int:
    """Processes that the kernel has killed for memory since it was started; 0 where it does not count."""
    try:
        match = re.search(r"^oom_kill (\d+)$", _VMSTAT.read_text("ascii"), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) if match else 0


class JvmWatch:
    """Watches the process that was the parent when this was made, which is the JVM."""

    def __init__(self, kills: Callable[[], int] = kills) -> None:
        self._pid = os.getppid()
        self._kills = kills
        self._before = self._last = kills()
        self._explained: BaseException | None = None

    def follow(self, end: Callable[[], None]) -> None:
        """Call `end` on a thread of its own once the parent is gone."""

        def watch() -> None:
            while not self._gone():
                self._before, self._last = self._last, self._kills()
                time.sleep(_POLL_S)
            end()

        threading.Thread(target=watch, name="jvm-watch", daemon=True).start()

    def explain(self, failure: BaseException) -> events_pb2.DaggerError:
        """`errors.explain`, but for a failure it has no words for, the parent's death is the better reason.

        A dying JVM makes a call fail in as many ways as there are calls, and stops Spark on its way. Who asks
        again does not wait again.
        """
        error = errors.explain(failure)
        end = time.monotonic() + (0.0 if failure is self._explained else _DYING_S)
        self._explained = failure
        while error.reason in (errors.UNEXPECTED, exits.NO_EXECUTORS):
            if self._gone():
                return self.death()
            if time.monotonic() >= end:
                break
            time.sleep(_POLL_S / 10)
        return self.death() if error.reason == errors.jvm_gone().error.reason else error

    def death(self) -> events_pb2.DaggerError:
        """Of what it died, as far as can be seen from here: its exit code is the scheduler's to know."""
        killed = self._kills() > self._before
        return (errors.killed_for_memory() if killed else errors.jvm_gone()).error

    def _gone(self) -> bool:
        return os.getppid() != self._pid
