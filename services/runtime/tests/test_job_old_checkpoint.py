"""A join and overlapping windows go on from checkpoints that drivers of 39202320 left, exactly.

The checkpoints were made there, by the queries and the records of this test: a driver that had read and
written `FIRST` was killed. What it had written stands beside.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from services.runtime.tests.archives import unpack
from services.runtime.tests.job_driver import kafka_sink
from services.runtime.tests.job_streams import TwoStreams, moment, written
from services.runtime.tests.launches import Dagger
from tests.integration.bookings import booking

pytestmark = [pytest.mark.integration, pytest.mark.long]

FIXTURES = Path(__file__).parent / "checkpoints"
Event = tuple[float, int]
"""Second after noon, number of the order."""
Row = tuple[object, ...]
BOUND_S, SLIDE_S, SIZE_S = 10, 5, 20
JOIN = f"""
SELECT a.order_number AS tag_order, b.city_id AS other, a.fare AS fare, b.status AS fate, a.city_id AS city,
       a.rowtime AS window_timestamp
FROM data_stream AS a LEFT JOIN cancellations AS b ON a.order_number = b.order_number
 AND b.rowtime BETWEEN a.rowtime - INTERVAL '{BOUND_S}' SECOND AND a.rowtime + INTERVAL '{BOUND_S}' SECOND
 AND UPPER(b.status) = 'CANCELLED'
WHERE a.status <> 'UNKNOWN'"""
HOP = f"""
SELECT city_id AS tag_city, COUNT(1) AS n, SUM(fare) AS fares,
       HOP_END(rowtime, INTERVAL '{SLIDE_S}' SECOND, INTERVAL '{SIZE_S}' SECOND) AS window_timestamp
FROM data_stream WHERE UPPER(status) = 'COMPLETED'
GROUP BY HOP(rowtime, INTERVAL '{SLIDE_S}' SECOND, INTERVAL '{SIZE_S}' SECOND), city_id"""
FIRST: tuple[list[Event], list[Event]] = (
    [(i * 2.0, i) for i in range(31)],
    [(i * 2.0 + 5, i) for i in range(0, 24, 3)] + [(58.0, 33), (60.0, 90)],
)
"""Bookings, and cancellations: that of order 33 is there before it."""
MORE: tuple[list[Event], list[Event]] = (
    [(i * 2.0, i) for i in range(31, 60)],
    [(61.0, 28), (62.0, 29), (66.0, 30)] + [(i * 2.0 + 5, i) for i in range(36, 54, 3)],
)
"""The cancellations of orders 28 to 30 belong to bookings that the first driver has read."""
CLOSING_S = 400.0


def city(order: int) -> int:
    return 1 + order % 3


def booked(events: Iterable[Event]) -> list[bytes]:
    return [booking(at, order=f"o{n}", city_id=city(n), fare=n + 0.25) for at, n in events]


def cancelled(events: Iterable[Event]) -> list[bytes]:
    return [booking(at, order=f"o{n}", city_id=city(n) + 10, status="CANCELLED") for at, n in events]


def joined(bookings: list[Event], cancellations: list[Event]) -> Counter[Row]:
    """Every booking, with each cancellation of its order that is near enough, or with none."""
    rows: Counter[Row] = Counter()
    for at, n in bookings:
        near = [n for other, of in cancellations if of == n and abs(other - at) <= BOUND_S]
        fates = [(city(n) + 10, "CANCELLED")] * len(near) or [(None, None)]
        rows.update((f"o{n}", other, n + 0.25, fate, city(n), moment(at)) for other, fate in fates)
    return rows


def hops(bookings: list[Event], _: list[Event]) -> Counter[Row]:
    """Bookings of each city in twenty seconds, every five."""
    counts: Counter[tuple[str, int]] = Counter()
    fares: Counter[tuple[str, int]] = Counter()
    for at, n in bookings:
        for end in range(int(at) // SLIDE_S * SLIDE_S + SLIDE_S, int(at) + SIZE_S + 1, SLIDE_S):
            counts[moment(end), city(n)] += 1
            fares[moment(end), city(n)] += n + 0.25
    return Counter((of, count, fares[end, of], end) for (end, of), count in counts.items())


@dataclass(frozen=True)
class Kind:
    """A query, its columns, and what it gives."""

    sql: str
    columns: tuple[str, ...]
    recount: Callable[[list[Event], list[Event]], Counter[Row]]
    dagger: type[Dagger]


KINDS = {
    "join": Kind(
        JOIN, ("tag_order", "other", "fare", "fate", "city", "window_timestamp"), joined, TwoStreams
    ),
    "hop": Kind(HOP, ("tag_city", "n", "fares", "window_timestamp"), hops, Dagger),
}


def rows_of(kafka: str, topic: str, kind: Kind) -> Counter[Row]:
    """What was written, but for the bookings that close all windows."""
    rows = written(kafka, topic).values()
    found = [tuple(row.get(name) for name in kind.columns) for row in rows]
    return Counter(row for row in found if row[0] != "o9999")


def renamed(folder: Path, names: dict[str, str]) -> None:
    """Other topics in a checkpoint's logs; its checksums go."""
    logs = [file for name in ("offsets", "source-start") for file in folder.rglob(f"{name}/*")]
    assert logs
    for file in logs:
        if file.name.startswith("."):
            file.unlink()
            continue
        text = file.read_text()
        for before, now in names.items():
            text = text.replace(before, now)
        file.write_text(text)


