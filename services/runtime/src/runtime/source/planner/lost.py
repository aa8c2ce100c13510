"""Find the event times that are missing where Kafka had deleted records before they were read. Pure; in us.

A partition is read in order, but for the watermark's delay: what was deleted lies between the last record
that was read of it and the first that remains, and no window that touches this is whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.source.offsets import LostRecords, Partition, Positions

NEVER = -(2**62)
"""Time before all records."""
_MOST = 32
"""Most stretches of a partition that are distinguished; of more, the oldest are one."""


def find(
    start: Positions,
    first: Positions,
    read: Mapping[Partition, int],
    heads: Mapping[Partition, int],
    *,
    open_from: int | None,
    delay: int,
    now: int,
) -> tuple[LostRecords, ...]:
    """Find the records deleted between `start`, where reading would go on, and the `first` offsets there are.

    `read` is the newest event time that was read of each partition; without it the time is not known: what
    lies before `open_from` is of no open window (None: all may be). `heads` is the event time of the first
    record that remains; where none does, the deleted ones were written before `now`.
    """
    return tuple(
        LostRecords(
            str(partition),
            first[partition] - offset,
            read[partition] - delay if partition in read else NEVER if open_from is None else open_from,
            max(heads.get(partition, now), read.get(partition, NEVER)) + delay + 1,
            now // 1000,
        )
        for partition, offset in sorted(start.items())
        if first.get(partition, offset) > offset
    )


def merge(ours: Sequence[LostRecords], theirs: Sequence[LostRecords]) -> tuple[LostRecords, ...]:
    """Merge by partition, the oldest first. Merged twice, the second time changes nothing."""
    by_partition: dict[str, list[LostRecords]] = {}
    for one in sorted({*ours, *theirs}, key=_age):
        by_partition.setdefault(one.partition, []).append(one)
    for stretches in by_partition.values():
        while len(stretches) > _MOST:
            stretches[:2] = [_join(*stretches[:2])]
        stretches.sort(key=_age)
    return tuple(lost for _, stretches in sorted(by_partition.items()) for lost in stretches)


def _age(one: LostRecords) -> tuple[int, LostRecords]:
    return one.noticed, one


def _join(one: LostRecords, other: LostRecords) -> LostRecords:
    return LostRecords(
        one.partition,
        one.records + other.records,
        min(one.begin, other.begin),
        max(one.end, other.end),
        max(one.noticed, other.noticed),
    )
