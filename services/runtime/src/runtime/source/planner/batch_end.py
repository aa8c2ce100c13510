"""Find the end of a batch of a bounded number of records: `alignment` decides, by samples of the topics."""

from __future__ import annotations

from runtime.source.event_times import EventTimes
from runtime.source.offsets import Positions
from runtime.source.planner import alignment
from runtime.source.planner.broker import Broker
from runtime.source.planner.record_samples import RecordSamples
from runtime.source.planner.sampling import UNIT

# Weight of a record, in records, before any was sampled: 10 MiB.
_HEAVY = 10 * 2**20 / UNIT
# A batch of more than this part of the limit is worth a sample of how heavy its records are.
_SMALL = 10
# What would be left is read with the rest, where that makes a batch no longer than by so much.
_REST = 1.25


class BatchEnd:
    """Finds the ends of one reader's batches. Remembers the weight of its records in the last sample."""

    def __init__(self, broker: Broker, times: EventTimes) -> None:
        self._broker = broker
        self._times = times
        self._weight = _HEAVY

    def samples(self) -> RecordSamples:
        """Open samples of the topics as they are now."""
        return RecordSamples(self._broker, self._times)

    def find(self, start: Positions, end: Positions, rows: int) -> Positions:
        """Find the end of a batch of about `rows` records of [start, end)."""
        offsets = sum(end[partition] - start[partition] for partition in end)
        if offsets * max(self._weight, _SMALL) <= rows:
            return end
        samples = self.samples()
        heads = {p: offset for p, offset in start.items() if offset < end[p]}
        self._weight = samples.weight(heads)
        if offsets * self._weight <= rows * _REST:
            return end
        if alignment.follows_event_time(samples.lags(heads), self._times.delay_ms):
            return alignment.align(
                start,
                end,
                rows,
                samples.by_kafka_time,
                lambda horizon, from_, _: self._broker.first_at(horizon, from_),
            )
        return alignment.align(
            start,
            end,
            rows,
            samples.by_event_time,
            lambda horizon, from_, until: alignment.search(horizon, from_, until, samples.by_event_time),
        )
