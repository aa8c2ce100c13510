"""Measure how long nothing new has come in partitions of one reader. Pure; times are in ms, of one clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from runtime.source.offsets import Partition, Positions

LONGEST_GRACE: Final = 120_000
"""Longest time that event time waits after an outage for partitions that bring nothing new."""


# Ends are looked at more often than this, while no batch runs.
_WATCHED: Final = 5_000


@dataclass(slots=True)
class _Barren:
    """Partition of which only records were read, `since` then, that cannot be used."""

    since: int
    patience: int
    """Time that this has to last."""
    read_until: int
    """Time up to which its records have been read."""
    marked: int
    """End of the partition …"""
    marked_at: int
    """… at this time."""


class PartitionSilence:
    """Watches the ends of partitions. A partition that brings nothing new for the idle timeout is silent; one
    that brings records all that time, none of which can be used, is barren.

    While Kafka cannot be reached nobody brings anything new, and afterwards producers need a while. So the
    silence of all begins anew then, and takes as long as the outage did, but no less than the idle timeout
    and no more than `LONGEST_GRACE`.
    """

    def __init__(self, timeout: int) -> None:
        """Count no partition as silent with a `timeout` of 0."""
        self._timeout = timeout
        self._ends: Positions = {}
        self._since: dict[Partition, int] = {}
        self._patience: dict[Partition, int] = {}
        self._barren: dict[Partition, _Barren] = {}
        self._read: Positions = {}
        self._usable: Mapping[Partition, int] = {}
        self._last_look: int | None = None
        self._is_lost = False

    def lose(self) -> None:
        """Note that Kafka does not answer: from any thread."""
        self._is_lost = True

    def look(self, ends: Positions, now: int) -> None:
        """Take in the present ends of the partitions: Kafka has answered."""
        unwatched = 0 if self._last_look is None else now - self._last_look
        was_lost, self._is_lost = self._is_lost, False
        grace = max(self._timeout, min(unwatched, LONGEST_GRACE))
        # Nobody looks while a batch runs, and batches wait while Kafka is away, too.
        missed = max(0, unwatched - max(self._timeout // 2, _WATCHED))
        for partition in self._since:
            if was_lost:
                self._since[partition], self._patience[partition] = now, grace
            else:
                self._since[partition] += missed
        for barren in self._barren.values():
            if was_lost:
                barren.since, barren.patience = now, grace
            else:
                barren.since += missed
        for partition, end in ends.items():
            if self._ends.get(partition) != end:
                self._since[partition], self._patience[partition] = now, self._timeout
        self._ends, self._last_look = dict(ends), now

    def read(self, here: Positions, usable: Mapping[Partition, int], now: int) -> None:
        """Take in, after a look, that partitions are read up to `here`.

        `usable` counts the batches that had usable records of a partition.
        """
        for partition, end in self._ends.items():
            offset = here.get(partition, 0)
            barren = self._barren.get(partition)
            bore = usable.get(partition, 0) != self._usable.get(partition, 0)
            if bore or self.is_silent(partition, now):
                self._barren.pop(partition, None)
            elif barren is None:
                if offset > self._read.get(partition, offset):
                    self._barren[partition] = _Barren(now, self._timeout, now, end, now)
            elif offset >= barren.marked:
                barren.read_until, barren.marked, barren.marked_at = barren.marked_at, end, now
        self._read, self._usable = dict(here), dict(usable)

    def is_barren(self, partition: Partition) -> bool:
        """Tell whether all that it has brought for long enough is read, and none of it can be used."""
        barren = self._barren.get(partition)
        return (
            self._timeout > 0 and barren is not None and barren.read_until - barren.since >= barren.patience
        )

    def is_silent(self, partition: Partition, now: int) -> bool:
        """Tell whether nothing new has come in it for long enough."""
        patience = self._patience.get(partition, self._timeout)
        return self._timeout > 0 and self.length(partition, now) >= patience

    def length(self, partition: Partition, now: int) -> int:
        """Return for how long nothing new has come."""
        return max(0, now - self._since.get(partition, now))
