"""What every sink promises, asked of each file in the folder, against the real store."""

import importlib
import inspect
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import spec_pb2

import daggerspec.kind
import daggerspec.sinks
from daggerspec.registered import addresses
from daggersql import Column, Role
from runtime import sinks
from runtime.encode.rows import Layout
from runtime.errors import JobError, TemporaryError
from runtime.sinks import BatchRef, Part, Target

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [("tag_city", pa.string()), ("n", pa.int64()), ("window_timestamp", TIME),
     ("__window_start", TIME), ("__window_end", TIME), ("__key_0", pa.string())]
)  # fmt: skip
LAYOUT = Layout(
    (
        Column("tag_city", Role.TAG, "tag_city", "string"),
        Column("n", Role.FIELD, "n", "bigint"),
        Column("window_timestamp", Role.TIME, "window_timestamp", "timestamp"),
    ),
    hidden=("__window_start", "__window_end", "__key_0"),
)
Counts = dict[tuple[str, str], Any]
COUNTS: Counts = {("2026-01-01T12:01:00Z", "1"): 5, ("2026-01-01T12:01:00Z", "2"): 7,
                  ("2026-01-01T12:02:00Z", "1"): 9}  # fmt: skip
Reader = Callable[[], Counts]
_ON = " on "
"""Between a kind and a further server that it is for."""
Case = tuple[spec_pb2.ResolvedSink, Reader]


def batch(counts: Counts) -> pa.RecordBatch:
    """Rows that count per (window end, city)."""
    rows = []
    for (end, city), n in counts.items():
        time = datetime.fromisoformat(end)
        start = time - timedelta(minutes=1)
        rows.append({"tag_city": city, "n": n, "window_timestamp": time, "__window_start": start,
                     "__window_end": time, "__key_0": city})  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def target(dagger: str, sink: spec_pb2.ResolvedSink, descriptors: bytes = b"") -> Target:
    return Target(
        dagger, sink.SerializeToString(), LAYOUT, SCHEMA, descriptors, updates=False, part=part("c", 0)
    )


def part(checkpoint: str, batch_id: int) -> Part:
    """The only partition of a batch."""
    return Part(BatchRef(checkpoint, batch_id, generation=1), 0)


def influx_sink(influx: dict[str, str], measurement: str) -> spec_pb2.ResolvedSink:
    sink = spec_pb2.ResolvedSink()
    sink.sink.influx.measurement = measurement
    address = sink.sink.influx.address
    address.url, address.org, address.bucket = influx["url"], influx["org"], influx["bucket"]
    address.token.file = influx["token_file"]
    return sink


