"""The lease of a dagger: which generation may write.

One for all its checkpoints, because an edit makes a new one.

A driver takes the lease from any older generation, and asks before every write whether it still holds it. A
driver that cannot ask for `PATIENCE_S` stops, so that a host that went away silently can be replaced after
twice that time.

Only time in which this process ran counts as silence of the store: a process that was stopped, or got no
processor, could not ask, and asks before it judges.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chassis.pressure import HOST_OVERLOADED, overload
from runtime.errors import FencedError, JobError, external
from runtime.state.store import Store

PATIENCE_S = 60.0
_PERIOD_S = 1.0
_TURN_S = 5.0
"""Threads of a process that gets its processor come here more often than that."""


class RunningTime:
    """Seconds in which this process ran, as far as it came here to measure them. Thread-safe.

    A longer stretch between two measurements than `_TURN_S` was no time of its own: it counts as that.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds, which pass also while the process stands still."""
        self._clock = clock
        self._last, self._ran, self._lock = clock(), 0.0, threading.Lock()

    def measure(self) -> float:
        """The seconds since it was made."""
        with self._lock:
            now = self._clock()
            self._ran += min(now - self._last, _TURN_S)
            self._last = now
            return self._ran


class Lease:
    """The right of one generation to write. Thread-safe."""

    def __init__(
        self,
        store: Store,
        generation: int,
        clock: Callable[[], float],
        wait: Callable[[float], None] = time.sleep,
        overload: Callable[[], str] = overload,
    ) -> None:
        """`clock` gives monotonic seconds, `wait` lets some pass, `overload` says in one clause that the host
        has too much to do. Nothing is held before `take`.
        """
        self._overload = overload
        self._wait = wait
        self._store = store
        self._generation = generation
        self._time = RunningTime(clock)
        self._confirmed = 0.0

    def take(self) -> None:
        """Take the lease from an older generation, or again. Raises FencedError, or JobError (EXTERNAL)."""
        try:
            self._stand_against(self._store.take(self._generation))
        except (OSError, ValueError) as problem:
            raise self._unreadable(problem) from problem

    def confirm(self) -> None:
        """Return once it is sure that this generation may write; while it cannot be asked, wait.

        Not knowing is no right to write: a newer generation may have the lease. Raises as `check`.
        """
        while not self.check():
            self._wait(_PERIOD_S)

    def check(self) -> bool:
        """Whether this generation is known to hold the lease now; False when that cannot be asked.

        Raises FencedError when a newer one holds the lease, and `JobError` (EXTERNAL, retryable) when that
        could not be asked for `PATIENCE_S`.
        """
        try:
            held = self._store.read()
            if held < self._generation:  # the directory was emptied, or restored from an old copy
                held = self._store.take_again(self._generation)
        except (OSError, ValueError) as problem:
            if self._silence() < PATIENCE_S:
                return False
            raise self._unreadable(problem) from problem
        self._stand_against(held)
        return True

    @property
    def lost(self) -> bool:
        """Whether this generation could not make sure for `PATIENCE_S` that it may write.

        Also true while a check hangs, as it does when the store's host is unreachable.
        """
        return self._silence() >= PATIENCE_S

    def give_up(self) -> JobError:
        """What to raise when the lease is lost."""
        silent = OSError(f"no answer for {PATIENCE_S:.0f} s")
        if overload := self._overload():  # nothing is wrong with a disk that is only slow
            text = f"The lease cannot be asked for ({silent}): {overload}."
            return external(HOST_OVERLOADED, text, retryable=True)
        return self._unreadable(silent)

    def _stand_against(self, held: int) -> None:
        if held > self._generation:
            raise FencedError(self._generation, held)
        self._confirmed = self._time.measure()

    def _silence(self) -> float:
        """Seconds of this process's time since it last made sure."""
        return self._time.measure() - self._confirmed

    def _unreadable(self, problem: Exception) -> JobError:
        return external(
            "LEASE_UNREADABLE",
            f"The lease in the checkpoint root cannot be used ({problem}); check the disk and its rights.",
            retryable=True,
        )


class LeaseWatcher:
    """Asks for the lease every second, on a thread of its own: a store whose host is gone never answers."""

    def __init__(self, lease: Lease, *, wake: threading.Event, ended: threading.Event) -> None:
        """Starts at once, until `ended`; `wake` is set when the lease is not this generation's any more."""
        self._lease = lease
        self._wake = wake
        self._ended = ended
        self._failure: JobError | None = None
        threading.Thread(target=self._watch, name="lease", daemon=True).start()

    def check(self) -> None:
        """Return if this generation may go on. Raises what `Lease.check` does; never waits."""
        if self._failure is not None:
            raise self._failure
        if self._lease.lost:
            raise self._lease.give_up()

    def _watch(self) -> None:
        while self._failure is None and not self._ended.is_set():
            try:
                self._lease.check()
            except JobError as failure:
                self._failure = failure
                self._wake.set()
            self._ended.wait(_PERIOD_S)
