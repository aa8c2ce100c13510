"""Previews on a real broker and a real Spark: rows, parts of windows, what is set aside."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from daggers.v1 import gateway_pb2, host_pb2, rules_pb2, spec_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.job_driver import log_sink
from services.runtime.tests.launches import Dagger, whole
from services.runtime.tests.observations import read_observations
from services.runtime.tests.streams import source_session
from tests.integration.bookings import booking, recount, spread

from daggerspec.row import from_proto
from daggerspec.topics import HEARTBEATS, QUARANTINE
from runtime.preview.run import Preview, empty
from runtime.source.planner import firstrows

pytestmark = pytest.mark.integration
Done = gateway_pb2.PreviewDone
Counts = Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A host's."""
    with source_session() as session:
        yield session


class Previewed:
    """What a preview has told."""

    def __init__(
        self, session: SparkSession, dagger: Dagger, range_: gateway_pb2.PreviewRange, max_rows: int = 0
    ) -> None:
        dagger.generation += 1
        run_dir = dagger.folder / f"preview-{dagger.generation}"
        run_dir.mkdir(parents=True)
        dagger.sinks = [spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=1)))]
        dagger.root = str(run_dir / "checkpoints")
        job = whole(dagger.spec(run_dir))
        job.ClearField("platform")
        asked = host_pb2.PreviewJob(job=job, range=range_, max_rows=max_rows)
        self.steps: list[gateway_pb2.PreviewDaggerResponse] = []
        Preview(asked, session, self.steps.append, lambda: False).run()

    @property
    def done(self) -> Done:
        return self.steps[-1].done

    def counts(self, *, partial: bool) -> Counts:
        """(window end, city) -> count, of whole windows or of parts."""
        rows = [
            from_proto(row) for step in self.steps if step.rows.partial == partial for row in step.rows.rows
        ]
        return Counter(
            {
                (row.time.strftime("%Y-%m-%dT%H:%M:%SZ"), row.tags["tag_city_id"]): row.fields[
                    "num_of_bookings"
                ]
                for row in rows
                if row.time is not None
            }
        )

    def first_windows(self) -> set[str]:
        """The ends of the windows whose rows came first."""
        rows = next(step.rows.rows for step in self.steps if step.HasField("rows"))
        times = [from_proto(row).time for row in rows]
        return {time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times if time is not None}


def rule_turns(observed: Iterable[rules_pb2.RuleObserved]) -> list[tuple[str, ...]]:
    """Rule, state, city, window and what is said, as live and previewed observations share them."""
    return sorted(
        (one.rule, rules_pb2.RuleState.Name(one.state), one.key["tag_city_id"], one.window.ToJsonString(),
         one.since.ToJsonString(), one.summary, repr(one.value))
        for one in observed
    )  # fmt: skip


def everything() -> gateway_pb2.PreviewRange:
    return gateway_pb2.PreviewRange(last_records=1_000_000)


