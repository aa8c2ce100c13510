"""Find the records that a preview reads: a range of each partition, decided once, before its query starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.source.event_times import EventTimes
from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.planner import start_offsets
from runtime.source.planner.broker import Broker
from runtime.source.planner.given_input import GivenInput


@dataclass(frozen=True, slots=True)
class Range:
    """Wanted records of a stream; times are Kafka's, in ms since the epoch."""

    most: int
    """Most records of a stream: of more, the oldest are left out."""
    since: int | None = None
    """Begin; None: the first record."""
    until: int | None = None
    """End, not included; None: the last record there is now."""
    live_until: int = 0
    """Not 0: records that come up to then are read, too."""
    last_records: int = 0
    """Not 0: about that many of the newest, whenever they were written."""
    first_rows: bool = False
    """True if somebody waits for the first rows."""
    given: GivenInput | None = None
    """Not None: these records are read, and none of a topic."""


@dataclass(frozen=True, slots=True)
class RangeBounds:
    """RangeBounds of a stream's records, by partition."""

    start: Offsets
    end: Positions
    left_out: int = 0
    """Count of records beyond the limit."""

    @property
    def records(self) -> int:
        """Count of its offsets."""
        return sum(end - self.start.next[partition] for partition, end in self.end.items())


def bounds(broker: Broker, topics: Sequence[str], wanted: Range, times: EventTimes) -> RangeBounds:
    """Find the range of these topics. Raises: JobError."""
    ids, partitions = start_offsets.describe_topics(broker, topics)
    first, end = broker.first(partitions), broker.end(partitions)
    if wanted.until is not None:
        end = {**end, **broker.first_at(wanted.until, partitions)}
    start = dict(first)
    if wanted.since is not None:
        start = {**end, **broker.first_at(wanted.since, partitions)}
    # Retention may take records between two questions, and a range may be in the future.
    start = {partition: min(max(start[partition], first[partition]), end[partition]) for partition in end}
    if wanted.last_records:
        start = newest(start, end, wanted.last_records)
    sizes = sum(end[partition] - start[partition] for partition in end)
    bounded = newest(start, end, wanted.most)
    left_out = sizes - sum(end[partition] - bounded[partition] for partition in end)
    return RangeBounds(start_offsets.begin_at(broker, ids, bounded, times), end, left_out)


def newest(start: Mapping[Partition, int], end: Positions, most: int) -> dict[Partition, int]:
    """Find where the last `most` records begin, as evenly of each partition as they have them."""
    left, begin = most, dict(start)
    sizes = {partition: end[partition] - start[partition] for partition in end}
    for number, partition in enumerate(sorted(sizes, key=lambda key: (sizes[key], key))):
        count = min(sizes[partition], left // (len(sizes) - number))
        begin[partition] = end[partition] - count
        left -= count
    return begin
