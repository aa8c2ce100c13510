"""Pace requests to a sink by the rate limit that an administrator has set.

A request waits for as long as its own rows take at the limit, and the next one queues behind it: within any
time at most the limit and one request go out. Only one task of a launch writes to such a sink at a time
(`launch.writing`), so the pace needs no coordination between processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from daggers.v1 import spec_pb2

from runtime.recent import cache_in_use


class Pace:
    """Rate limiter of one launch's requests to one sink."""

    def __init__(
        self,
        share: spec_pb2.RateLimit,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._share = share
        self._is_unlimited = not (share.rows_per_second or share.requests_per_second)
        self._clock, self._pause = clock, pause
        self._turn = threading.Lock()
        self._free_at = 0.0

    def max_rows(self, rows: int) -> int:
        """Return how many of `rows` one request may have: no more than a second allows, at least 1."""
        return max(min(rows, int(self._share.rows_per_second or rows)), 1)

    def wait(self, rows: int) -> None:
        """Block until a request with so many rows may go out."""
        if (left := self.reserve(rows)) > 0:
            self._pause(left)

    def reserve(self, rows: int) -> float:
        """Reserve the next slot for a request with so many rows; return in how many seconds it may go out."""
        if self._is_unlimited:
            return 0.0
        share = self._share
        by_rows = rows / share.rows_per_second if share.rows_per_second else 0.0
        by_requests = 1 / share.requests_per_second if share.requests_per_second else 0.0
        with self._turn:
            now = self._clock()
            self._free_at = max(self._free_at, now) + max(by_rows, by_requests)
            return self._free_at - now


def of(sink: spec_pb2.ResolvedSink) -> Pace:
    """Return the pace of a sink, the same one in all batches of a worker."""
    return _cached_pace(sink.SerializeToString(deterministic=True))


@cache_in_use
def _cached_pace(sink: bytes) -> Pace:
    return Pace(spec_pb2.ResolvedSink.FromString(sink).share)
