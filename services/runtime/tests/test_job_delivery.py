"""One partition, many sinks: one pass, troubles kept apart, refused rows set aside."""

import multiprocessing
import resource
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2, telemetry_pb2
from pyspark.sql import Row
from services.runtime.tests.sink_contract import (
    COUNTS,
    LAYOUT,
    NOON,
    SCHEMA,
    TIME,
    Counts,
    batch,
    fresh_topic,
    influx_sink,
    points,
    records,
    target,
)

from runtime.errors import FencedError, explain
from runtime.launch.delivery import Delivery
from runtime.launch.report import line, read_report
from runtime.sinks import Target, clients_of
from runtime.state.store.local import LocalStore

NOWHERE = "http://127.0.0.1:1"


def kafka_sink(kafka: str, topic: str, name: str = "") -> spec_pb2.ResolvedSink:
    sink = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(name=name))
    sink.kafka.bootstrap_servers = kafka
    sink.sink.kafka.topic = topic
    sink.sink.kafka.format = spec_pb2.KafkaSink.FORMAT_JSON
    return sink


def deliver(
    kafka: str, targets: list[Target], *batches: Counts, done: frozenset[tuple[int, str]] = frozenset()
) -> list[Row]:
    """The report of one attempt; every batch may be read once only."""
    platform = spec_pb2.KafkaAddress(bootstrap_servers=kafka).SerializeToString()

    def once() -> Iterator[pa.RecordBatch]:
        for counts in batches:
            yield batch(counts)

    delivery = Delivery(tuple(targets), 7, platform, batch_id=3, done=done)
    return [Row(**line) for report in delivery(once()) for line in report.to_pylist()]


def log_target(name: str = "") -> Target:
    return target("d", spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=2), name=name)))


def test_what_workers_say_is_put_together() -> None:
    def said(sink: str, kind: str, rows: int, partition: int = 0, **more: Any) -> Row:
        return Row(partition=partition, **line(sink, kind, rows=rows, **more))

    report = read_report(
        [
            said("log", "written", 5),
            said("log", "written", 6, partition=1),
            said("log", "refused", 2, reason="NO_FIELDS"),
            said("log", "printed", 1, text="row 1"),
            said("crm", "written", 11, bytes=7),
            said("crm", "receipt", 0, content=b"staged"),
            said("crm", "trouble", 0, partition=1, reason="SINK_UNAVAILABLE", text="it is away."),
            said("crm", "trouble", 0, partition=2, reason="SINK_THROTTLES", text="wait.", retry_after=9.0),
            said("crm", "trouble", 0, partition=3, reason="SINK_UNAVAILABLE", text="it is away."),
        ]
    )

    assert (report.written, report.refused) == ({"log": 11, "crm": 11}, {"NO_FIELDS": 2})
    assert (report.printed, report.done) == ({"log": ["row 1"]}, {(0, "log"), (1, "log"), (0, "crm")})
    assert (report.receipts, report.skipped) == ({"crm": [b"staged"]}, Counter(crm=7))
    [(name, trouble)] = report.troubles.items()
    assert (name, trouble.error.reason, trouble.error.retryable) == ("crm", "SINK_THROTTLES", True)
    assert (trouble.error.detail, trouble.retry_after) == ("crm: wait.", 9.0)


@pytest.mark.integration
def test_all_sinks_are_written_from_one_pass(kafka: str, influx: dict[str, str]) -> None:
    topic, dagger = fresh_topic(kafka), f"d-{uuid4().hex[:8]}"
    targets = [
        target(dagger, kafka_sink(kafka, topic)),
        log_target(),
        target(dagger, kafka_sink(kafka, topic, "again")),
    ]
    more: Counts = {("2026-01-01T12:03:00Z", "1"): 2}

    report = read_report(deliver(kafka, targets, COUNTS, more))

    assert (report.written, report.troubles) == ({"kafka": 4, "log": 4, "again": 4}, {})
    assert len(report.printed["log"]) == 2
    assert len(records(kafka, topic)) == 8


@pytest.mark.integration
def test_a_sink_in_trouble_does_not_hold_the_others_and_they_are_not_written_again(
    kafka: str, influx: dict[str, str]
) -> None:
    topic, dagger = fresh_topic(kafka), f"d-{uuid4().hex[:8]}"
    away = target(dagger, influx_sink(influx | {"url": NOWHERE}, dagger))
    taking = target(dagger, kafka_sink(kafka, topic))

    first = read_report(deliver(kafka, [away, taking], COUNTS))
    second = read_report(deliver(kafka, [away, taking], COUNTS, done=first.done))

    assert (first.done, first.written) == ({(0, "kafka")}, {"kafka": 3})
    assert [why.error.detail[:7] for why in first.troubles.values()] == ["influx:"]
    assert (second.done, second.written) == (frozenset(), {})
    assert len(records(kafka, topic)) == 3


