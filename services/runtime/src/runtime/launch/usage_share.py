"""Share out what a process uses among the launches that run in it, equally. Pure.

The processor time of a process is known, that of one of its queries is not: Spark, its compiler and the
Python workers serve all of them. Sums over the launches of a process are what the process uses.
"""

from __future__ import annotations

from collections.abc import Callable

from chassis.processes import SessionUsage


class UsageShare:
    """Share of one launch."""

    def __init__(self, members: Callable[[], int], *, is_first: bool) -> None:
        """members: returns how many launches share the process, at least 1. is_first: True for the first
        launch that the process ever had.
        """
        self._members, self._is_first = members, is_first
        self._of_process: float | None = None
        self._cpu_seconds = 0.0

    def measure(self, used: SessionUsage) -> SessionUsage:
        """Return the share in what the process has used so far, of its processor from this launch's start on.

        The first launch of a process has used what the process had before, too: its start.
        """
        count = self._members()
        if self._of_process is None:
            self._of_process = 0.0 if self._is_first else used.cpu_seconds
        # CPU time of ended orphans is missing from the session: never let the sum decrease
        latest = max(self._of_process, used.cpu_seconds)
        self._cpu_seconds += (latest - self._of_process) / count
        self._of_process = latest
        return SessionUsage(used.resident_bytes // count, self._cpu_seconds)
