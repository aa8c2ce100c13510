"""Watch the checkpoint while a driver runs: Spark itself only reads it at a launch.

The watcher has a thread of its own, as a store whose host is gone never answers; that case the lease handles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from daggers.v1 import spec_pb2

from chassis import threads
from chassis.logging import logger
from runtime.errors import JobError
from runtime.state import damage, root
from runtime.state.store import Place, open_root

PERIOD_S = 10.0
"""Time between two checks: something is missing if two in a row find so."""


class CheckpointWatcher:
    """Checks one checkpoint until its launch has ended."""

    def __init__(
        self,
        path: Place,
        checkpoints: spec_pb2.CheckpointRoot,
        *,
        active: Callable[[], bool],
        wake: threading.Event,
        ended: threading.Event,
        period_s: float = PERIOD_S,
    ) -> None:
        """active: tells whether the launch is the dagger's driver. wake: set when something is missing."""
        self._path, self._checkpoints = path, checkpoints
        self._active, self._wake, self._ended, self._period_s = active, wake, ended, period_s
        self._failure: JobError | None = None

    def follow(self) -> None:
        """Start the watching thread."""
        threads.start(self._watch, "checkpoint")

    def check(self) -> None:
        """Raise JobError (EXTERNAL, retryable) if something is missing. Never blocks."""
        if self._failure is not None:
            raise self._failure

    def find_missing(self) -> JobError | None:
        """Return the error of what is missing, or None. Raises: OSError where the store does not answer."""
        if self._checkpoints.root and not root.is_marked(open_root(self._checkpoints.root)[0]):
            return root.missing(self._checkpoints.root)
        missing = damage.of(self._path)
        return None if missing is None else missing.error(retryable=True)

    def _watch(self) -> None:
        before: JobError | None = None
        while self._failure is None and not self._ended.wait(self._period_s):
            try:
                missing = self.find_missing() if self._active() else None
            except (OSError, ValueError) as problem:
                logger().warning("checkpoint.check_failed", why=str(problem))
                continue
            if missing is not None and before is not None and missing.error.reason == before.error.reason:
                self._failure = missing
                self._wake.set()
            before = missing
