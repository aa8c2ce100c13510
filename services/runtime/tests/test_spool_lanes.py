"""A sink that takes no rows has them wait in a log of its own: batches go on, and all come to it in order."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Timer
from typing import Any, cast

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.job_writing import EndedError, Place, Rows
from services.runtime.tests.sink_contract import batch, target
from services.runtime.tests.spool_log import MemoryAddress, MemoryLog

from daggerspec import rundir
from runtime import sinks
from runtime.clients.breaker import FLOOD
from runtime.errors import JobError, TemporaryError, external
from runtime.launch import delivery, lane, lanes, outages
from runtime.launch.progress import batch_written, heartbeat_at
from runtime.replay import sinklogs
from runtime.sinks import BatchRef, Outcome, Target
from runtime.spool import state

DEADLINE_S = 30.0
MINUTE = "2026-01-01T12:01:00Z"


@dataclass
class FlakySink:
    """A sink that comes and goes, with the newest row of each city."""

    is_up: bool = True
    cities: dict[str, int] = field(default_factory=dict)
    writes: list[tuple[str, int, int]] = field(default_factory=list)
    """Of each write the checkpoint, the batch, the partition."""
    committed: list[tuple[int, list[bytes]]] = field(default_factory=list)
    commits: bool = True
    attempts: int = 0

    def open(self, target: Target) -> _Writing:
        return _Writing(self, target)

    def probe(self, _: Target) -> None:
        self.answer()

    def answer(self) -> None:
        self.attempts += 1
        if not self.is_up:
            raise TemporaryError("SINK_UNAVAILABLE", "It is away.")


class StagingSink(FlakySink):
    def commit(self, _: Target, ref: BatchRef, receipts: Sequence[bytes]) -> None:
        self.answer()
        if not self.commits:
            raise TemporaryError("SINK_UNAVAILABLE", "It commits nothing.")
        self.committed.append((ref.batch_id, list(receipts)))


@dataclass
class _Writing:
    server: FlakySink
    target: Target

    def write(self, rows: pa.RecordBatch, _: int) -> Outcome:
        self.server.answer()
        part = self.target.writes
        self.server.writes.append((part.batch.checkpoint, part.batch.batch_id, part.number))
        for row in rows.to_pylist():
            self.server.cities[row["tag_city"]] = row["n"]
        return Outcome()

    def finish(self) -> Outcome:
        self.server.answer()
        return Outcome(receipt=b"staged" if isinstance(self.server, StagingSink) else b"")


@dataclass
class Parts(Rows):
    """Rows of several partitions, one batch each; the sink goes behind the first where that is wanted."""

    between: Callable[[], None] = lambda: None

    def collect(self) -> list[Any]:
        lines = []
        write = cast(Any, self._write)
        for number, rows in enumerate(self.batches):
            one = delivery.PartWriting(write, number)
            one.write(rows)
            lines += [{"partition": number, **line} for line in one.finish()]
            self.between()
        self.jobs += 1
        return lines


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PATIENCE_S", 0.0)
    monkeypatch.setattr(outages, "LONGEST_PAUSE_S", 0.02)
    monkeypatch.setattr(lanes, "_RETRY_S", 0.02)


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> dict[str, MemoryLog]:
    own: dict[str, MemoryLog] = {}
    monkeypatch.setattr(MemoryLog, "logs", own)
    return own


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> dict[str, FlakySink]:
    """Serve as the sinks `http`, which may go, and `log`."""
    by_kind = {"http": FlakySink(), "log": FlakySink()}
    monkeypatch.setattr(sinks, "load", lambda kind: by_kind[kind])
    return by_kind


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Make launches of one dagger, one after the other."""
    launched: list[Place] = []

    def make(*targets: Target, created: int = 0) -> Place:
        for place in launched:
            place.launch.stopping.set()
        until(lambda: not find_drainers())  # a process that is gone has no threads
        place = Place(tmp_path, *targets)
        place.launch.spec.created = created
        launched.append(place)
        return place

    yield make
    for place in launched:
        place.launch.stopping.set()


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """List what is quarantined: sink, reason, and the number in the row."""
    rows: list[tuple[str, str, int]] = []

    class ListingQuarantine:
        def put(self, record: Any, identity: str) -> int:
            rows.append((record.sink, record.reason, json.loads(record.decoded_prefix)["n"]))
            return 1

        def flush(self) -> None:
            """Return at once: nothing waits."""

    monkeypatch.setattr(delivery, "Quarantine", lambda _: ListingQuarantine())
    return rows


