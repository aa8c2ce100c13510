"""Which event times are missing where Kafka had deleted records before they were read. Pure; times in us.

A partition is read in order, but for the watermark's delay: what was deleted lies between the last record
that was read of it and the first that remains, and no window that touches this is whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.source.offsets import Lost, Partition, Positions

NEVER = -(2**62)
"""Before all records."""
_MOST = 32
"""So many stretches of a partition are told apart; of more, the oldest are one."""


def lost(
    start: Positions,
    first: Positions,
    read: Mapping[Partition, int],
    heads: Mapping[Partition, int],
    *,
    open_from: int | None,
    delay: int,
    now: int,
) -> tuple[Lost, ...]:
    """What was deleted between `start`, where reading would go on, and the `first` offsets there are.

    `read` is the newest event time that was read of each partition; of one that is left out it is not known:
    what lies before `open_from` is of no open window (None: all may be). `heads` is that of the first record
    which remains; where none does, what was deleted was written before `now`.
    """
    return tuple(
        Lost(
            str(partition),
            first[partition] - offset,
            read[partition] - delay if partition in read else NEVER if open_from is None else open_from,
            max(heads.get(partition, now), read.get(partition, NEVER)) + delay + 1,
            now // 1000,
        )
        for partition, offset in sorted(start.items())
        if first.get(partition, offset) > offset
    )


def merged(known: Sequence[Lost], more: Sequence[Lost]) -> tuple[Lost, ...]:
    """Both together, by partition, the oldest first. Merged twice, the second time changes nothing."""
    by_partition: dict[str, list[Lost]] = {}
    for one in sorted({*known, *more}, key=_age):
        by_partition.setdefault(one.partition, []).append(one)
    for stretches in by_partition.values():
        while len(stretches) > _MOST:
            stretches[:2] = [_joined(*stretches[:2])]
        stretches.sort(key=_age)
    return tuple(lost for _, stretches in sorted(by_partition.items()) for lost in stretches)


def _age(one: Lost) -> tuple[int, Lost]:
    return one.noticed, one


def _joined(one: Lost, other: Lost) -> Lost:
    return Lost(
        one.partition,
        one.records + other.records,
        min(one.begin, other.begin),
        max(one.end, other.end),
        max(one.noticed, other.noticed),
    )
