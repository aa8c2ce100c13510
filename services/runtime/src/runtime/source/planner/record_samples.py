"""Samples of a reader's topics, as they are when one batch is planned: each place is looked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import NamedTuple

from confluent_kafka import Message

from runtime.source.offsets import Partition, Positions
from runtime.source.planner.broker import Broker
from runtime.source.planner.sampling import SAMPLE, SAMPLE_BYTES, Sample, Seen

Timed = Callable[[Sequence[Message]], Iterable[tuple[Message, int]]]


class _Look(NamedTuple):
    """A record: its offset, Kafka's time, the event time (ms) if it can be used, bytes of its value."""

    offset: int
    written: int
    event: int | None
    size: int


class Glimpses:
    """Asks `broker`, which whoever made this closes; `timed` gives the messages that have an event time, with
    that time in us.
    """

    def __init__(self, broker: Broker, timed: Timed) -> None:
        self._broker, self._timed = broker, timed
        self._looks: dict[tuple[Partition, int], list[_Look] | None] = {}

    def by_kafka_time(self, at: Positions) -> dict[Partition, Sample]:
        """The records from these offsets on, with the time (ms) that Kafka has of each."""
        return {p: [Seen(r.offset, r.written, r.size) for r in some] for p, some in self._looked(at).items()}

    def by_event_time(self, at: Positions) -> dict[Partition, Sample]:
        """The records from these offsets on, with the event time (ms) of each that can be used."""
        return {p: [Seen(r.offset, r.event, r.size) for r in some] for p, some in self._looked(at).items()}

    def lags(self, at: Positions) -> dict[Partition, float]:
        """Kafka time minus event time (ms), the median at each place where there is one."""
        looked = self._looked(at).items()
        lags = {p: [r.written - r.event for r in some if r.event is not None] for p, some in looked}
        return {partition: median(some) for partition, some in lags.items() if some}

    def weight(self, at: Positions) -> float:
        """As how many records one counts, where they are heaviest."""
        samples = self.by_kafka_time(at).values()
        return max((fmean(record.weight for record in sample) for sample in samples if sample), default=1.0)

    def _looked(self, at: Positions) -> dict[Partition, list[_Look]]:
        new = {p: offset for p, offset in at.items() if (p, offset) not in self._looks}
        told = self._broker.glimpses(new, SAMPLE, SAMPLE_BYTES) if new else {}
        for partition, offset in new.items():
            self._looks[partition, offset] = self._look(told[partition]) if partition in told else None
        looks = {partition: self._looks[partition, offset] for partition, offset in at.items()}
        return {partition: some for partition, some in looks.items() if some is not None}

    def _look(self, messages: list[Message]) -> list[_Look]:
        times = {m.offset(): micros // 1000 for m, micros in self._timed(messages)}
        return [
            _Look(int(m.offset() or 0), m.timestamp()[1], times.get(m.offset()), len(m)) for m in messages
        ]