def query(influx: dict[str, str], text: str) -> Any:
    """The answer of InfluxDB to an InfluxQL text."""
    parts = {"db": influx["bucket"], "q": text}
    request = urllib.request.Request(
        f"{influx['url']}/query",
        data=urllib.parse.urlencode(parts).encode(),
        headers={"Authorization": f"Token {influx['token']}"} if influx["token"] else {},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["results"][0]


def points(influx: dict[str, str], measurement: str) -> list[list[Any]]:
    """time, n and tag_city of every point, by time."""
    found = query(influx, f'SELECT n, tag_city FROM "{measurement}"')
    return [list(row) for series in found.get("series", []) for row in series["values"]]


def ends(kafka: str, topic: str) -> dict[int, int]:
    """Where each partition of a topic ends now."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex})
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        return {p: _end(consumer, TopicPartition(topic, p)) for p in partitions}
    finally:
        consumer.close()


def records(kafka: str, topic: str, since: Mapping[int, int] = MappingProxyType({})) -> list[Message]:
    """Every record of a topic, in the order of each partition; of some from an offset on."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex, "enable.auto.commit": False})
    try:
        partitions = [
            TopicPartition(topic, p, since.get(p, 0))
            for p in consumer.list_topics(topic, 10).topics[topic].partitions
        ]
        expected = sum(_end(consumer, partition) - partition.offset for partition in partitions)
        consumer.assign(partitions)
        found: list[Message] = []
        while len(found) < expected:
            got = consumer.consume(expected - len(found), 10)
            assert got, f"only {len(found)} of {expected} records came"
            found += got
        return found
    finally:
        consumer.close()


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """The partition's end; of a new topic no broker knows for a moment that it leads it."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return consumer.get_watermark_offsets(partition, 10)[1]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)  # polling a broker; bounded by the deadline


def fresh_topic(kafka: str) -> str:
    return create(kafka, NewTopic(f"sink-{uuid4().hex[:8]}", 2, 1))


def create(kafka: str, topic: NewTopic) -> str:
    admin = AdminClient({"bootstrap.servers": kafka})  # a name of its own: its end would end the request
    for done in admin.create_topics([topic]).values():
        done.result(30)
    return str(topic.topic)


class Bench:
    """One sink with a place of its own, and a way to read what it wrote there: `sink_cases/NAME.py`."""

    def __init__(self, name: str, request: pytest.FixtureRequest) -> None:
        self.dagger = f"d-{uuid4().hex[:8]}"
        self.printed: list[str] = []
        name, _, server = name.partition(_ON)
        self.case = case_of(name)
        where = {"server": server} if server else {}
        self.resolved, self.read = self.case.case(self.dagger, request, self.printed, **where)
        self.target = self.aimed(self.resolved)
        sinks.check(self.target)  # as every launch does, before anything is written

    def aimed(self, sink: spec_pb2.ResolvedSink) -> Target:
        """This sink of the dagger, with the messages that its case has."""
        return target(self.dagger, sink, getattr(self.case, "DESCRIPTORS", b""))

    def allow(self, **share: float) -> None:
        """From now on no more is allowed than this."""
        self.resolved.share.CopyFrom(spec_pb2.RateLimit(**share))
        self.target = self.aimed(self.resolved)

    def write(
        self, *batches: Counts, batch_id: int = 0, checkpoint: str = "c", is_finished: bool = True
    ) -> list[Any]:
        """Write a partition as a task does, in so many batches, and commit it; the refusals of the last."""
        own = part(checkpoint, batch_id)
        writer = sinks.open_writer(replace(self.target, part=own))
        for each in batches:
            outcome = writer.write(batch(each), batch_id)
            self.printed += outcome.printed
        if is_finished:
            end = writer.finish()
            assert end.refused == ()
            sinks.commit(self.target, own.batch, [end.receipt] if end.receipt else [])
        return list(outcome.refused)


def case_of(name: str) -> Any:
    """The module of a kind's case."""
    return importlib.import_module(f"services.runtime.tests.sink_cases.{name}")


def on_servers(names: Iterable[str]) -> list[Any]:
    """These kinds, and once more on each further server that a case names (make test-long)."""
    made = list[Any]()
    for name in names:
        others = (f"{name}{_ON}{server}" for server in getattr(case_of(name), "OTHERS", ()))
        made += [name, *(pytest.param(other, marks=pytest.mark.long) for other in others)]
    return made


def having(what: str) -> list[Any]:
    """The kinds whose case has this."""
    return on_servers(name for name in sinks.names() if hasattr(case_of(name), what))


def many(rows: int) -> Counts:
    """A row for each of so many cities."""
    return {("2026-01-01T12:01:00Z", f"city {number}"): number for number in range(rows)}


@pytest.fixture(params=on_servers(sinks.names()))
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param, request)


KINDS = spec_pb2.Sink.DESCRIPTOR.oneofs_by_name["kind"].fields


def test_what_is_known_of_a_sink_and_how_it_is_written_to_are_of_one_name() -> None:
    assert sinks.names() == daggerspec.sinks.names()
    assert sinks.names() == tuple(sorted(kind.name for kind in KINDS))


@pytest.mark.parametrize("name", sinks.names())
def test_a_kind_says_all_that_the_rule_book_asks(name: str) -> None:
    kind = daggerspec.sinks.load(name)
    asked = vars(daggerspec.kind.Kind).keys() | daggerspec.kind.Kind.__annotations__.keys()
    said = {each for each in asked if not each.startswith("_")}

    assert [each for each in sorted(said) if not hasattr(kind, each)] == []


@pytest.mark.parametrize("name", sinks.names())
def test_a_sink_states_its_guarantee_and_has_both_functions(name: str) -> None:
    module = importlib.import_module(f"runtime.sinks.{name}")

    assert "Guarantee:" in (module.__doc__ or "")
    assert daggerspec.sinks.load(name).CAPABILITIES.promise
    assert list(inspect.signature(module.check).parameters) == ["target"]
    assert list(inspect.signature(module.open).parameters) == ["target"]


def test_a_sink_with_a_typo_lists_what_exists() -> None:
    with pytest.raises(JobError) as refused:
        sinks.load("inlfux")

    known = ", ".join(sinks.names())
    assert refused.value.error.detail == f"There is no sink 'inlfux'; choose one of {known}."


@pytest.mark.integration
def test_rows_are_there_once_write_has_returned(bench: Bench) -> None:
    refused = bench.write(COUNTS)

    assert (bench.read(), refused) == (COUNTS, [])


