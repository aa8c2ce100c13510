"""The JVM that started this process, and without which nothing here can work or be stopped."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from daggers.v1 import events_pb2

from runtime import errors

_POLL_S = 1.0
# A dying process's sockets are closed first; its children learn of it after its memory is freed.
_DYING_S = 3.0


class Parent:
    """The parent at the time this object is made."""

    def __init__(self) -> None:
        self._pid = os.getppid()
        self._explained: BaseException | None = None

    def follow(self, end: Callable[[], None]) -> None:
        """Call `end` on a thread of its own once the parent is gone."""

        def watch() -> None:
            while not self._gone():
                time.sleep(_POLL_S)
            end()

        threading.Thread(target=watch, name="parent", daemon=True).start()

    def explain(self, failure: BaseException) -> events_pb2.DaggerError:
        """`errors.explain`, but for a failure it has no words for, the parent's death is the better reason.

        A dying JVM makes a call fail in as many ways as there are calls. Who asks again does not wait again.
        """
        error = errors.explain(failure)
        end = time.monotonic() + (0.0 if failure is self._explained else _DYING_S)
        self._explained = failure
        while error.reason == errors.UNEXPECTED:
            if self._gone():
                return errors.jvm_gone().error
            if time.monotonic() >= end:
                break
            time.sleep(_POLL_S / 10)
        return error

    def _gone(self) -> bool:
        return os.getppid() != self._pid
