"""Batches into sinks that are away, deny or ask to wait: what the driver does between two attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from pyspark.sql import Row
from services.runtime.tests.job_writing import EndedError, Place, Rows
from services.runtime.tests.serving import serving
from services.runtime.tests.sink_contract import batch, target

from daggerspec import rundir
from runtime import sinks
from runtime.errors import JobError, TemporaryError, external
from runtime.launch import delivery, outages
from runtime.launch.progress import heartbeat_at
from runtime.sinks import BatchRef, Outcome, Part, Target
from runtime.state.store.local import LocalStore

BATCH = BatchRef("fingerprint", 3, 7)
AWAY, DENIED, THERE = 503, 401, 204


class Database:
    """Listens as InfluxDB does; `status` says how it answers, and `token` which one it takes."""

    def __init__(self, server: HTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.token, self.status, self.headers = "canary", THERE, dict[str, str]()
        self.bodies: list[bytes] = []
        self.on_request: Callable[[int], None] = lambda _: None

    def answer(self, token: str, body: bytes) -> int:
        self.bodies.append(body)
        self.on_request(len(self.bodies))
        return self.status if token == f"Token {self.token}" else DENIED

    @property
    def written(self) -> int:
        return sum(body.count(b"\n") + 1 for body in self.bodies if body)


@pytest.fixture
def database() -> Iterator[Database]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(here.answer(self.headers.get("authorization", ""), body))
            for name, value in here.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        here = Database(server)
        with serving(server):
            yield here


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PATIENCE_S", 0.0)
    monkeypatch.setattr(outages, "LONGEST_PAUSE_S", 0.02)


def influx(database: Database, folder: Path, **beside: Any) -> Target:
    (folder / "token").write_text("canary")
    sink = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(name="crm", **beside))
    sink.sink.influx.measurement = f"m{uuid4().hex[:8]}"
    address = sink.sink.influx.address
    address.url, address.org, address.bucket, address.token.file = (
        database.url, "-", "b", str(folder / "token"),
    )  # fmt: skip
    return target("d", sink)


def test_a_sink_that_is_away_is_asked_and_nothing_is_computed_until_it_answers(
    database: Database, tmp_path: Path
) -> None:
    place, rows = Place(tmp_path, influx(database, tmp_path)), Rows()
    database.status = AWAY
    warnings = list[list[tuple[str, str]]]()

    def on_request(requests: int) -> None:
        warnings.append(place.told)
        database.status = AWAY if requests < 9 else THERE

    database.on_request = on_request
    report, skipping = place.writing.write(rows, BATCH)

    assert (rows.jobs, report.written, skipping) == (2, {"crm": 3}, {})
    assert [bool(body) for body in database.bodies] == [True, *[False] * 8, True]
    assert warnings[-1] == [("crm", "SINK_UNAVAILABLE")]


def test_rows_are_as_old_as_when_the_sink_took_them_and_until_then_the_oldest_is_told(
    database: Database, tmp_path: Path
) -> None:
    place, database.status = Place(tmp_path, influx(database, tmp_path)), AWAY
    began, waiting = datetime.now(UTC).replace(microsecond=0), list[Any]()

    def end(ago_s: float) -> str:
        return (began - timedelta(seconds=ago_s)).isoformat()

    def on_request(requests: int) -> None:
        waiting.append(place.launch.heartbeat.progress.fresh["crm"].waiting_since)
        if requests == 5:
            database.status = THERE

    database.on_request = on_request
    place.writing.write(cast(Any, Rows([batch({(end(600), "1"): 5, (end(100), "2"): 7})])), BATCH)
    [fresh] = heartbeat_at(place.launch.heartbeat.progress, datetime.now(UTC)).freshness.values()
    took = (datetime.now(UTC) - began).total_seconds()

    assert waiting[0] is None
    assert abs((began - waiting[-1]).total_seconds() - 600) < 600 * 0.06 + took
    assert (fresh.rows, fresh.HasField("waiting_since")) == (2, False)
    assert 100_000 * 0.9 <= fresh.p50_ms <= (100 + took) * 1.1 * 1000
    assert 600_000 * 0.9 <= fresh.p99_ms <= (600 + took) * 1.1 * 1000


@pytest.mark.parametrize(("share", "parts"), [({"rows_per_second": 1000.0}, 1), ({}, None)])
def test_where_a_share_has_to_be_kept_one_task_writes(
    database: Database, tmp_path: Path, share: dict[str, float], parts: int | None
) -> None:
    free, rows = influx(database, tmp_path), Rows()
    limited = free.resolved
    if share:
        limited.share.CopyFrom(spec_pb2.RateLimit(**share))
    report, _ = Place(tmp_path, replace(free, sink=limited.SerializeToString())).writing.write(
        cast(Any, rows), BATCH
    )

    assert (rows.parts, report.written) == (parts, {"crm": 3})


def test_a_sink_that_denies_is_waited_for_and_its_secret_is_read_again(
    database: Database, tmp_path: Path
) -> None:
    place, rows = Place(tmp_path, influx(database, tmp_path)), Rows()
    database.token = "rotated"
    warnings = list[list[tuple[str, str]]]()

    def on_request(requests: int) -> None:
        warnings.append(place.told)
        if requests == 6:
            (tmp_path / "token").write_text("rotated\n")

    database.on_request = on_request
    report, _ = place.writing.write(rows, BATCH)

    assert (rows.jobs, report.written, warnings[-1]) == (2, {"crm": 3}, [("crm", "SINK_DENIED")])


def test_a_secret_that_is_rotated_while_a_driver_runs_costs_no_attempt(
    database: Database, tmp_path: Path
) -> None:
    place, rows = Place(tmp_path, influx(database, tmp_path)), Rows()
    place.writing.write(rows, BATCH)
    database.token = "rotated"
    (tmp_path / "token").write_text("rotated\n")

    report, _ = place.writing.write(rows, BatchRef("fingerprint", 4, 7))

    assert (rows.jobs, report.written) == (2, {"crm": 3})


def test_a_sink_that_asks_for_time_gets_it(database: Database, tmp_path: Path) -> None:
    place, rows = Place(tmp_path, influx(database, tmp_path)), Rows()
    database.status, database.headers = AWAY, {"Retry-After": "1"}
    database.on_request = lambda requests: setattr(database, "status", AWAY if requests < 2 else THERE)
    began = time.monotonic()

    place.writing.write(rows, BATCH)

    assert (rows.jobs, time.monotonic() - began >= 1) == (2, True)


def test_a_sink_that_is_away_does_not_hold_the_partitions_of_the_others(
    database: Database, tmp_path: Path
) -> None:
    log = target("d", spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=9))))
    place, rows = Place(tmp_path, influx(database, tmp_path), log), Rows()
    database.status = AWAY
    database.on_request = lambda requests: setattr(database, "status", AWAY if requests < 4 else THERE)

    report, _ = place.writing.write(rows, BATCH)

    assert (report.written, len(report.printed["log"])) == ({"crm": 3, "log": 3}, 3)
    assert (place.told, rows.jobs) == ([("crm", "SINK_UNAVAILABLE")], 2)


def test_a_drain_leaves_the_batch_of_a_sink_that_stays_away(database: Database, tmp_path: Path) -> None:
    place, rows = Place(tmp_path, influx(database, tmp_path)), Rows()
    database.status = AWAY
    database.on_request = lambda requests: place.launch.stopping.set() if requests == 5 else None

    with pytest.raises(EndedError):
        place.writing.write(rows, BATCH)

    assert (rows.jobs, [why.partition(":")[0] for why in place.left]) == (2, ["crm"])


@pytest.mark.timeout(60)
def test_rows_that_are_mostly_refused_wait_and_none_is_set_aside(database: Database, tmp_path: Path) -> None:
    crm = influx(database, tmp_path, max_refused=0.5)
    minutes = [f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z" for minute in range(250)]
    none: Any = dict.fromkeys(((minute, "1") for minute in minutes), None)
    mended: Any = dict.fromkeys(none, 1)
    place, rows = Place(tmp_path, crm), Rows([batch(none)])

    def on_request(requests: int) -> None:
        if requests == 2:
            rows.batches = [batch(mended)]

    database.on_request = on_request
    report, _ = place.writing.write(rows, BATCH)

    assert (place.told, report.refused) == ([("crm", "SINK_REFUSES_MOST")], {})
    assert (report.written, database.written) == ({"crm": 250}, 250)


def test_a_launch_may_refuse_until_the_instant_that_its_directory_says(tmp_path: Path) -> None:
    launch, file = Place(tmp_path).launch, tmp_path / rundir.ALLOWED
    told = [launch.may_refuse()]
    for text in (f"{time.time() + 3600}\n", f"{time.time() - 1}\n", "nonsense\n"):
        file.write_text(text)
        told.append(launch.may_refuse())

    assert told == [False, True, False, False]


@pytest.mark.parametrize("allowed", [True, False])
def test_what_a_sink_refuses_is_set_aside_at_once_where_it_may_refuse_what_it_likes(
    database: Database, tmp_path: Path, *, allowed: bool
) -> None:
    crm = replace(influx(database, tmp_path, max_refused=0.5), part=Part(BATCH, 0))
    minutes = [f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z" for minute in range(250)]
    none: Any = dict.fromkeys(((minute, "1") for minute in minutes), None)
    sink = delivery.SinkPart(crm, sinks.open_writer(crm), may_refuse=allowed)
    ready = sink.write(batch(none), 3)
    [line] = sink.report()

    assert sum(len(refusals) for _, refusals in ready) == (250 if allowed else 0)
    assert line["kind"] == ("written" if allowed else "trouble")


@dataclass
class Staging:
    """A sink whose partitions are staged, and made valid by the driver."""

    committed: list[tuple[BatchRef, list[bytes]]] = field(default_factory=list)
    failures: list[JobError] = field(default_factory=list)
    finished: int = 0

    def open(self, _: Target) -> Staging:
        return self

    def write(self, rows: pa.RecordBatch, batch_id: int) -> Outcome:
        return Outcome()

    def finish(self) -> Outcome:
        self.finished += 1
        if self.finished == 1:
            raise TemporaryError("SINK_UNAVAILABLE", "It is away.")
        return Outcome(receipt=b"staged")

    def commit(self, _: Target, ref: BatchRef, receipts: Sequence[bytes]) -> None:
        if self.failures:
            raise self.failures.pop()
        self.committed.append((ref, list(receipts)))


@pytest.fixture
def staging(monkeypatch: pytest.MonkeyPatch) -> Staging:
    sink = Staging()
    monkeypatch.setattr(sinks, "load", lambda _: sink)
    return sink


def test_what_is_staged_is_committed_once_by_whoever_holds_the_lease(
    staging: Staging, tmp_path: Path
) -> None:
    place, rows = Place(tmp_path, target("d", log_sink())), Rows()
    staging.failures = [
        TemporaryError("SINK_UNAVAILABLE", "It is away."),
        external("SINK_DENIED", "It says no.", retryable=True),
    ]

    report, _ = place.writing.write(rows, BATCH)

    assert staging.committed == [(BATCH, [b"staged"])]
    assert (report.written, rows.jobs, place.told) == ({"log": 3}, 2, [("log", "SINK_UNAVAILABLE")])


def test_nothing_is_committed_after_a_newer_generation_has_the_lease(
    staging: Staging, tmp_path: Path
) -> None:
    place = Place(tmp_path, target("d", log_sink()))

    class Late(Rows):
        def collect(self) -> list[Row]:
            told = super().collect()
            LocalStore(tmp_path).take(8)
            return told

    staging.finished = 1
    with pytest.raises(JobError) as fenced:
        place.writing.write(Late(), BATCH)

    assert (fenced.value.error.reason, staging.committed) == ("FENCED", [])


def log_sink() -> spec_pb2.ResolvedSink:
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=9)))
