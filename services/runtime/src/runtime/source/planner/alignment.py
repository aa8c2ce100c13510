"""Find the end of a batch when there is more to read than one batch may hold.

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
from runtime.source.planner.sampling import Sample, Samples, crossing, newest, reach, walk_all, weight

# The first offset in each partition whose record is not older than this time (ms); left out: there is none.
FirstAt = Callable[[int, Positions, Positions], Positions]


def shares(backlog: Mapping[Partition, float], rows: float) -> dict[Partition, float]:
    """Share `rows` records among the partitions, at least one each.

    The rest of a partition that needs less is shared among the others.
    """
    given: dict[Partition, float] = {}
    left = rows
    hungry = sorted((size, partition) for partition, size in backlog.items())
    for index, (size, partition) in enumerate(hungry):
        given[partition] = max(1.0, left // (len(hungry) - index))
        left -= min(size, given[partition])
    return given


def furthest(start: Positions, end: Positions, rows: int, samples: Samples) -> dict[Partition, int]:
    """Return the furthest offset of each partition, when they give about `rows` records together."""
    heads = samples({partition: offset for partition, offset in start.items() if offset < end[partition]})
    backlog = {
        partition: weight(start[partition], heads[partition], end[partition])
        if partition in heads
        else end[partition] - start[partition]
        for partition, offset in start.items()
        if offset < end[partition]
    }
    walks = {p: reach(start[p], end[p], share) for p, share in shares(backlog, rows).items()}
    return {**start, **walk_all(walks, samples)}


def align(
    start: Positions, end: Positions, rows: int, samples: Samples, first_at: FirstAt
) -> dict[Partition, int]:
    """Find the end, by partition, of the next batch of at most about `rows` records.

    `start` and `end` are total.

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
    reached = walk_all({partition: newest(start[partition], most[partition]) for partition in cut}, samples)
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
    """Tell whether Kafka's time may stand for event time: it is behind (ms) by at most the watermark's delay.

    `lags` holds Kafka time minus event time for each partition, the median over some records at its head.
    """
    return all(abs(lag) <= delay for lag in lags.values())


def search(horizon: int, start: Positions, end: Positions, samples: Samples) -> dict[Partition, int]:
    """Find the first offset in each [start, end) whose record is not older than `horizon`.

    Partitions without one are left out.
    """
    walks = {p: crossing(horizon, offset, end[p]) for p, offset in start.items() if offset < end[p]}
    return {p: offset for p, offset in walk_all(walks, samples).items() if offset is not None}


def oldest(samples: Mapping[Partition, Sample]) -> dict[Partition, int]:
    """Return the first time in each sample that has one."""
    return {partition: times[0] for partition, sample in samples.items() if (times := _times(sample))}


def _times(sample: Sample) -> list[int]:
    return [record.time for record in sample if record.time is not None]
