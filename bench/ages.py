"""Read off the topics of a bench how old rows are when they are in the sink, in seconds."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition

SHARES: Final = {"p50": 0.5, "p95": 0.95, "longest": 1.0}
Row = tuple[float, dict[str, Any]]


def shares(ages: Iterable[float]) -> str:
    """Say how many ages there are, and of each share the longest, in seconds."""
    ordered = sorted(ages)
    parts = ", ".join(f"{name} {share_of(ordered, share):.2f} s" for name, share in SHARES.items())
    return f"{len(ordered)} rows: {parts}"


def share_of(ordered: Sequence[float], share: float) -> float:
    """Return the number below which this share of ordered ones is."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def messages(kafka: str, since: float, *topics: str) -> Iterator[Message]:
    """Yield the messages of topics from a time on (seconds) that are there when this is called."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "fresh",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    metadata = consumer.list_topics(timeout=30)
    places = [(topic, number) for topic in topics for number in metadata.topics[topic].partitions]
    starts = [TopicPartition(topic, number, int(since * 1000)) for topic, number in places]
    found = [place for place in consumer.offsets_for_times(starts, 30) if place.offset >= 0]
    left = {(place.topic, place.partition): consumer.get_watermark_offsets(place, 30)[1] for place in found}
    consumer.assign(found)
    while left:  # records go on coming meanwhile, so that a topic alone has no end
        message = consumer.poll(5.0)
        if message is None:
            names = ", ".join(sorted({topic for topic, _ in left}))
            raise SystemExit(
                f"{names}: Kafka gave no record for 5 s, and {len(left)} partitions are not read"
            )
        place, offset = (message.topic(), message.partition()), message.offset()
        if message.error() is None and offset < left.get(place, 0):
            yield message
        if message.error() is not None or offset + 1 >= left.get(place, 0):
            left.pop(place, None)
    consumer.close()


def written_at(message: Message) -> float:
    """Return when Kafka had a message, in seconds."""
    return float(message.timestamp()[1]) / 1000


def rows(kafka: str, topic: str, since: float) -> Iterator[Row]:
    """Yield each row of a topic, which is JSON, and when it was written."""
    for message in messages(kafka, since, topic):
        if value := message.value():
            yield written_at(message), json.loads(value)


def instant(text: str) -> float:
    """Return the seconds of a time as a row has it; one without a zone is of UTC, as Flink writes it."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else datetime.fromisoformat(f"{text}+00:00")).timestamp()


def window_ages(kafka: str, topic: str, since: float) -> Iterator[float]:
    """Yield how long after the end of its window each row was in the sink."""
    for at, row in rows(kafka, topic, since):
        yield at - instant(row["window_timestamp"])


def record_ages(kafka: str, topic: str, since: float) -> Iterator[float]:
    """Yield how long after its event time the row of each forwarded record was in the sink."""
    for at, row in rows(kafka, topic, since):
        yield at - instant(row["event_timestamp"])


@dataclass(frozen=True, slots=True, order=True)
class Update:
    """A row of a window that is open: when it was written, and how many records it counts of a key.

    at, window_end: seconds.
    """

    at: float
    key: str
    window_end: float
    records: int


def update_ages(
    records: Iterable[tuple[str, float]], updates: Iterable[Update], window_s: int
) -> Iterator[float]:
    """Yield for each record how long it took until an update of its window counts it.

    records: the key of each and when it was written, seconds. The n-th record of a window and key is in the
    first update that counts n; records that none counts are left out.
    """
    written: defaultdict[tuple[str, float], list[float]] = defaultdict(list)
    for key, at in records:
        written[key, (at // window_s + 1) * window_s].append(at)
    counted: defaultdict[tuple[str, float], list[Update]] = defaultdict(list)
    for update in sorted(updates):
        found = counted[update.key, update.window_end]
        if not found or update.records > found[-1].records:
            found.append(update)
    for place, times in written.items():
        steps = counted.get(place, [])
        for number, at in enumerate(sorted(times), 1):
            first = bisect_left(steps, number, key=attrgetter("records"))
            if first < len(steps):
                yield steps[first].at - at
