"""Estimate from samples how far a number of records reaches in a partition, and what is newest there.

Offsets are no count: transactions and compaction leave gaps, which may be as long as all else. Pure: a walk
yields the offset from which it wants a sample and is sent that; `walk_all` reads for all partitions at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from runtime.source.offsets import Partition, Positions

SAMPLE = 100
"""Count of records read at one place."""
SAMPLE_BYTES = 2**20
"""Bytes after which no more are read."""
UNIT = 1024
"""Weight of a record: one for each of so many bytes, at least one."""
# Share of the limit that is not worth a further sample.
_SLACK = 1 / 8
# Factor by which each step back for the newest record is longer.
_BACK = 8


class SampledRecord(NamedTuple):
    """A record: its offset, its time (ms; None when it cannot be used), the bytes of its value."""

    offset: int
    time: int | None
    size: int = 0

    @property
    def weight(self) -> float:
        """Count of records that it stands for."""
        return max(1.0, self.size / UNIT)


_T = TypeVar("_T")
# The first records from an offset on, in order of offset.
Sample = Sequence[SampledRecord]
# The sample at each offset; left out: Kafka found no record in time, as in a gap of gigabytes.
Samples = Callable[[Positions], Mapping[Partition, Sample]]


def walk_all(
    walks: Mapping[Partition, Generator[int, Sample | None, _T]], samples: Samples
) -> dict[Partition, _T]:
    """Run all walks to their ends, and return their results; each round is one request for all of them."""
    results: dict[Partition, _T] = {}
    positions = {partition: next(walk) for partition, walk in walks.items()}
    while positions:
        answers, before, positions = samples(positions), positions, {}
        for partition in before:
            try:
                positions[partition] = walks[partition].send(answers.get(partition))
            except StopIteration as end:
                results[partition] = end.value
    return results


def weight(start: int, sample: Sample, end: int) -> float:
    """Estimate the weight of [start, end), if all of it is like the sample that was taken at `start`."""
    until = end if _is_last(sample) else sample[-1].offset + 1
    return sum(record.weight for record in sample) / max(1, until - start) * (end - start)


def reach(start: int, end: int, most: float) -> Generator[int, Sample | None, int]:
    """Find how far about `most` records reach in [start, end), at least one.

    The steps become longer as long as there seem to be no more records than `most`, by what their two ends
    look like, then shorter. Where it cannot be seen what there is, `most` offsets are taken.
    """
    reached, left = start, most
    head = yield reached
    if head is None:
        return min(end, reached + max(1, int(most)))
    for record in head:
        left -= record.weight
        if left <= 0 or record.offset >= end:
            return min(end, record.offset + 1)
    if _is_last(head):
        return end
    here = weight(reached, head, end) / (end - reached)
    # How far before its end a step is sampled: what is hidden behind that is little.
    length = min(head[-1].offset + 1 - reached, max(1, int(most * _SLACK)))
    left, shorter = most, False
    step = max(1, int(min(most, most / here)))
    while reached < end and left > most * _SLACK and step:
        until = min(end, reached + step)
        look = max(reached, until - length)
        sample = yield look
        if sample is None:
            break
        there = weight(look, sample, end) / (end - look)
        if (until - reached) * max(here, there) <= left:
            left -= (until - reached) * (here + there) / 2
            reached, here = until, there
        else:
            shorter = True
        step = step // 2 if shorter else step * 2
    return max(reached, head[-1].offset + 1)


def newest(start: int, end: int) -> Generator[int, Sample | None, int | None]:
    """Find the greatest time of the last records in [start, end); None where none can be used."""
    sampled = low = high = end
    time, distance = None, SAMPLE
    while time is None and sampled > start:
        sampled, high = max(start, end - distance), sampled
        sample = yield sampled
        if sample is None:
            return None
        time, low = _before(end, sample)
        distance *= _BACK
    # Between `low` and `high` there may be more of them.
    while time is not None and low < high:
        middle = (low + high) // 2
        later, after = _before(end, (yield middle) or ())
        if later is None:
            high = middle
        else:
            time, low = max(time, later), after
    return time


def crossing(time: int, start: int, end: int) -> Generator[int, Sample | None, int | None]:
    """Find the offset of the first record in [start, end) that is not older than `time`; None: none is.

    Looks at both ends first, whose samples are known, then where a steady flow would have it, and in the
    middle whenever that left more than half. A sample is older than `time` when its greatest time is, so that
    single records that are out of order do not lead astray.
    """
    low, high, crossed = start, end, None
    older: tuple[int, int] | None = None
    newer: tuple[int, int] | None = None
    position, left = start, 2 * (end - start)
    while low < high:
        records = [record for record in (yield position) or () if record.offset < end]
        times = [(record.offset, record.time) for record in records if record.time is not None]
        first = next((offset for offset, one in times if one >= time), None)
        if first is None and times:
            low, older = records[-1].offset + 1, times[-1]
        elif first is not None and times[0][0] < first:
            return first
        else:
            high = position
            if first is not None:
                crossed, newer = first, times[0]
        if position == start:
            position = max(low, end - SAMPLE)
            continue
        position = (low + high) // 2
        if older is not None and newer is not None and 2 * (high - low) <= left:
            share = (time - older[1]) / max(1, newer[1] - older[1])
            position = older[0] + int(share * (newer[0] - older[0])) - SAMPLE // 2
        position, left = max(low, min(position, high - 1)), high - low
    return crossed


def _before(end: int, sample: Sample) -> tuple[int | None, int]:
    """Return the greatest time of the records before `end`, and the offset from which more may follow."""
    times = [record.time for record in sample if record.offset < end and record.time is not None]
    more = bool(sample) and not _is_last(sample) and sample[-1].offset < end
    return max(times, default=None), sample[-1].offset + 1 if more else end


def _is_last(sample: Sample) -> bool:
    """Tell whether nothing follows a sample."""
    return len(sample) < SAMPLE and sum(record.size for record in sample) < SAMPLE_BYTES
