"""How fast requests to a sink go out, where an administrator says how much may be written there.

A request waits for its own rows before it goes out, and the next one begins to wait behind it: in no time has
more gone out than the limit allows in it, and one request. One task of a launch writes to such a sink at a
time (`launch.writing`), so nobody else has to be asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import lru_cache

from daggers.v1 import spec_pb2


class Pace:
    """The pace of one launch's requests to one sink."""

    def __init__(
        self,
        share: spec_pb2.RateLimit,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._share = share
        self._is_free = not (share.rows_per_second or share.requests_per_second)
        self._clock, self._pause = clock, pause
        self._turn = threading.Lock()
        self._free = 0.0

    def most(self, rows: int) -> int:
        """The most rows of one request, which has `rows` at most: what a second allows."""
        return max(min(rows, int(self._share.rows_per_second or rows)), 1)

    def wait(self, rows: int) -> None:
        """Return when a request with so many rows may go out."""
        if (left := self.reserved(rows)) > 0:
            self._pause(left)

    def reserved(self, rows: int) -> float:
        """In so many seconds a request with so many rows may go out; the next one later."""
        if self._is_free:
            return 0.0
        share = self._share
        by_rows = rows / share.rows_per_second if share.rows_per_second else 0.0
        by_requests = 1 / share.requests_per_second if share.requests_per_second else 0.0
        with self._turn:
            now = self._clock()
            self._free = max(self._free, now) + max(by_rows, by_requests)
            return self._free - now


def of(sink: spec_pb2.ResolvedSink) -> Pace:
    """The pace of requests to a sink; kept by the worker between batches."""
    return _kept(sink.SerializeToString(deterministic=True))


@lru_cache(maxsize=8)
def _kept(sink: bytes) -> Pace:
    return Pace(spec_pb2.ResolvedSink.FromString(sink).share)
