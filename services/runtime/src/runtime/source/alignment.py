"""Where a batch ends when there is more to read than one batch may hold.

Spark's watermark is the maximum over all partitions. A batch that took the same number of records from every
partition would carry the watermark far ahead of what a dense partition still has to read, and the rest of it
would be late. So a batch ends in every partition at the same time: what is read is older than what is left.

Which time: Kafka's, as long as it follows event time within the watermark's delay (Kafka finds an offset by
time for a whole topic in one request). Otherwise, as after a back-fill whose records were all written today,
event time itself, searched for by reading a few records at each candidate offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from runtime.source.offsets import Partition, Positions

# Records read at one place to learn what time it is there.
SAMPLE = 100

# Offset and time (ms) of some records of one partition, in order of offset.
Sample = Sequence[tuple[int, int]]
# The first SAMPLE records in each partition from these offsets on; empty or left out: none is readable.
Samples = Callable[[Positions], Mapping[Partition, Sample]]
# The first offset in each partition whose record is not older than this time (ms); left out: there is none.
FirstAt = Callable[[int, Positions, Positions], Positions]


def shares(start: Positions, end: Positions, rows: int) -> dict[Partition, int]:
    """The furthest each partition may go, when together they may read `rows` records (at least one each).

    What a partition does not need, the others get.
    """
    backlog = {partition: end[partition] - start[partition] for partition in start}
    limit = dict.fromkeys(start, 0)
    left = rows
    hungry = sorted((size, partition) for partition, size in backlog.items() if size > 0)
    for index, (size, partition) in enumerate(hungry):
        share = max(1, left // (len(hungry) - index))
        limit[partition] = min(size, share)
        left -= limit[partition]
    return {partition: start[partition] + limit[partition] for partition in start}


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
    furthest = shares(start, end, rows)
    cut = {partition for partition, offset in furthest.items() if offset < end[partition]}
    if not cut:
        return furthest
    open_ = {partition: offset for partition, offset in furthest.items() if offset > start[partition]}
    heads = oldest(samples({partition: start[partition] for partition in open_}))
    horizon = min(heads.values(), default=0) + 1
    tails = samples({p: max(start[p], furthest[p] - SAMPLE) for p in cut})
    reached = newest({p: [one for one in tail if one[0] < furthest[p]] for p, tail in tails.items()})
    if cut <= reached.keys():
        horizon = max(horizon, min(reached.values()))
    found = first_at(horizon, {partition: start[partition] for partition in open_}, open_)
    until = {
        partition: max(start[partition], min(furthest[partition], found.get(partition, furthest[partition])))
        for partition in start
    }
    # Only unreadable records at hand: there is nothing to align them by.
    return furthest if until == dict(start) else until


def follows_event_time(lags: Mapping[Partition, float], delay: int) -> bool:
    """Whether Kafka's time may stand for event time: how far it is behind (ms), at most the watermark's
    delay.

    `lags` holds Kafka time minus event time for each partition, the median over some records at its head.
    """
    return all(abs(lag) <= delay for lag in lags.values())


def search(horizon: int, start: Positions, end: Positions, samples: Samples) -> dict[Partition, int]:
    """The first offset in each [start, end) whose record is not older than `horizon`; left out: there is
    none.

    Halves all partitions in step, so that each round is one question. Asks for the greatest time of a sample,
    so that single records that are out of order do not lead the search astray.
    """
    low, high = dict(start), dict(end)
    while still := {partition for partition in low if low[partition] < high[partition]}:
        middle = {partition: (low[partition] + high[partition]) // 2 for partition in still}
        times = newest(samples(middle))
        for partition in still:
            if partition in times and times[partition] < horizon:
                low[partition] = middle[partition] + 1
            else:
                high[partition] = middle[partition]
    found: dict[Partition, int] = {}
    for partition, sample in samples({p: low[p] for p in low if low[p] < end[p]}).items():
        reached = [offset for offset, time in sample if time >= horizon and offset < end[partition]]
        if reached:
            found[partition] = reached[0]
    return found


def oldest(samples: Mapping[Partition, Sample]) -> dict[Partition, int]:
    """The time of the first record of each sample that is not empty."""
    return {partition: sample[0][1] for partition, sample in samples.items() if sample}


def newest(samples: Mapping[Partition, Sample]) -> dict[Partition, int]:
    """The greatest time of each sample that is not empty."""
    return {partition: max(time for _, time in sample) for partition, sample in samples.items() if sample}