@pytest.mark.parametrize("name", KINDS)
def test_a_driver_goes_on_from_a_checkpoint_made_before(tmp_path: Path, kafka: str, name: str) -> None:
    kind = KINDS[name]
    unpack(FIXTURES / f"{name}.tar.xz", tmp_path)
    told = json.loads((tmp_path / "told.json").read_text())
    dagger = kind.dagger(tmp_path, kafka, sql=kind.sql, idle_timeout_s=0)
    dagger.sinks = [kafka_sink(kafka, f"rows-{dagger.name}")]
    dagger.generation = told["generation"]
    write(dagger, *FIRST)
    topics = topics_of(dagger)
    ids = ids_of(kafka, topics)
    renamed(
        dagger.checkpoints,
        {**dict(zip(told["topics"], topics, strict=True)), **dict(zip(told["ids"], ids, strict=True))},
    )
    before = Counter({tuple(row): count for row, count in told["rows"]})
    everything = FIRST[0] + MORE[0], FIRST[1] + MORE[1]
    expected = kind.recount(*everything)

    write(dagger, *MORE)
    write(dagger, [(CLOSING_S, 9999)], [(CLOSING_S, 9999)])
    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_in >= len(MORE[0]) and beat.watermark.seconds > 0)
        launch.until(
            lambda _: rows_of(kafka, f"rows-{dagger.name}", kind).total() >= (expected - before).total()
        )
        late = launch.beats[-1].late_rows
        code = launch.stop()

    found = rows_of(kafka, f"rows-{dagger.name}", kind)
    assert before
    assert (found, late, code) == (expected - before, 0, 0)
    assert before + found == expected


def write(dagger: Dagger, bookings: list[Event], cancellations: list[Event]) -> None:
    """Cancellations first: who reads only bookings has the rest at once."""
    if isinstance(dagger, TwoStreams):
        dagger.cancel(*cancelled(cancellations))
    dagger.write(*booked(bookings))


def topics_of(dagger: Dagger) -> list[str]:
    return [dagger.topic, *([dagger.cancellations] if isinstance(dagger, TwoStreams) else [])]


def ids_of(kafka: str, topics: list[str]) -> list[str]:
    admin = AdminClient({"bootstrap.servers": kafka})
    described = admin.describe_topics(TopicCollection(topics))
    return [str(described[topic].result().topic_id) for topic in topics]
