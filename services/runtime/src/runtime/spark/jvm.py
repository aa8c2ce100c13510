"""Watch the JVM that started this process: nothing here works, or can be stopped, without it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from daggers.v1 import events_pb2

from chassis.oomkills import KillCount, OomKills, RecentKills
from daggerspec import exits
from runtime import errors

_POLL_S = 1.0
# a dying process closes its sockets first; its children see its end after its memory is freed
_DYING_S = 3.0


class JvmWatch:
    """Watches the parent process of this moment, which is the JVM."""

    def __init__(self, kills: Callable[[], KillCount] | None = None) -> None:
        """kills: returns what the kernel has killed for memory where the JVM is."""
        self._pid = os.getppid()
        self._kills = RecentKills(kills or OomKills(self._pid).read)
        self._explained: BaseException | None = None

    def follow(self, end: Callable[[], None]) -> None:
        """Call `end` in a thread of its own once the parent is gone."""

        def watch() -> None:
            while not self.is_gone():
                self._kills.look()
                time.sleep(_POLL_S)
            end()

        threading.Thread(target=watch, name="jvm-watch", daemon=True).start()

    def explain(self, failure: BaseException) -> events_pb2.DaggerError:
        """Explain a failure by `errors.explain`, or by the JVM's death where that has no explanation.

        A dying JVM makes calls fail in any way, and stops Spark. So an unexpected failure waits for the JVM's
        end for a few seconds, once for each failure.
        """
        error = errors.explain(failure)
        end = time.monotonic() + (0.0 if failure is self._explained else _DYING_S)
        self._explained = failure
        while error.reason in (errors.UNEXPECTED, exits.NO_EXECUTORS):
            if self.is_gone():
                return self.death()
            if time.monotonic() >= end:
                break
            time.sleep(_POLL_S / 10)
        return self.death() if error.reason == errors.jvm_gone().error.reason else error

    def death(self) -> events_pb2.DaggerError:
        """Build the error of the JVM's death: killed for memory, or gone.

        Its exit code only the scheduler knows.
        """
        return exits.killed_for_memory() if self._kills.count() else errors.jvm_gone().error

    def is_gone(self) -> bool:
        """Tell whether the JVM is gone: what fails then may have failed of that."""
        return os.getppid() != self._pid
