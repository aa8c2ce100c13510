"""Streams on a real broker and a real Spark: no row lost, no window left open."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from services.runtime.tests.streams import (
    BEGIN,
    COUNT,
    Booking,
    Feed,
    Job,
    booking,
    quarantined,
    windows,
)

pytestmark = pytest.mark.integration


def test_no_filter_stands_between_scan_and_watermark(feed: Feed, run: Callable[..., Job]) -> None:
    job = run(feed.create().resolved()).start(COUNT.format(where="WHERE status = 'CANCELLED'"))
    feed.send([booking(1)])
    job.until(lambda job: job.total(lambda c: c.rows) == 1)
    assert job.query is not None
    plan = job.execution().optimizedPlan().toString()
    below = plan[plan.index("EventTimeWatermark") :]

    assert ("Filter" in plan, "Filter" in below) == (True, False)


@pytest.mark.parametrize("equal", [(), (("status", "RARE"),)], ids=["in Spark", "in the reader too"])
def test_a_where_that_keeps_one_record_in_a_thousand_closes_its_windows(
    feed: Feed, run: Callable[..., Job], equal: tuple[tuple[str, str], ...]
) -> None:
    feed.create()
    feed.send(booking(i / 50, status="RARE" if i % 1000 == 0 else "COMPLETED") for i in range(3000))

    job = run(feed.resolved(), equal=equal).start(COUNT.format(where="WHERE status = 'RARE'"))
    job.until(lambda job: len(job.rows) >= 3)
    job.until(lambda job: job.total(lambda c: c.rows) >= 3000)

    assert (job.rows, job.total(lambda c: c.rows)) == (windows([0, 20, 40]), 3000)


def test_bad_records_are_quarantined_and_the_idle_streams_last_window_closes(
    kafka: str, feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create()
    future, ahead = Booking(status="NEXT_DAY"), datetime.now(UTC) + timedelta(minutes=50)
    future.event_timestamp.FromDatetime(datetime.now(UTC) + timedelta(days=1))
    # The clock of its producer is wrong, and the Kafka time that it writes is wrong with it.
    feed.send([booking((ahead - BEGIN).total_seconds())], at=lambda _: int(ahead.timestamp() * 1000))
    feed.send([booking(1), b"\x0a\x02OK\xff", None, b"", future.SerializeToString(), booking(3), booking(12)])

    job = run(feed.resolved(idle_timeout={"seconds": 1})).start()
    job.until(lambda job: len(job.rows) == 2)
    records = {record.offset: record for record in quarantined(kafka, job.context.dagger, 5)}

    reasons = {offset: (record.reason, record.decoded_prefix) for offset, record in records.items()}
    early = [reasons.pop(offset)[0] for offset in (0, 5)]
    assert (
        job.rows,
        reasons,
        early,
        records[2].value,
        job.counts[0].rows,
        job.counts[0].quarantined,
    ) == (
        windows([1, 3, 12]),
        {2: ("MALFORMED", '{"status": "OK"}'), 3: ("EMPTY_VALUE", ""), 4: ("NO_EVENT_TIME", "")},
        ["FROM_THE_FUTURE", "FROM_THE_FUTURE"],
        b"\x0a\x02OK\xff",
        3,
        {"MALFORMED": 1, "EMPTY_VALUE": 1, "NO_EVENT_TIME": 1, "FROM_THE_FUTURE": 2},
    )


@pytest.mark.parametrize("kafka_time", ["event time", pytest.param("now", marks=pytest.mark.long)])
def test_two_uneven_partitions_are_caught_up_without_losing_a_row(
    feed: Feed, run: Callable[..., Job], kafka_time: str
) -> None:
    feed.create(partitions=2)
    dense, sparse = [float(i) for i in range(6000)], [i * 10.0 for i in range(600)]
    begin_ms = int(BEGIN.timestamp() * 1000)
    for partition, seconds in ((0, sparse), (1, dense)):
        at = (lambda i, s=seconds: begin_ms + int(s[i] * 1000)) if kafka_time == "event time" else None
        feed.send(map(booking, seconds), partition, at=at)

    job = run(feed.resolved(idle_timeout={"seconds": 1}), max_rows=600).start()
    job.until(lambda job: sum(job.rows.values()) + job.total(lambda c: c.late) >= 6600)
    batches = sum(1 for count in job.counts if count.rows)

    assert (job.rows, job.total(lambda c: c.late), batches > 9) == (windows(dense + sparse), 0, True)


@pytest.mark.parametrize("kafka_time", ["event time", "now"])
def test_a_backlog_with_gaps_is_caught_up_by_records(
    feed: Feed, run: Callable[..., Job], kafka_time: str
) -> None:
    """Each record stands behind one that was committed and a hundred that were not, and two markers."""
    feed.create()
    seconds = [float(i) for i in range(200)]
    producer = Producer({"bootstrap.servers": feed.kafka, "transactional.id": feed.topic})
    producer.init_transactions()
    for second in seconds:
        stamp = int((BEGIN.timestamp() if kafka_time == "event time" else time.time()) * 1000 + second * 1000)
        for end, count in ((producer.abort_transaction, 100), (producer.commit_transaction, 1)):
            producer.begin_transaction()
            for _ in range(count):
                producer.produce(feed.topic, booking(second), timestamp=stamp)
            producer.flush()
            end()

    most = "max_rows_of_all" if kafka_time == "now" else "max_rows"  # which is one, of one reader
    job = run(feed.resolved(idle_timeout={"seconds": 1}), **{most: 50}).start()
    job.until(lambda job: sum(job.rows.values()) + job.total(lambda c: c.late) >= len(seconds))
    batches = [count.rows for count in job.counts if count.rows]

    assert (job.rows, job.total(lambda c: c.late)) == (windows(seconds), 0)
    assert 4 <= len(batches) <= 12


def test_rows_behind_a_closed_window_are_counted_as_late(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create()
    job = run(feed.resolved()).start()
    feed.send([booking(5), booking(31)])
    job.until(lambda job: len(job.rows) == 1)
    feed.send([booking(6), booking(25), booking(32)])
    job.until(lambda job: job.total(lambda c: c.rows) == 5)

    # On a busy machine the stream may fall silent meanwhile, and the window of 25 and 31 close too.
    (closed,) = windows([5])
    assert (job.total(lambda c: c.late), job.rows[closed]) == (1, 1)


def test_a_silent_topic_does_not_hold_back_one_that_goes_on(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create()
    feed.create(topic=f"{feed.topic}-silent")
    both = feed.resolved(idle_timeout={"seconds": 1})
    both.stream.topics.append(f"{feed.topic}-silent")
    job = run(both).start()
    feed.send([booking(5), booking(31)])
    job.until(lambda job: len(job.rows) == 2)

    assert job.rows == windows([5, 31])


def test_without_idle_timeout_a_silent_topic_holds_its_windows_open(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create()
    feed.create(topic=f"{feed.topic}-silent")
    both = feed.resolved()
    both.stream.topics.append(f"{feed.topic}-silent")
    job = run(both).start()
    for second in range(5, 50, 5):
        feed.send([booking(second)])
        expected = len(range(5, second + 1, 5))
        job.until(lambda job, expected=expected: job.total(lambda c: c.rows) == expected)

    assert (job.rows, job.total(lambda c: c.idle_advances)) == (Counter(), 0)


def test_the_consumer_group_shows_how_far_the_dagger_has_read(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create()
    feed.send([booking(1), booking(2)])
    job = run(feed.resolved(), consumer_group=f"group-{feed.topic}").start()
    job.until(lambda job: job.total(lambda c: c.rows) == 2)
    feed.send([booking(3)])
    job.until(lambda job: job.total(lambda c: c.rows) == 3)
    tool = Consumer({"bootstrap.servers": feed.kafka, "group.id": f"group-{feed.topic}"})
    job.until(lambda _: tool.committed([TopicPartition(feed.topic, 0)], 10)[0].offset >= 2)
    tool.close()

    assert job.counts[-1].lag == {f"{feed.topic}/0": 0}


def test_no_secret_shows_in_plans(
    stream_session: SparkSession, feed: Feed, run: Callable[..., Job], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2-is-secret\n")
    feed.create()
    feed.send([booking(1)])
    made = feed.resolved()
    made.kafka.secret_properties["sasl.password"].file = str(secret)
    job = run(made).start()
    job.until(lambda job: job.total(lambda c: c.rows) == 1)
    assert job.query is not None
    execution = job.execution()
    shown = [
        execution.toString(),
        str(job.query.lastProgress),
        str(stream_session.sparkContext.getConf().getAll()),
    ]
    shown += [
        file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file() and file != secret
    ]

    assert [text for text in shown if "hunter2" in text] == []
