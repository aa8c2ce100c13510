"""Divide the work of a batch into tasks. Pure; planned in the driver, pickled, and done in executors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from runtime.source.offsets import Partition

_RECORDS = 10_000  # worth a task


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records to read: offsets from `start` up to, not including, `end`; `id` is the topic's."""

    partition: Partition
    id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ReadRanges:
    """Read these ranges, in order.

    `planned_ms` is when the batch was planned; `siblings` about how many partitions share a worker's memory:
    those of the reader, times the launches of its process.
    """

    ranges: tuple[OffsetRange, ...]
    planned_ms: int
    siblings: int


@dataclass(frozen=True, slots=True)
class AdvanceWatermark:
    """Emit an idle advance to this event time."""

    time_ms: int


Task: TypeAlias = ReadRanges | AdvanceWatermark


def group_ranges(ranges: Iterable[OffsetRange], slots: int = 0) -> list[tuple[OffsetRange, ...]]:
    """Group ranges for tasks, one group each: small ones together, in order.

    A task costs Spark and its workers a tenth of a second, whatever it reads, and what two tasks have grouped
    Spark groups again. So there are no more than `slots`, which is how many run at once; 0: not known.
    """
    groups: list[list[OffsetRange]] = []
    room = 0
    for wanted in ranges:
        size = wanted.end - wanted.start
        if not groups or size > room:
            groups.append([])
            room = _RECORDS
        groups[-1].append(wanted)
        room -= size
    return [tuple(group) for group in (_spread(groups, slots) if slots else groups)]


def _spread(groups: Sequence[list[OffsetRange]], slots: int) -> list[list[OffsetRange]]:
    """Merge the groups to `slots` at most: the largest first, each to the smallest so far."""
    spread: list[list[OffsetRange]] = [[] for _ in range(min(slots, len(groups)))]
    for group in sorted(groups, key=_records, reverse=True):
        min(spread, key=_records).extend(group)
    return spread


def _records(ranges: Iterable[OffsetRange]) -> int:
    return sum(range_.end - range_.start for range_ in ranges)
