"""Hold the lease of a dagger: the right of one generation to write.

All checkpoints of a dagger share one lease, because an edit begins a new checkpoint.

A driver takes the lease from any older generation, and checks before each write that it still holds it. A
driver that cannot check for `PATIENCE_S` stops, so that a silent host can be replaced after twice that time.

Only time in which this process ran counts as silence of the store: a process that was stopped, or got no
processor, could not check, and checks again before it decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chassis import threads
from chassis.pressure import HOST_OVERLOADED, overload
from runtime.errors import FencedError, JobError, external
from runtime.state.store import Store

PATIENCE_S = 60.0
_PERIOD_S = 1.0
_TURN_S = 5.0
"""Longest pause between two measurements of a process that gets its processor."""


class RunningTime:
    """Measures the seconds in which this process ran. Thread-safe.

    A pause of more than `_TURN_S` between two measurements counts as `_TURN_S`: the process did not run.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: monotonic seconds, which pass also while the process stands still."""
        self._clock = clock
        self._last, self._ran, self._lock = clock(), 0.0, threading.Lock()

    def measure(self) -> float:
        """Return the running seconds since the creation of this object."""
        with self._lock:
            now = self._clock()
            self._ran += min(now - self._last, _TURN_S)
            self._last = now
            return self._ran


class Lease:
    """Lease of one generation. Thread-safe."""

    def __init__(
        self,
        store: Store,
        generation: int,
        clock: Callable[[], float],
        wait: Callable[[float], None] = time.sleep,
        overload: Callable[[], str] = overload,
    ) -> None:
        """Prepare the lease; it is not held before `take`.

        clock: monotonic seconds. wait: sleeps. overload: a clause on what overloads the host; empty if
        nothing.
        """
        self._overload = overload
        self._wait = wait
        self._store = store
        self._generation = generation
        self._time = RunningTime(clock)
        self._confirmed = 0.0

    def take(self) -> None:
        """Take the lease from an older generation, or again. Raises: FencedError, JobError (EXTERNAL)."""
        try:
            self._raise_if_fenced(self._store.take(self._generation))
        except (OSError, ValueError) as problem:
            raise self._unreadable(problem) from problem

    def confirm(self) -> None:
        """Block until it is certain that this generation may write.

        While the store does not answer, a newer generation may have the lease. Raises: FencedError, JobError
        (EXTERNAL, retryable), as `check` does.
        """
        while not self.check():
            self._wait(_PERIOD_S)

    def check(self) -> bool:
        """Tell whether this generation certainly holds the lease now; False if the store does not answer.

        Raises: FencedError where a newer generation holds it; JobError (EXTERNAL, retryable) where the store
        did not answer for `PATIENCE_S`.
        """
        try:
            holder = self._store.read()
            if holder < self._generation:  # the directory was emptied, or restored from an old backup
                holder = self._store.take_again(self._generation)
        except (OSError, ValueError) as problem:
            if self._silence() < PATIENCE_S:
                return False
            raise self._unreadable(problem) from problem
        self._raise_if_fenced(holder)
        return True

    @property
    def lost(self) -> bool:
        """True if no check has succeeded for `PATIENCE_S`.

        Also true while a check hangs, as it does when the store's host is unreachable.
        """
        return self._silence() >= PATIENCE_S

    def lost_error(self) -> JobError:
        """Build the error of a lost lease."""
        silent = OSError(f"no answer for {PATIENCE_S:.0f} s")
        if overload := self._overload():  # a slow disk is not at fault
            text = f"The lease cannot be asked for ({silent}): {overload}."
            return external(HOST_OVERLOADED, text, retryable=True)
        return self._unreadable(silent)

    def _raise_if_fenced(self, holder: int) -> None:
        if holder > self._generation:
            raise FencedError(self._generation, holder)
        self._confirmed = self._time.measure()

    def _silence(self) -> float:
        """Return the running seconds since the last successful check."""
        return self._time.measure() - self._confirmed

    def _unreadable(self, problem: Exception) -> JobError:
        return external(
            "LEASE_UNREADABLE",
            f"The lease in the checkpoint root cannot be used ({problem}); check the disk and its rights.",
            retryable=True,
        )


class LeaseWatcher:
    """Checks the lease every second, in its own thread: a store whose host is gone never answers."""

    def __init__(self, lease: Lease, *, wake: threading.Event, ended: threading.Event) -> None:
        """Start at once, until `ended`. wake: set when this generation has lost the lease."""
        self._lease = lease
        self._wake = wake
        self._ended = ended
        self._failure: JobError | None = None
        threads.start(self._watch, "lease")

    def check(self) -> None:
        """Raise FencedError or JobError (EXTERNAL, retryable) if the lease is lost. Never blocks."""
        if self._failure is not None:
            raise self._failure
        if self._lease.lost:
            raise self._lease.lost_error()

    def _watch(self) -> None:
        while self._failure is None and not self._ended.is_set():
            try:
                self._lease.check()
            except JobError as failure:
                self._failure = failure
                self._wake.set()
            self._ended.wait(_PERIOD_S)