def rule(then: spec_pb2.OnOutage.Then.ValueType, seconds: float = 900) -> spec_pb2.OnOutage:
    own = spec_pb2.OnOutage(then=then)
    own.after.FromTimedelta(timedelta(seconds=seconds))
    return own


def crm(**beside: Any) -> Target:
    sink = spec_pb2.Sink(name="crm", **{"on_outage": rule(spec_pb2.OnOutage.THEN_WAIT), **beside})
    sink.http.url = "http://crm"
    return target("d", spec_pb2.ResolvedSink(sink=sink))


def other() -> Target:
    return target("d", spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=9))))


def write(place: Place, number: int, cities: dict[str, int], checkpoint: str = "c") -> None:
    rows = Rows([batch({(MINUTE, city): n for city, n in cities.items()})])
    report, away = place.writing.write(cast(Any, rows), BatchRef(checkpoint, number, 7))
    errors = {name: trouble.error for name, trouble in away.items()}
    place.launch.heartbeat.update(
        lambda progress: batch_written(progress, report.written, report.refused, {}, away=errors)
    )


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def find_drainers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "drain-crm"]


def beat(place: Place) -> Any:
    return place.launch.heartbeat.progress.beat


def test_a_sink_that_keeps_up_has_no_log(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    place = places(crm(), other())
    for number in range(3):
        write(place, number, {"1": number})

    assert (logs, servers["http"].cities, dict(beat(place).spools)) == ({}, {"1": 2}, {})


def test_the_others_go_on_and_what_waits_comes_in_order(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    place, server = places(crm(), other()), servers["http"]
    server.is_up = False
    for number in range(4):
        write(place, number, {"1": number, str(10 + number): number})
    during = beat(place).spools["crm"]
    errors = [(error.reason, error.detail) for error in beat(place).retrying]
    there = dict(servers["log"].cities), dict(server.cities), during.rows
    server.is_up = True
    until(lambda: not beat(place).spools)
    write(place, 4, {"1": 4})

    assert there == ({"1": 3, "10": 0, "11": 1, "12": 2, "13": 3}, {}, 8)
    assert (during.error.reason, errors) == ("SINK_UNAVAILABLE", [("SINK_UNAVAILABLE", "crm: It is away.")])
    assert server.cities == {"1": 4, "10": 0, "11": 1, "12": 2, "13": 3}
    assert [number for _, number, _ in server.writes] == [0, 1, 2, 3, 4]
    assert (logs["crm"].records, beat(place).sink_rows["crm"]) == ([], 9)
    assert list(beat(place).taking) == ["crm", "log"]


def test_how_old_the_oldest_row_is_counts_until_the_sink_has_it(
    servers: dict[str, FlakySink], places: Callable[..., Place]
) -> None:
    place, server = places(crm(), other()), servers["http"]
    server.is_up = False
    write(place, 0, {"1": 1})
    now = place.launch.heartbeat.progress.fresh["crm"].oldest_waiting
    assert now is not None
    waiting = heartbeat_at(place.launch.heartbeat.progress, now).freshness
    server.is_up = True
    until(lambda: not beat(place).spools)
    fresh = heartbeat_at(place.launch.heartbeat.progress, now).freshness["crm"]

    assert (waiting["crm"].HasField("waiting_since"), waiting["log"].HasField("waiting_since")) == (
        True,
        False,
    )
    assert (fresh.rows, fresh.HasField("waiting_since")) == (1, False)


def test_a_launch_goes_on_with_the_log_of_the_one_before(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    server = servers["http"]
    server.is_up = False
    write(places(crm()), 0, {"1": 0, "2": 0})
    # killed behind the marker and before Spark's commit, and then behind rows without one
    write(places(crm()), 0, {"1": 0, "2": 0})
    logs["crm"].append(logs["crm"].records[:1])
    place = places(crm())
    write(place, 1, {"1": 1})
    server.is_up = True
    until(lambda: not beat(place).spools)

    assert server.cities == {"1": 1, "2": 0}
    assert [number for _, number, _ in server.writes] == [0, 0, 1]
    assert logs["crm"].records == []


def test_what_a_dagger_of_before_under_this_name_has_left_is_deleted(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    servers["http"].is_up = False
    write(places(crm()), 0, {"old": 0})
    servers["http"].is_up = True
    write(places(crm(), created=7), 0, {"new": 1})

    assert (servers["http"].cities, logs["crm"].records) == ({"new": 1}, [])


def test_without_the_rule_what_is_left_goes_first_as_well(
    servers: dict[str, FlakySink], places: Callable[..., Place]
) -> None:
    server = servers["http"]
    server.is_up = False
    write(places(crm()), 0, {"1": 0})
    place = places(crm(on_outage=spec_pb2.OnOutage(then=spec_pb2.OnOutage.THEN_WAIT)))
    write(place, 1, {"1": 1})
    server.is_up = True
    until(lambda: not beat(place).spools)

    assert [number for _, number, _ in server.writes] == [0, 1]


def test_a_corrected_address_counts_for_rows_that_wait(
    servers: dict[str, FlakySink], places: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = servers["http"]
    server.is_up = False
    write(places(crm()), 0, {"1": 0})
    moved = crm().resolved
    moved.sink.http.url = "http://elsewhere"
    urls: list[str] = []
    opened = server.open
    place = places(replace(crm(), sink=moved.SerializeToString()))
    until(lambda: all(thread.name != "drain-crm" for thread in threading.enumerate()))
    monkeypatch.setattr(server, "open", lambda to: urls.append(to.resolved.sink.http.url) or opened(to))
    server.is_up = True
    write(place, 1, {"1": 1})
    until(lambda: not beat(place).spools)

    assert set(urls) == {"http://elsewhere"}


def test_a_log_that_is_full_makes_the_batch_wait(
    servers: dict[str, FlakySink], places: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "MOST_BYTES", 1)
    place, server = places(crm(), other()), servers["http"]
    server.is_up = False
    write(place, 0, {"1": 0})
    waited: list[int] = []
    stopping = place.launch.stopping
    wait = stopping.wait

    def on_wait(timeout: float | None = None) -> bool:
        waited.append(servers["log"].cities["1"])
        server.is_up = server.is_up or len(waited) > 20
        return wait(timeout)

    monkeypatch.setattr(stopping, "wait", on_wait)
    write(place, 1, {"1": 1})

    assert (set(waited), servers["log"].cities, server.cities) == ({0}, {"1": 1}, {"1": 1})


def test_a_drain_leaves_a_batch_whose_log_is_full_and_keeps_one_that_has_room(
    servers: dict[str, FlakySink], places: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = places(crm())
    servers["http"].is_up = False
    place.launch.stopping.set()
    write(place, 0, {"1": 0})
    monkeypatch.setattr(lanes, "MOST_BYTES", 1)
    full = places(crm())
    full.launch.stopping.set()
    with pytest.raises(EndedError):
        write(full, 1, {"1": 1})

    assert (beat(place).spools["crm"].rows, len(full.left)) == (1, 1)


@pytest.mark.parametrize("kind", [FlakySink, StagingSink])
def test_a_batch_of_which_a_part_was_taken_is_there_whole(
    kind: type[FlakySink], servers: dict[str, FlakySink], places: Callable[..., Place]
) -> None:
    server = servers["http"] = kind()
    place = places(crm(), other())
    parts = [batch({(MINUTE, city): 1}) for city in ("1", "2", "3")]

    def between() -> None:
        server.is_up = False

    report, _ = place.writing.write(cast(Any, Parts(parts, between=between)), BatchRef("c", 0, 7))
    direct = dict(server.cities)
    server.is_up = True
    until(lambda: not beat(place).spools)
    staged = [(0, [b"staged"] * 3)] if kind is StagingSink else []

    assert (direct, server.cities) == ({"1": 1}, {"1": 1, "2": 1, "3": 1})
    assert server.committed == staged
    assert {write[2] for write in server.writes} == {0, 1, 2}
    assert report.written["crm"] + beat(place).sink_rows["crm"] == 3


def test_a_sink_that_goes_before_it_commits_has_all_of_the_batch_in_its_log(
    servers: dict[str, FlakySink], places: Callable[..., Place]
) -> None:
    server = servers["http"] = StagingSink(commits=False)
    place = places(crm(), other())
    write(place, 0, {"1": 1})
    waiting = beat(place).spools["crm"].rows, dict(beat(place).sink_rows), servers["log"].cities
    server.commits = True
    until(lambda: not beat(place).spools)

    assert waiting == (1, {"crm": 0, "log": 1}, {"1": 1})
    assert (server.committed, beat(place).sink_rows["crm"]) == ([(0, [b"staged"])], 1)


def test_a_sink_that_an_edit_took_away_has_its_rows_set_aside_and_its_log_deleted(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    logs: dict[str, MemoryLog],
    aside: list[tuple[str, str, int]],
) -> None:
    servers["http"].is_up = False
    write(places(crm(), other()), 0, {"1": 5})
    write(places(other()), 1, {"1": 6})
    until(lambda: not logs["crm"].is_there)

    assert [(sink, reason) for sink, reason, _ in aside] == [("crm", "SINK_UNAVAILABLE")]
    assert servers["http"].cities == {}


def test_an_empty_log_of_a_sink_that_an_edit_took_away_is_deleted(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    for name in ("crm", "log"):
        logs[name] = MemoryLog(is_there=True)
    write(places(other()), 0, {"1": 6})

    assert {name: log.is_there for name, log in logs.items()} == {"crm": False, "log": True}


def test_where_a_log_is_full_the_oldest_rows_are_set_aside_and_the_sink_gets_the_newest(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    aside: list[tuple[str, str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "MOST_BYTES", 1)
    place, server = places(crm(on_outage=rule(spec_pb2.OnOutage.THEN_SKIP)), other()), servers["http"]
    server.is_up = False
    for number in range(4):
        write(place, number, {"1": number})
    until(lambda: len(aside) == 4 or beat(place).spools["crm"].rows == 1)
    server.is_up = True
    until(lambda: not beat(place).spools)
    write(place, 4, {"2": 4})

    numbers = [n for _, _, n in aside]
    assert (servers["log"].cities, numbers) == ({"1": 3, "2": 4}, sorted(numbers))
    assert {0, 1, 2} <= set(numbers)
    assert (server.cities, server.cities.get("1") == 3 or 3 in numbers) == ({**server.cities, "2": 4}, True)
    assert (beat(place).outages["crm"] >= 1, list(beat(place).taking)) == (True, ["crm", "log"])
    assert {(sink, reason) for sink, reason, _ in aside} == {("crm", "SINK_UNAVAILABLE")}


def test_a_driver_ends_where_the_log_of_a_sink_that_it_needs_is_full_and_the_next_has_its_time_again(
    servers: dict[str, FlakySink], places: Callable[..., Place]
) -> None:
    needed, server = crm(on_outage=rule(spec_pb2.OnOutage.THEN_FAIL, seconds=0.2)), servers["http"]
    server.is_up = False
    place = places(needed, other())
    write(place, 0, {"1": 0})
    until(lambda: beat(place).spools["crm"].HasField("error"))
    time.sleep(0.3)  # the log is as old as it may be
    with pytest.raises(JobError) as failed:
        write(place, 1, {"1": 1})
    again = places(needed, other())
    server.is_up = True
    write(again, 1, {"1": 1})
    until(lambda: not beat(again).spools)

    error = failed.value.error
    assert (error.reason, error.retryable, error.detail) == ("SINK_UNAVAILABLE", True, "crm: It is away.")
    assert (server.cities, [number for _, number, _ in server.writes]) == ({"1": 1}, [0, 1])


@pytest.mark.parametrize("has_others", [True, False])
def test_a_sink_that_holds_the_others_goes_on_apart_until_it_is_quick_again(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    logs: dict[str, MemoryLog],
    monkeypatch: pytest.MonkeyPatch,
    has_others: bool,
) -> None:
    for module in (lanes, lane):
        monkeypatch.setattr(module, "PATIENCE_S", 0.2)
    place, server = places(crm(), *([other()] if has_others else [])), servers["http"]
    server.answer = lambda: time.sleep(0.3)  # type: ignore[method-assign]
    write(place, 0, {"1": 0})
    going = threading.Event()
    server.answer = lambda: going.wait(DEADLINE_S) and None  # type: ignore[method-assign,return-value]
    if not has_others:
        going.set()
    write(place, 1, {"1": 1})
    waiting = {name: spool.rows for name, spool in beat(place).spools.items()}
    going.set()
    until(lambda: not beat(place).spools)
    write(place, 2, {"1": 2})

    assert (waiting, "crm" in logs) == ({"crm": 1}, True) if has_others else ({}, False)
    assert ([number for _, number, _ in server.writes], server.cities) == ([0, 1, 2], {"1": 2})
    assert not beat(place).spools


def test_a_log_that_may_be_made_and_not_written_holds_nobody(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    logs["crm"] = MemoryLog(takes_nothing=True)
    place, server, errors = places(crm(), other()), servers["http"], list[list[str]]()
    server.is_up = False

    def probe(_: Target) -> None:
        errors.append([error.reason for error in beat(place).retrying])
        server.is_up = len(errors) > 3
        server.answer()

    server.probe = probe  # type: ignore[method-assign]
    for number in range(2):
        write(place, number, {"1": number})

    assert errors[-1] == ["SINK_UNAVAILABLE", "SPOOL_REFUSED"]
    assert (server.cities, servers["log"].cities, logs["crm"].records) == ({"1": 1}, {"1": 1}, [])


def test_a_log_that_takes_no_more_is_written_to_the_sink_first(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    place, server = places(crm(), other()), servers["http"]
    server.is_up = False
    write(place, 0, {"1": 0})
    logs["crm"].takes_nothing = True
    Timer(0.3, lambda: setattr(server, "is_up", True)).start()
    write(place, 1, {"1": 1})

    assert (server.cities, [number for _, number, _ in server.writes]) == ({"1": 1}, [0, 1])


def test_of_updates_that_wait_the_sink_gets_the_newest_of_each_key(
    servers: dict[str, FlakySink], places: Callable[..., Place]
) -> None:
    place, server = places(replace(crm(), updates=True), other()), servers["http"]
    server.is_up = False
    for number in range(4):
        write(place, number, {"1": number, str(10 + number): number})
    before = server.attempts
    until(lambda: server.attempts > before + 1)  # one that began with all four in the log has failed
    server.is_up = True
    until(lambda: not beat(place).spools)

    assert server.cities == {"1": 3, "10": 0, "11": 1, "12": 2, "13": 3}
    assert [number for _, number, _ in server.writes] == [3] * len(server.writes)
    assert beat(place).sink_rows["crm"] == 5


def test_where_kafka_makes_no_log_the_batch_waits_as_without_one(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    logs["crm"] = MemoryLog(refusal=external("SPOOL_REFUSED", "No right.", retryable=True))
    place, server = places(crm(), other()), servers["http"]
    server.is_up = False
    attempts: list[int] = []

    def answer() -> None:
        attempts.append(1)
        server.is_up = len(attempts) > 5
        if not server.is_up:
            raise TemporaryError("SINK_UNAVAILABLE", "It is away.")

    server.answer = answer  # type: ignore[method-assign]
    write(place, 0, {"1": 1})

    assert (server.cities, servers["log"].cities) == ({"1": 1}, {"1": 1})


def test_a_broker_that_is_away_holds_up_no_dagger_that_has_no_use_for_a_log(
    servers: dict[str, FlakySink], places: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = external("KAFKA_UNREACHABLE", "It is away.", retryable=True)

    def find(*_: object) -> frozenset[str]:
        raise refused

    monkeypatch.setattr(MemoryLog, "list_sinks", find)
    write(places(crm(on_outage=None), other()), 0, {"1": 1})

    assert (servers["http"].cities, servers["log"].cities) == ({"1": 1}, {"1": 1})


def test_a_batch_that_cannot_be_deleted_from_the_log_is_written_to_the_sink_once(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    place, server = places(crm()), servers["http"]
    server.is_up = False
    write(place, 0, {"1": 0})
    tried: list[int] = []

    def delete_until(offset: int) -> None:
        tried.append(offset)
        if len(tried) < 4:
            raise external("SPOOL_REFUSED", "No right to delete.", retryable=True)
        MemoryLog.delete_until(logs["crm"], offset)

    logs["crm"].delete_until = delete_until  # type: ignore[method-assign]
    server.is_up = True
    until(lambda: not beat(place).spools)

    assert (len(tried), [number for _, number, _ in server.writes]) == (4, [0])


def test_a_marker_that_may_have_been_appended_already_counts_once(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    servers["http"].is_up = False
    write(places(crm()), 0, {"1": 0})
    logs["crm"].append(logs["crm"].records[-1:])
    place = places(crm())
    servers["http"].is_up = True
    write(place, 1, {"1": 1})
    until(lambda: not beat(place).spools)

    assert ([number for _, number, _ in servers["http"].writes], logs["crm"].records) == ([0, 1], [])


def test_a_log_of_which_records_are_missing_is_told_and_nothing_of_it_is_taken_off(
    servers: dict[str, FlakySink], places: Callable[..., Place], logs: dict[str, MemoryLog]
) -> None:
    servers["http"].is_up = False
    write(places(crm()), 0, {"1": 0})
    logs["crm"].delete_until(1)
    place = places(crm())
    servers["http"].is_up = True
    write(place, 1, {"1": 1})
    until(lambda: beat(place).spools["crm"].error.reason == "SPOOL_DAMAGED")

    assert servers["http"].cities == {}


def test_rows_of_a_paused_sink_wait_until_it_is_resumed(
    servers: dict[str, FlakySink], places: Callable[..., Place], tmp_path: Path
) -> None:
    place, file = places(crm(on_outage=None), other()), tmp_path / rundir.PAUSED
    write(place, 0, {"1": 0})
    file.write_text("crm\n")
    write(place, 1, {"1": 1})
    write(place, 2, {"1": 2})
    paused = beat(place).spools["crm"]
    there = dict(servers["http"].cities), dict(servers["log"].cities), list(beat(place).retrying)
    file.write_text("")  # nothing is read meanwhile
    until(lambda: not beat(place).spools)

    assert (paused.paused, paused.rows, there) == (True, 2, ({"1": 0}, {"1": 2}, []))
    assert servers["http"].cities == {"1": 2}


def test_a_pause_is_no_outage_however_long_it_was(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    aside: list[tuple[str, str, int]],
    tmp_path: Path,
) -> None:
    place = places(crm(on_outage=rule(spec_pb2.OnOutage.THEN_SKIP, seconds=0.3)), other())
    server, file = servers["http"], tmp_path / rundir.PAUSED
    file.write_text("crm\n")
    for number in range(3):
        write(place, number, {str(number): number})
    until(lambda: beat(place).spools["crm"].paused)
    time.sleep(0.5)  # the log is older than it may be
    write(place, 3, {"3": 3})
    file.write_text("")
    until(lambda: not beat(place).spools)

    assert (server.cities, aside) == ({"0": 0, "1": 1, "2": 2, "3": 3}, [])


def test_a_driver_does_not_end_where_a_sink_that_it_needs_is_resumed(
    servers: dict[str, FlakySink], places: Callable[..., Place], tmp_path: Path
) -> None:
    place = places(crm(on_outage=rule(spec_pb2.OnOutage.THEN_FAIL, seconds=0.5)), other())
    server, file = servers["http"], tmp_path / rundir.PAUSED
    server.is_up = False
    write(place, 0, {"1": 0})
    until(lambda: beat(place).spools["crm"].HasField("error"))
    file.write_text("crm\n")
    until(lambda: beat(place).spools["crm"].paused)
    time.sleep(0.7)  # the log is older than it may be
    server.is_up = True
    file.write_text("")
    write(place, 1, {"1": 1})
    until(lambda: not beat(place).spools)

    assert server.cities == {"1": 1}


def test_how_long_the_log_could_not_be_read_is_no_outage_of_its_sink(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    logs: dict[str, MemoryLog],
    aside: list[tuple[str, str, int]],
) -> None:
    server = servers["http"]
    server.is_up = False
    place = places(crm(on_outage=rule(spec_pb2.OnOutage.THEN_SKIP, seconds=2)), other())
    write(place, 0, {"1": 0})
    write(place, 1, {"2": 1})
    logs["crm"].refusal = TemporaryError("KAFKA_UNREACHABLE", "It is away.")
    server.is_up = True
    time.sleep(2.5)  # the log is older than it may be
    logs["crm"].refusal = None
    until(lambda: not beat(place).spools)

    assert (server.cities, aside) == ({"1": 0, "2": 1}, [])


def test_a_log_that_cannot_be_read_when_it_overflows_ends_no_driver(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    logs: dict[str, MemoryLog],
    aside: list[tuple[str, str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, server = places(crm(on_outage=rule(spec_pb2.OnOutage.THEN_SKIP)), other()), servers["http"]
    server.is_up = False
    for number in range(3):
        write(place, number, {str(number): number})
    reads: list[int] = []
    read = MemoryLog.read

    def read_at_times(log: MemoryLog, begin: int, end: int) -> Iterator[Any]:
        reads.append(begin)
        if server.is_up and len(set(reads)) == 2 and reads.count(begin) == 1:
            raise TemporaryError("KAFKA_UNREACHABLE", "It is away.")
        return read(log, begin, end)

    monkeypatch.setattr(place.writing._lanes._lanes["crm"], "_bound", state.LogLimit(1, timedelta(hours=1)))
    monkeypatch.setattr(MemoryLog, "read", read_at_times)
    server.is_up = True
    until(lambda: not beat(place).spools)
    write(place, 3, {"3": 3})

    assert "3" in server.cities


@pytest.mark.parametrize("then", [spec_pb2.OnOutage.THEN_SKIP, spec_pb2.OnOutage.THEN_FAIL])
def test_rows_of_which_a_sink_refuses_most_are_not_set_aside_and_end_no_driver(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    aside: list[tuple[str, str, int]],
    then: spec_pb2.OnOutage.Then.ValueType,
) -> None:
    place, server = places(crm(on_outage=rule(then, seconds=0.2)), other()), servers["http"]
    server.is_up = False
    write(place, 0, {"1": 0})

    def refuse() -> None:
        raise TemporaryError(FLOOD, "It refuses 100 of 100 rows.")

    server.answer = refuse  # type: ignore[method-assign]
    until(lambda: beat(place).spools["crm"].error.reason == FLOOD)
    time.sleep(0.4)  # the log is older than it may be
    Timer(0.3, lambda: setattr(server, "answer", lambda: None)).start()
    write(place, 1, {"1": 1})
    until(lambda: not beat(place).spools)

    assert (server.cities, aside) == ({"1": 1}, [])


def test_each_thread_has_a_quarantine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    users: dict[int, set[int]] = {}
    quarantines: list[object] = []

    class CountingQuarantine:
        def __init__(self, _: object) -> None:
            quarantines.append(self)  # its id stays its own

        def put(self, record: Any, identity: str) -> int:
            users.setdefault(id(self), set()).add(threading.get_ident())
            return 1

        def flush(self) -> None:
            both.wait(DEADLINE_S)

    def write_part() -> None:
        part = delivery.PartWriting(away, 0)
        part.write(batch({(MINUTE, "1"): 1}))
        part.finish()

    monkeypatch.setattr(delivery, "Quarantine", CountingQuarantine)
    platform = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1").SerializeToString()
    away = delivery.Delivery(
        (crm(),), 7, platform, 0, frozenset(), checkpoint="c", skipped={"crm": "It is away."}
    )
    both = threading.Barrier(2)
    threads = [threading.Thread(target=write_part) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)

    assert sorted(map(len, users.values())) == [1, 1]


def test_rows_that_a_kill_left_without_a_marker_are_deleted_and_hold_up_no_replay(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    logs: dict[str, MemoryLog],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sinklogs, "TopicAddress", lambda _, topic: MemoryAddress(topic.rpartition(".")[2]))
    monkeypatch.setattr(sinklogs, "find_sinks", lambda *_: MemoryLog.list_sinks())
    spec = spec_pb2.JobSpec(dagger="d")
    servers["http"].is_up = False
    write(places(crm()), 0, {"1": 0})
    with pytest.raises(JobError, match="come first"):
        sinklogs.SinkLogs(spec).check_empty("crm")
    rows_only = logs["crm"].records[:1]
    logs["crm"].delete_until(2)
    logs["crm"].append(rows_only)

    sinklogs.SinkLogs(spec).check_empty("crm")
    servers["http"].is_up = True
    write(places(crm()), 1, {"1": 1})
    assert (servers["http"].cities, logs["crm"].records) == ({"1": 1}, [])


def test_a_replay_without_rights_to_logs_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinklogs, "TopicAddress", lambda *_: pytest.fail("It has no right."))
    monkeypatch.setattr(sinklogs, "find_sinks", lambda *_: frozenset[str]())

    sinklogs.SinkLogs(spec_pb2.JobSpec(dagger="d")).check_empty("crm")


def test_a_sink_that_is_paused_before_logs_could_be_found_loses_none_of_its_older_rows(
    servers: dict[str, FlakySink],
    places: Callable[..., Place],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    server, file = servers["http"], tmp_path / rundir.PAUSED
    server.is_up = False
    write(places(crm()), 0, {"old": 0})
    server.is_up = True
    place, found = places(crm(on_outage=None), other()), MemoryLog.list_sinks

    def find() -> frozenset[str]:
        raise TemporaryError("KAFKA_UNREACHABLE", "It is away.")

    monkeypatch.setattr(place.writing._lanes, "_find", find)
    write(place, 1, {"1": 1})
    monkeypatch.setattr(place.writing._lanes, "_find", found)
    file.write_text("crm\n")
    write(place, 2, {"2": 2})
    file.write_text("")
    until(lambda: not beat(place).spools)

    assert server.cities == {"old": 0, "1": 1, "2": 2}


def test_a_log_is_full_by_its_size_or_by_the_age_of_its_oldest_batch() -> None:
    bound = state.LogLimit(size=10, age=timedelta(seconds=60))
    none: state.LogState[None] = state.LogState()
    small = none.append_marker(state.Whole(3, 9, 100.0, None))

    assert [none.is_full(bound, 1e9), small.is_full(bound, 159.0)] == [False, False]
    assert [
        small.is_full(bound, 160.0),
        small.append_marker(state.Whole(5, 1, 101.0, None)).is_full(bound, 101.0),
    ] == [
        True,
        True,
    ]
    assert (none.is_empty, small.is_empty, small.delete_first().is_empty) == (True, False, True)
