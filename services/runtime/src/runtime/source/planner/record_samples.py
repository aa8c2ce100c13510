"""Sample a reader's topics while one batch is planned: each offset is read once."""

from __future__ import annotations

import time
from statistics import fmean, median
from typing import NamedTuple

from confluent_kafka import Message

from runtime.source.event_times import EventTimes
from runtime.source.offsets import Partition, Positions
from runtime.source.planner.broker import Broker
from runtime.source.planner.sampling import SAMPLE, SAMPLE_BYTES, Sample, SampledRecord


class _Record(NamedTuple):
    """A record: its offset, Kafka's time, the event time (ms) if it can be used, bytes of its value."""

    offset: int
    written: int
    event: int | None
    size: int


class RecordSamples:
    """Reads samples from `broker`, which the caller closes."""

    def __init__(self, broker: Broker, times: EventTimes) -> None:
        self._broker, self._times = broker, times
        self._now_ms = int(time.time() * 1000)
        self._cache: dict[tuple[Partition, int], list[_Record] | None] = {}

    def by_kafka_time(self, positions: Positions) -> dict[Partition, Sample]:
        """Sample the records from these offsets on, with the time (ms) that Kafka has of each."""
        return {
            p: [SampledRecord(r.offset, r.written, r.size) for r in sample]
            for p, sample in self._sample(positions).items()
        }

    def by_event_time(self, positions: Positions) -> dict[Partition, Sample]:
        """Sample the records from these offsets on, with the event time (ms) of each that can be used."""
        return {
            p: [SampledRecord(r.offset, r.event, r.size) for r in sample]
            for p, sample in self._sample(positions).items()
        }

    def lags(self, positions: Positions) -> dict[Partition, float]:
        """Return Kafka time minus event time (ms), the median at each offset where there is one."""
        sampled = self._sample(positions).items()
        lags = {p: [r.written - r.event for r in sample if r.event is not None] for p, sample in sampled}
        return {partition: median(lag) for partition, lag in lags.items() if lag}

    def weight(self, positions: Positions) -> float:
        """Return the mean weight of a record, in records, where they are heaviest."""
        samples = self.by_kafka_time(positions).values()
        return max((fmean(record.weight for record in sample) for sample in samples if sample), default=1.0)

    def _sample(self, positions: Positions) -> dict[Partition, list[_Record]]:
        new = {p: offset for p, offset in positions.items() if (p, offset) not in self._cache}
        messages = self._broker.bounded_samples(new, SAMPLE, SAMPLE_BYTES) if new else {}
        for partition, offset in new.items():
            self._cache[partition, offset] = (
                self._records(messages[partition]) if partition in messages else None
            )
        records = {partition: self._cache[partition, offset] for partition, offset in positions.items()}
        return {partition: sample for partition, sample in records.items() if sample is not None}

    def _records(self, messages: list[Message]) -> list[_Record]:
        times = {m.offset(): micros // 1000 for m, micros in self._times.of(messages, self._now_ms)}
        return [
            _Record(int(m.offset() or 0), m.timestamp()[1], times.get(m.offset()), len(m)) for m in messages
        ]