@pytest.mark.integration
def test_a_batch_that_is_repeated_leaves_the_same_rows(bench: Bench) -> None:
    for _ in range(2):
        bench.write(COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_a_batch_that_is_cut_in_another_way_leaves_the_same_rows(bench: Bench) -> None:
    rows = list(COUNTS.items())
    bench.write(COUNTS)
    bench.write(dict(rows[:1]), dict(rows[1:]))

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_a_partition_that_a_worker_left_half_way_is_whole_once_it_is_written_again(bench: Bench) -> None:
    rows = list(COUNTS.items())
    bench.write(dict(rows[:2]), is_finished=False)
    bench.write(COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_rows_that_were_set_aside_are_written_whatever_was_written_since(bench: Bench) -> None:
    rows = list(COUNTS.items())
    bench.write(dict(rows[2:]), batch_id=7)
    bench.target = replace(bench.target, is_replay=True)
    for _ in range(2):
        bench.write(dict(rows[:2]), checkpoint="replay/one")
    bench.target = replace(bench.target, is_replay=False)
    bench.write(dict(rows[2:]), batch_id=8, checkpoint="after an edit")

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_numbers_of_batches_that_begin_again_with_a_new_checkpoint_hide_no_row(bench: Bench) -> None:
    rows = list(COUNTS.items())
    bench.write(dict(rows[:2]), batch_id=41)
    bench.write(dict(rows[2:]), batch_id=0, checkpoint="another")

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_of_one_key_in_two_batches_the_last_row_counts(bench: Bench) -> None:
    bench.write({key: n + 1 for key, n in COUNTS.items()}, COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.integration
@pytest.mark.parametrize("places", [(0,), (49,), (3, 17, 40)], ids=["first", "last", "three"])
@pytest.mark.parametrize("bench", having("POISON"), indirect=True)
def test_rows_that_are_refused_are_told_and_the_others_are_written(
    bench: Bench, places: tuple[int, ...]
) -> None:
    rows = list(many(50).items())
    for number, place in enumerate(places):
        city, n = bench.case.POISON
        rows[place] = ((f"2026-01-02T00:0{number}:00Z", city), n)

    refused = bench.write(dict(rows))

    assert [each.row for each in sorted(refused, key=lambda each: each.row)] == list(places)
    assert all(each.reason.isupper() and each.detail for each in refused)
    assert bench.read() == {key: n for number, (key, n) in enumerate(rows) if number not in places}


@pytest.mark.integration
@pytest.mark.parametrize("bench", having("POISON"), indirect=True)
def test_a_batch_of_nothing_but_a_row_that_is_refused_is_written(bench: Bench) -> None:
    city, n = bench.case.POISON

    assert [each.row for each in bench.write({("2026-01-01T12:01:00Z", city): n})] == [0]


@pytest.mark.integration
@pytest.mark.parametrize("bench", having("silence"), indirect=True)
def test_a_sink_that_does_not_answer_says_so_to_writers_and_to_who_asks_and_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks.probe(bench.target)
    with bench.case.silence(bench.resolved, monkeypatch) as silent:
        away = bench.aimed(silent)
        with pytest.raises(TemporaryError):
            sinks.open_writer(away).write(batch(COUNTS), 0)
        with pytest.raises(TemporaryError):
            sinks.probe(away)
        sinks.check(away)  # silence is no reason not to start
    bench.write(COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.parametrize("name", sinks.names())
def test_a_sink_with_an_address_can_be_asked_whether_it_is_there(name: str) -> None:
    has_address = bool(addresses(daggerspec.sinks.load(name).KEYS))
    module = importlib.import_module(f"runtime.sinks.{name}")

    assert hasattr(module, "probe") == hasattr(case_of(name), "silence") == has_address


def keeping(limit: str) -> list[Any]:
    """The kinds that say that they keep this limit."""
    kinds = daggerspec.sinks.kinds()
    return on_servers(name for name, kind in kinds.items() if limit in kind.CAPABILITIES.limits)


@pytest.mark.integration
@pytest.mark.parametrize("bench", keeping("rows_per_second"), indirect=True)
def test_no_more_rows_are_written_than_its_share_allows(bench: Bench) -> None:
    bench.allow(rows_per_second=100)
    began = time.monotonic()
    refused = bench.write(many(60))

    assert time.monotonic() - began >= 0.6
    assert (refused, len(bench.read())) == ([], 60)


@pytest.mark.integration
@pytest.mark.parametrize("bench", keeping("requests_per_second"), indirect=True)
def test_no_more_requests_go_out_than_its_share_allows(bench: Bench) -> None:
    bench.allow(requests_per_second=10)
    began = time.monotonic()
    for number in range(5):
        bench.write({("2026-01-01T12:01:00Z", f"city {number}"): number}, batch_id=number)

    assert time.monotonic() - began >= 0.5
    assert len(bench.read()) == 5


@pytest.mark.integration
def test_no_rows_are_no_trouble(bench: Bench) -> None:
    assert bench.write({}) == []