def told_of(kafka: str, dagger: str) -> list[bytes]:
    """What the platform's topics have of a dagger."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "looks", "enable.auto.commit": False})
    topics = consumer.list_topics(timeout=30).topics
    found: list[bytes] = []
    for name in (HEARTBEATS, QUARANTINE):
        for number in topics[name].partitions:
            place = TopicPartition(name, number, 0)
            begin, end = consumer.get_watermark_offsets(place, 30)
            if begin == end:
                continue
            consumer.assign([place])
            while consumer.position([place])[0].offset < end and (record := consumer.poll(10)) is not None:
                found += [record.value() or b""] if record.key() == dagger.encode() else []
    consumer.close()
    return found


def test_rows_are_those_of_a_dagger_and_open_windows_are_partial(
    tmp_path: Path, kafka: str, session: SparkSession
) -> None:
    dagger = Dagger(tmp_path, kafka)
    events = spread([s / 4 for s in range(4 * 170)], cities=3)
    dagger.write(*(booking(second, city_id=city) for second, city in events), b"\xff broken")

    told = Previewed(session, dagger, everything())

    expected = recount(events)
    last = max(end for end, _ in expected)
    assert told.counts(partial=False) == {key: n for key, n in expected.items() if key[0] != last}
    assert told.counts(partial=True) == {key: n for key, n in expected.items() if key[0] == last}
    done = told.done
    assert (done.reason, done.records, done.late) == (Done.REASON_END_OF_RANGE, len(events), 0)
    assert (done.rows, done.rows_left_out, done.series) == (9, 0, 3)
    assert done.empty == Done.EMPTY_UNSPECIFIED
    assert dict(done.quarantined) == {"MALFORMED": 1}
    assert [(example.topic, example.offset, example.value) for example in done.examples] == [
        (dagger.topic, len(events), b"\xff broken")
    ]
    assert 0 < done.first_row_ms <= done.total_ms
    assert done.cpu_seconds > 0
    assert told_of(kafka, dagger.name) == []
    admin = AdminClient({"bootstrap.servers": kafka})  # a name of its own: its end would end the request
    groups = admin.list_consumer_groups().result(60).valid
    assert not [group.group_id for group in groups if dagger.name in group.group_id]


def test_the_first_window_comes_before_the_rest_is_read_and_all_rows_are_the_same(
    tmp_path: Path, kafka: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    dagger = Dagger(tmp_path, kafka)
    events = spread([s / 4 for s in range(4 * 290)], cities=3)
    dagger.write(*(booking(second, city_id=city) for second, city in events))

    at_once = Previewed(session, dagger, everything())
    monkeypatch.setattr(firstrows, "WORTH", len(events))
    in_parts = Previewed(session, dagger, everything())

    assert in_parts.counts(partial=False) == at_once.counts(partial=False)
    assert in_parts.counts(partial=True) == at_once.counts(partial=True)
    assert (in_parts.done.records, in_parts.done.late) == (len(events), 0)
    assert (in_parts.done.rows, in_parts.done.rows_left_out) == (15, 0)
    assert in_parts.first_windows() == {"2026-01-01T12:01:00Z"}
    assert len(at_once.first_windows()) > 1


@pytest.mark.parametrize("first_part", [0, 700], ids=["at once", "in two parts"])
def test_what_is_in_order_in_a_partition_that_is_behind_is_never_late(
    tmp_path: Path, kafka: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch, first_part: int
) -> None:
    """One partition ends 100 s before the other, and is not idle yet: windows behind its end are partial."""
    dagger = Dagger(tmp_path, kafka, partitions=2, idle_timeout_s=300)
    ahead = spread([s / 4 for s in range(4 * 230)], cities=3)
    behind = spread([s / 4 for s in range(4 * 130)], cities=3)
    for partition, events in enumerate((ahead, behind)):
        values = (booking(second, city_id=city) for second, city in events)
        dagger.write(*values, partition=partition)
    if first_part:
        monkeypatch.setattr(firstrows, "WORTH", first_part)

    told = Previewed(session, dagger, everything())

    expected = recount([*ahead, *behind])
    whole = {key: n for key, n in expected.items() if key[0] <= "2026-01-01T12:02:00Z"}
    assert (told.done.records, told.done.late) == (len(ahead) + len(behind), 0)
    assert told.counts(partial=False) == whole
    assert told.counts(partial=True) == expected - Counter(whole)


def test_windows_that_the_range_begins_in_are_partial(
    tmp_path: Path, kafka: str, session: SparkSession
) -> None:
    dagger = Dagger(tmp_path, kafka)
    events = [(float(second), 1) for second in range(180)]
    dagger.write(*(booking(second, city_id=city) for second, city in events))

    told = Previewed(session, dagger, gateway_pb2.PreviewRange(last_records=90))

    expected = recount(events[90:])
    first, last = min(end for end, _ in expected), max(end for end, _ in expected)
    assert told.counts(partial=False) == Counter()
    assert told.counts(partial=True) == expected
    assert told.done.empty == Done.EMPTY_WINDOWS_OPEN
    assert (first, last) == ("2026-01-01T12:02:00Z", "2026-01-01T12:03:00Z")


def test_a_range_of_kafkas_time_ends_before_what_came_later(
    tmp_path: Path, kafka: str, session: SparkSession
) -> None:
    dagger = Dagger(tmp_path, kafka)
    dagger.write(*(booking(second) for second in range(100)))
    split = datetime.now(UTC) + timedelta(milliseconds=50)
    while datetime.now(UTC) <= split + timedelta(milliseconds=50):
        pass  # Kafka's times are those of the producer, in milliseconds
    dagger.write(*(booking(second) for second in range(100, 250)))
    range_ = gateway_pb2.PreviewRange()
    getattr(range_.between, "from").FromDatetime(split - timedelta(hours=1))
    range_.between.to.FromDatetime(split)

    told = Previewed(session, dagger, range_)

    assert told.done.records == 100
    assert sum(told.counts(partial=False).values()) == 60
    assert sum(told.counts(partial=True).values()) == 40
    assert told.done.cost.records_per_second == pytest.approx(100 / 3600)


def test_rows_beyond_the_limit_are_counted(tmp_path: Path, kafka: str, session: SparkSession) -> None:
    dagger = Dagger(tmp_path, kafka)
    dagger.write(*(booking(second, city_id=city) for second in range(180) for city in (1, 2, 3)))

    last = gateway_pb2.PreviewRange()
    last.last.FromTimedelta(timedelta(hours=1))
    told = Previewed(session, dagger, last, max_rows=4)

    given = sum(len(step.rows.rows) for step in told.steps)
    assert (given, told.done.rows, told.done.rows_left_out) == (4, 9, 5)
    assert told.done.reason == Done.REASON_ROW_LIMIT
    assert told.done.cost.rows_per_minute == pytest.approx(6 / 60)  # two windows of three are whole


def test_two_streams_close_their_windows_together(tmp_path: Path, kafka: str, session: SparkSession) -> None:
    dagger, other = Dagger(tmp_path, kafka), Dagger(tmp_path / "other", kafka)
    dagger.sql = """
        SELECT a.order_number AS order_number, b.city_id AS city, a.rowtime
        FROM data_stream AS a LEFT JOIN other AS b ON a.order_number = b.order_number
        AND b.rowtime BETWEEN a.rowtime - INTERVAL '60' SECOND AND a.rowtime + INTERVAL '60' SECOND"""
    dagger.write(*(booking(second, order=str(second)) for second in range(10)))
    other.write(*(booking(second, order=str(second), city_id=7) for second in range(0, 10, 2)))

    class Joined(Dagger):
        def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
            job = super().spec(run_dir)
            second = job.streams.add()
            second.CopyFrom(job.streams[0])
            second.stream.name, second.stream.topics[0] = "others", other.topic
            second.input.table = "other"
            return job

    dagger.__class__ = Joined
    told = Previewed(session, dagger, everything())

    rows = [(from_proto(row), step.rows.partial) for step in told.steps for row in step.rows.rows]
    found = {row.fields["order_number"]: (row.fields.get("city"), partial) for row, partial in rows}
    assert found == {str(n): (7, False) if n % 2 == 0 else (None, True) for n in range(10)}


def test_an_empty_range_ends_at_once(tmp_path: Path, kafka: str, session: SparkSession) -> None:
    dagger = Dagger(tmp_path, kafka)

    told = Previewed(session, dagger, everything())

    assert (told.done.records, told.done.rows, told.done.reason) == (0, 0, Done.REASON_END_OF_RANGE)
    assert told.done.empty == Done.EMPTY_NO_RECORDS
    assert not told.done.HasField("first_row_ms")


def test_no_rows_say_where_the_records_are(tmp_path: Path, kafka: str, session: SparkSession) -> None:
    broken, filtered = Dagger(tmp_path / "broken", kafka), Dagger(tmp_path / "filtered", kafka)
    broken.write(*[b"\xff broken"] * 3)
    filtered.sql = filtered.sql.replace("WHERE", "WHERE city_id = 4711 AND")
    filtered.write(*(booking(second) for second in range(100)))

    aside, none = Previewed(session, broken, everything()), Previewed(session, filtered, everything())

    assert (aside.done.empty, dict(aside.done.quarantined)) == (Done.EMPTY_QUARANTINED, {"MALFORMED": 3})
    assert (none.done.empty, none.done.records, none.done.rows) == (Done.EMPTY_FILTERED, 100, 0)


def test_late_records_alone_are_told_from_those_that_a_query_leaves_out() -> None:
    late, cut = Done(records=5, late=5), Done(records=5, reason=Done.REASON_TIME_LIMIT)

    assert empty(late, whole=0) == Done.EMPTY_LATE
    assert empty(cut, whole=0) == Done.EMPTY_UNSPECIFIED


def test_rules_say_of_a_range_what_they_would_have_said_live(
    session: SparkSession, kafka: str, tmp_path: Path
) -> None:
    often = random.Random(7)
    events = [(second, often.choice((1, 1, 2, 3))) for second in range(600) if often.random() < 0.5]
    events += [(second, 4) for second in (*range(60, 120), *range(180, 360, 2))]
    rules = [
        rules_pb2.AlertRule(name="busy", when="num_of_bookings > 8", key=["tag_city_id"]),
        rules_pb2.AlertRule(
            name="long", when="num_of_bookings > 20", for_windows=2, clear=0.3, key=["tag_city_id"]
        ),
        rules_pb2.AlertRule(name="never", when="num_of_bookings > 1000"),
        rules_pb2.AlertRule(name="silent", absent=timedelta(minutes=1), key=["tag_city_id"]),
        rules_pb2.AlertRule(
            name="jump", when="num_of_bookings > 1.2 * before('2m', num_of_bookings)", key=["tag_city_id"]
        ),
    ]
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(100)], alerts=rules, idle_timeout_s=0)
    dagger.write(*(booking(second, city_id=city) for second, city in sorted(events)), booking(700))
    with dagger.launch() as live:
        live.until(lambda beat: beat.HasField("watermark") and beat.watermark.seconds % 3600 >= 690)
        live.stop()
    judged = [one for _, one in read_observations(kafka, dagger.name).values()]

    found = Previewed(session, dagger, everything()).done.rules

    previewed = [one for rule in found.rules for one in rule.observed]
    assert [rule.rule for rule in found.rules] == ["busy", "long", "never", "silent", "jump"]
    assert rule_turns(previewed) == rule_turns(judged)
    assert {one.rule for one in judged} == {"busy", "long", "silent", "jump"}
    silences = [turn[1:4:2] for turn in rule_turns(judged) if turn[0] == "silent" and turn[2] == "4"]
    assert silences == [
        ("RULE_STATE_FIRED", "2026-01-01T12:03:00Z"),
        ("RULE_STATE_FIRED", "2026-01-01T12:07:00Z"),
        ("RULE_STATE_RESOLVED", "2026-01-01T12:04:00Z"),
    ]
    (window, _), most = min(recount(events).items(), key=lambda item: (-item[1], item[0]))
    never = found.rules[2]
    assert (never.nearest, never.limit, list(never.observed)) == (most, 1000, [])
    assert never.nearest_window.ToJsonString() == window
    assert found.until.ToJsonString() == "2026-01-01T12:11:39Z"
