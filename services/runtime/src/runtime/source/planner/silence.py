"""How long nothing new has come in each partition of one reader. Pure; times are in ms, of one clock."""

from __future__ import annotations

from typing import Final

from runtime.source.offsets import Partition, Positions

LONGEST_GRACE: Final = 120_000
"""For so long, at most, event time waits after an outage for partitions that bring nothing new."""


# Ends are looked at more often than this, while no batch runs.
_WATCHED: Final = 5_000


class Silence:
    """Watches the ends of partitions. A partition that brings nothing new for the idle timeout is silent.

    While Kafka cannot be reached nobody brings anything new, and afterwards producers need a while. So the
    silence of all begins anew then, and takes as long as the outage did, but no less than the idle timeout
    and no more than `LONGEST_GRACE`.
    """

    def __init__(self, timeout: int) -> None:
        """With a `timeout` of 0 no partition ever falls silent."""
        self._timeout = timeout
        self._ends: Positions = {}
        self._since: dict[Partition, int] = {}
        self._patience: dict[Partition, int] = {}
        self._looked: int | None = None
        self._is_lost = False

    def lose(self) -> None:
        """Kafka does not answer: from any thread."""
        self._is_lost = True

    def look(self, ends: Positions, now: int) -> None:
        """Kafka has answered: the partitions end here now."""
        unwatched = 0 if self._looked is None else now - self._looked
        was_lost, self._is_lost = self._is_lost, False
        for partition in self._since:
            if was_lost:
                self._since[partition] = now
                self._patience[partition] = max(self._timeout, min(unwatched, LONGEST_GRACE))
            else:
                # Nobody looks while a batch runs, and batches wait while Kafka is away, too.
                self._since[partition] += max(0, unwatched - max(self._timeout // 2, _WATCHED))
        for partition, end in ends.items():
            if self._ends.get(partition) != end:
                self._since[partition], self._patience[partition] = now, self._timeout
        self._ends, self._looked = dict(ends), now

    def is_silent(self, partition: Partition, now: int) -> bool:
        """Whether nothing new has come in it for long enough."""
        patience = self._patience.get(partition, self._timeout)
        return self._timeout > 0 and self.length(partition, now) >= patience

    def length(self, partition: Partition, now: int) -> int:
        """For how long nothing new has come."""
        return max(0, now - self._since.get(partition, now))
