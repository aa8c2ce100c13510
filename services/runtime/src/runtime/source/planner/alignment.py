"""Where a batch ends when there is more to read than one batch may hold.

Spark's watermark is the maximum over all partitions. A batch that took the same number of records from every
partition would carry the watermark far ahead of what a dense partition still has to read, and the rest of it
would be late. So a batch ends in every partition at the same time: what is read is older than what is left.

Which time: Kafka's, as long as it follows event time within the watermark's delay (Kafka finds an offset by
time for a whole topic in one request). Otherwise, as after a back-fill whose records were all written today,
event time itself, searched for by reading a few records at each candidate offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.source.offsets import Partition, Positions
from runtime.source.planner.sampling import Sample, Samples, crossing, newest, reach, walked, weight

# The first offset in each partition whose record is not older than this time (ms); left out: there is none.
FirstAt = Callable[[int, Positions, Positions], Positions]


def shares(backlog: Mapping[Partition, float], rows: float) -> dict[Partition, float]:
    """How many records each partition may give, when walked they may give `rows` (at least one each).

    What a partition does not need, the others get.
    """
    given: dict[Partition, float] = {}
    left = rows
    hungry = sorted((size, partition) for partition, size in backlog.items())
    for index, (size, partition) in enumerate(hungry):
        given[partition] = max(1.0, left // (len(hungry) - index))
        left -= min(size, given[partition])
    return given


def furthest(start: Positions, end: Positions, rows: int, samples: Samples) -> dict[Partition, int]:
    """How far each partition may go, when walked they may give about `rows` records."""
    heads = samples({partition: offset for partition, offset in start.items() if offset < end[partition]})
    backlog = {
        partition: weight(start[partition], heads[partition], end[partition])
        if partition in heads
        else end[partition] - start[partition]
        for partition, offset in start.items()
        if offset < end[partition]
    }
    walks = {p: reach(start[p], end[p], share) for p, share in shares(backlog, rows).items()}
    return {**start, **walked(walks, samples)}


def aligned(
    start: Positions, end: Positions, rows: int, samples: Samples, first_at: FirstAt
) -> dict[Partition, int]:
    """Where the next batch of at most about `rows` records ends in each partition. `start` and `end` are
    total.

    Every partition ends with its first record that is not older than a horizon, or with its share of the rows
    if that is less. The horizon is a time that every share reaches: whatever is left behind a share comes
    after a record of the horizon, so it is late only if it would have been late anyway. The batch is never
    empty when there is something to read.
    """
    most = furthest(start, end, rows, samples)
    cut = {partition for partition, offset in most.items() if offset < end[partition]}
    if not cut:
        return most
    open_ = {partition: offset for partition, offset in most.items() if offset > start[partition]}
    heads = oldest(samples({partition: start[partition] for partition in open_}))
    horizon = min(heads.values(), default=0) + 1
    reached = walked({partition: newest(start[partition], most[partition]) for partition in cut}, samples)
    times = [time for time in reached.values() if time is not None]
    if len(times) == len(cut):
        horizon = max(horizon, min(times))
    firsts = first_at(horizon, {partition: start[partition] for partition in open_}, open_)
    until = {
        partition: max(start[partition], min(most[partition], firsts.get(partition, most[partition])))
        for partition in start
    }
    # Only unreadable records at hand: there is nothing to align them by.
    return most if until == dict(start) else until


def follows_event_time(lags: Mapping[Partition, float], delay: int) -> bool:
    """Whether Kafka's time may stand for event time: how far it is behind (ms), at most the watermark's
    delay.

    `lags` holds Kafka time minus event time for each partition, the median over some records at its head.
    """
    return all(abs(lag) <= delay for lag in lags.values())


def search(horizon: int, start: Positions, end: Positions, samples: Samples) -> dict[Partition, int]:
    """The first offset in each [start, end) whose record is not older than `horizon`; left out: there is
    none.
    """
    walks = {p: crossing(horizon, offset, end[p]) for p, offset in start.items() if offset < end[p]}
    return {p: offset for p, offset in walked(walks, samples).items() if offset is not None}


def oldest(samples: Mapping[Partition, Sample]) -> dict[Partition, int]:
    """The first time in each sample that has one."""
    return {partition: times[0] for partition, sample in samples.items() if (times := _times(sample))}


def _times(sample: Sample) -> list[int]:
    return [record.time for record in sample if record.time is not None]