@pytest.mark.integration
def test_a_sink_gets_the_rows_that_its_condition_is_true_of_and_only_these_are_set_aside(kafka: str) -> None:
    platform = spec_pb2.KafkaAddress(bootstrap_servers=kafka).SerializeToString()
    some, away = (replace(log_target(name), condition="__condition_0") for name in ("some", "away"))
    delivery = Delivery(
        (log_target(), some, away), 7, platform, batch_id=3, done=frozenset(), skipped={"away": "it is away."}
    )
    rows = batch(COUNTS).append_column("__condition_0", pa.array([False, True, None]))
    told = [Row(**line) for report in delivery(iter([rows, rows.slice(0, 1)])) for line in report.to_pylist()]
    report = read_report(told)

    assert (report.written, report.refused) == ({"log": 4, "some": 1, "away": 0}, {"SINK_UNAVAILABLE": 1})
    assert report.printed["some"] == report.printed["log"][1:2]


def test_a_driver_that_stood_still_writes_nothing_once_a_newer_generation_runs(tmp_path: Path) -> None:
    store, printed = LocalStore(tmp_path), log_target()
    delivery = Delivery((printed,), 7, b"", batch_id=3, done=frozenset(), store=store)
    computed = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(COUNTS)
        store.take(8)  # while the workers compute, or the driver stands still behind its own look
        computed.append(True)
        yield batch(COUNTS)

    store.take(7)
    with pytest.raises(FencedError) as fenced:
        list(delivery(batches()))

    assert (computed, explain(fenced.value).reason) == ([True], "FENCED")


@pytest.mark.integration
def test_rows_a_sink_refuses_are_set_aside_with_why_and_are_not_lost(
    kafka: str, influx: dict[str, str]
) -> None:
    dagger = f"d-{uuid4().hex[:8]}"
    without_fields = Target(
        dagger, influx_sink(influx, dagger).SerializeToString(), LAYOUT, SCHEMA, b"", updates=False
    )
    counts: Any = {("2026-01-01T12:01:00Z", "1"): 5, ("2026-01-01T12:01:00Z", "2"): None,
                   ("2026-01-01T12:02:00Z", "2"): None}  # fmt: skip

    report = read_report(deliver(kafka, [without_fields], counts))

    aside = [record for record in records(kafka, "daggers.quarantine") if record.key() == dagger.encode()]
    found = [telemetry_pb2.Quarantined.FromString(record.value() or b"") for record in aside]
    assert (report.written, report.refused) == ({"influx": 1}, {"NO_FIELDS": 2})
    assert [(one.stage, one.topic, one.reason, one.generation) for one in found] == [
        ("sink", "influx", "NO_FIELDS", 7)
    ] * 2
    assert found[0].decoded_prefix == '{"tag_city":"2","n":null,"window_timestamp":"2026-01-01T12:01:00Z"}'
    assert len({dict(record.headers() or [])["ce_id"] for record in aside}) == 2
    assert [n for _, n, _ in points(influx, dagger)] == [5]


FAT = "x" * 4096
AT_ONCE, FLOOD = 1_000, 20_000


def flood(rows: int) -> Iterator[pa.RecordBatch]:
    """Rows of 4 KiB without a field: each is refused."""
    for start in range(0, rows, AT_ONCE):
        times = pa.array([NOON + timedelta(seconds=start + at) for at in range(AT_ONCE)], TIME)
        text, none = pa.array([FAT] * AT_ONCE), pa.nulls(AT_ONCE, pa.int64())
        yield pa.RecordBatch.from_arrays([text, none, times, times, times, text], schema=SCHEMA)


def grown_by_a_flood(kafka: str) -> tuple[int, int]:
    """How many bytes more this process holds at most during a flood than during a smaller one; its rows."""
    platform = spec_pb2.KafkaAddress(bootstrap_servers=kafka).SerializeToString()
    sink = influx_sink(dict.fromkeys(("url", "org", "bucket", "token_file"), NOWHERE), "m")
    delivery = Delivery((target(f"d-{uuid4().hex[:8]}", sink),), 7, platform, batch_id=3, done=frozenset())
    list(delivery(flood(5 * AT_ONCE)))
    before = peak()
    told = [line for report in delivery(flood(FLOOD)) for line in report.to_pylist()]
    return peak() - before, sum(line["rows"] for line in told if line["kind"] == "refused")


def peak() -> int:
    """The most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.integration
def test_a_flood_of_refused_rows_goes_to_the_quarantine_as_it_comes(kafka: str) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker:
        grown, refused = worker.submit(grown_by_a_flood, kafka).result()

    assert refused == FLOOD
    assert grown < FLOOD * len(FAT) / 2  # each is held as two texts and a key where it is held


def test_who_waits_for_a_sink_holds_up_those_of_its_address_alone() -> None:
    first, same, other = (target("d", kafka_sink(where, "t")) for where in ("a:1", "a:1", "b:1"))
    influx = {"url": "http://a:1", "org": "", "bucket": "b", "token_file": ""}
    another_kind = target("d", influx_sink(influx, "m"))

    assert clients_of(first) is clients_of(same)
    assert len({id(clients_of(one)) for one in (first, other, another_kind)}) == 3
