"""Records that never were rows, and windows that are closed, on a real Kafka, PostgreSQL and Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2
from pyspark.sql import SparkSession
from services.runtime.tests import launches
from services.runtime.tests.replay import START, Desk
from services.runtime.tests.sink_cases.postgres import sink
from services.runtime.tests.sink_contract import records
from services.runtime.tests.streams import source_session
from tests.integration.bookings import COUNT_SQL, booking, recount, spread

from daggerspec.setaside import digest
from daggerspec.topics import QUARANTINE
from runtime.clients.quarantine import Quarantine
from runtime.launch.launch import Computation
from runtime.replay.replaying import replay
from runtime.spark import session as spark

pytestmark = pytest.mark.integration
HOP_SQL = """\
SELECT city_id AS tag_city_id, count(1) AS num_of_bookings,
       HOP_END(rowtime, INTERVAL '30' SECOND, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY HOP(rowtime, INTERVAL '30' SECOND, INTERVAL '60' SECOND), city_id"""
Forward = spec_pb2.Forward


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A process's."""
    with source_session() as session:
        yield session


def a_desk(
    kafka: str,
    postgres: str,
    folder: Path,
    forward: Forward | None = None,
    sql: str = COUNT_SQL,
    when: str = "",
) -> Desk:
    """A dagger whose rows go to a table."""
    resolved, url = sink(postgres, folder)
    resolved.sink.postgres.ClearField("key")
    resolved.sink.when = when
    if forward is not None:  # its table tells no rows apart
        resolved.sink.postgres.mode = spec_pb2.PostgresSink.MODE_APPEND
    dagger = launches.Dagger(folder, kafka, sql=sql, sinks=[resolved], forward=forward)
    return Desk(dagger, resolved, url)


def set_aside(desk: Desk, values: Mapping[int, bytes], *, truncated: bool = False) -> None:
    """What a driver set aside of the topic, by offset: it could not be read then."""
    quarantine = Quarantine({"bootstrap.servers": desk.dagger.kafka})
    for offset, value in values.items():
        record = telemetry_pb2.Quarantined(
            dagger=desk.dagger.name, generation=150, topic=desk.dagger.topic, offset=offset, stage="decode",
            reason="MALFORMED", detail="it does not decode", value=value, message="it.v1.Booking",
            truncated=truncated,
        )  # fmt: skip
        quarantine.put(record, f"{desk.dagger.topic}-id")
    quarantine.flush()


def run(
    desk: Desk,
    session: SparkSession,
    asked: events_pb2.QuarantineReplayRequested,
    closed: datetime | None = None,
    sequence: int = 190,
) -> dict[str, int]:
    """An attempt in this process, which has Spark; what became of records, with why."""
    attempt = desk.attempt(asked, sequence)
    lease = desk.lease(attempt)
    lease.take()
    counts = replay(
        attempt,
        wait=lambda _: None,
        confirm=lease.confirm,
        closed_until=lambda _: closed,
        computed=Computation(attempt.spec, lambda: spark.another(session)),
        patience_s=0,
        most_rows=2,
    )
    said = Counter(desk.outcomes(asked.replay_id).values())
    assert sum(counts.values()) == sum(said.values())
    return dict(said)


def edit(desk: Desk, asked: events_pb2.QuarantineReplayRequested, values: Mapping[int, bytes]) -> None:
    """Say what is to be taken in place of the values at these offsets."""
    producer = Producer({"bootstrap.servers": desk.dagger.kafka})
    for message in records(desk.dagger.kafka, QUARANTINE, desk.starts):
        record = telemetry_pb2.Quarantined.FromString(message.value() or b"")
        if record.dagger == desk.dagger.name and record.offset in values:
            made = telemetry_pb2.QuarantineEdited(
                id=record.id, replay_id=asked.replay_id, value=values[record.offset]
            )
            asked.edits[record.id] = digest(made)
            headers = [("ce_type", made.DESCRIPTOR.full_name), ("ce_id", f"edit/{record.id}")]
            producer.produce(
                QUARANTINE, made.SerializeToString(), desk.dagger.name, message.partition(), headers=headers
            )
    assert producer.flush(60) == 0


def numbers(desk: Desk) -> Sequence[tuple[object, ...]]:
    return desk.sql("SELECT order_number, fare FROM counts ORDER BY 1")


def counted(desk: Desk) -> Mapping[tuple[str, str], int]:
    rows = desk.sql("SELECT window_timestamp, tag_city_id, num_of_bookings FROM counts")
    return {(f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", str(city)): n for time, city, n in rows}


def test_records_of_a_forwarding_are_read_again_where_they_stand_and_go_to_its_sinks(
    kafka: str, postgres: str, tmp_path: Path, session: SparkSession
) -> None:
    desk = a_desk(kafka, postgres, tmp_path, Forward(filter="city_id > 1"), when="city_id <> 9")
    values = [booking(n, order=f"o{n}", city_id=n) for n in range(5)]
    desk.dagger.write(*values, b"\xff")
    # The quarantine has a part of one only, and of another one what is no more in Kafka.
    set_aside(desk, {1: values[1], 5: b"\xff", 900: booking(9, order="o9", city_id=9)})
    set_aside(desk, {2: values[2][:3]}, truncated=True)
    set_aside(desk, {901: b"cut"}, truncated=True)
    asked = desk.ask()
    said = run(desk, session, asked)

    assert said == {"REPLAYED": 3, "FAILED_AGAIN MALFORMED": 1, "NOT_REPLAYABLE TRUNCATED": 1}
    assert [order for order, _ in numbers(desk)] == ["o2"]  # the sink does not want o9
    assert run(desk, session, asked) == said  # an attempt that finds all said writes nothing again
    assert [order for order, _ in numbers(desk)] == ["o2"]
    mended = desk.ask()
    edit(desk, mended, {5: booking(5, order="o5", city_id=5, fare=7)})
    assert run(desk, session, mended, sequence=195) == {"REPLAYED": 1, "NOT_REPLAYABLE TRUNCATED": 1}
    assert [number for number, _ in numbers(desk)] == ["o2", "o5"]
    assert numbers(desk)[1] == ("o5", 7.0)


def test_windows_that_are_closed_are_computed_again_as_a_whole(
    kafka: str, postgres: str, tmp_path: Path, session: SparkSession
) -> None:
    desk = a_desk(kafka, postgres, tmp_path)
    events = spread([s / 2 for s in range(2 * 180)], cities=2)
    desk.dagger.write(*(booking(second, city_id=city) for second, city in events), b"\xff")
    lost = 130  # of the second minute
    set_aside(desk, {lost: booking(events[lost][0], city_id=events[lost][1]), len(events): b"\xff"})
    closed = START + timedelta(minutes=2)
    late = run(desk, session, desk.ask(), closed)
    asked = desk.ask(recompute=True)
    edit(desk, asked, {len(events): booking(100, city_id=2)})
    again = run(desk, session, asked, closed, 195)
    expected = recount([*events, (100, 2)])
    second = "2026-01-01T12:02:00Z"

    assert late == {"LATE WINDOWS_CLOSED": 1, "FAILED_AGAIN MALFORMED": 1}
    assert again == {"REPLAYED": 2}
    assert counted(desk) == {key: n for key, n in expected.items() if key[0] == second}


@pytest.mark.long
def test_windows_that_overlap_are_all_computed_and_open_ones_are_left_to_the_driver(
    kafka: str, postgres: str, tmp_path: Path, session: SparkSession
) -> None:
    desk = a_desk(kafka, postgres, tmp_path, sql=HOP_SQL)
    values = [booking(second, city_id=1) for second in (10, 40, 70, 100, 130)]
    desk.dagger.write(*values)
    set_aside(desk, {1: values[1], 3: values[3]})
    said = run(desk, session, desk.ask(recompute=True), START + timedelta(seconds=120))

    assert said == {"REPLAYED": 1, "NOT_REPLAYABLE WINDOWS_OPEN": 1}
    assert counted(desk) == {("2026-01-01T12:01:00Z", "1"): 2, ("2026-01-01T12:01:30Z", "1"): 2}
