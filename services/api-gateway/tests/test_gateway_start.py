"""A start folds on from the snapshot, and says why when it does not."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import structlog
from daggers.v1 import events_pb2, gateway_pb2
from structlog.testing import LogCapture

from api_gateway.state.fold import Fold
from api_gateway.state.projection import Projection
from api_gateway.state.rows import Change
from eventlog import Draft, LogPosition
from eventlog.memory import MemoryLog
from eventlog.testing import START
from fleet import Fleet
from fleet.fold.horizon import Horizon

pb = gateway_pb2


@pytest.fixture
def said(_quiet: None) -> list[Any]:
    """The log lines of the gateway."""
    capture = LogCapture()
    structlog.configure(processors=[capture], wrapper_class=structlog.make_filtering_bound_logger("info"))
    return capture.entries


class Counted(MemoryLog):
    """A log that knows where it was followed and replayed from."""

    def __init__(self) -> None:
        super().__init__()
        self.followed: list[int] = []
        self.replayed: list[int] = []

    def replay(self, since: int = -1) -> Any:
        self.replayed.append(since)
        return super().replay(since)

    def follow(self, since: int = -1) -> Any:
        self.followed.append(since)
        return super().follow(since)


async def filled(harness: Any, samples: Any) -> tuple[Counted, Any]:
    """A log with two daggers, one of them stopped, and the answer that created the first."""
    log = Counted()
    async with harness.running(log) as client:
        await samples.fill(client)
        created = await client.create(request_id="once")
        await client.create(name="another_one", request_id="two")
        await client.daggers.StopDagger(pb.StopDaggerRequest(name="another_one"), timeout=10)
    return log, created


async def all_events(client: Any) -> list[Any]:
    watch = client.daggers.WatchEvents(pb.WatchEventsRequest(until_end=True, since_sequence=-1), timeout=20)
    return [step async for step in watch]


async def everything(client: Any) -> Any:
    events = await all_events(client)
    listed = await client.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)
    got = await client.daggers.GetDagger(pb.GetDaggerRequest(name="another_one"), timeout=10)
    schema = await client.catalog.GetSchema(pb.GetSchemaRequest(message="shop.Booking"), timeout=10)
    return events, listed, got, schema, await client.create(request_id="once")


async def test_a_start_reads_only_the_last_records_again(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch, said: list[Any]
) -> None:
    monkeypatch.setattr("api_gateway.state.fold._ANCHOR_EVERY", 2)
    log, _ = await filled(harness, samples)
    async with harness.running(log) as client:
        again = await everything(client)
    async with harness.running(log, database_url=f"{harness.database_url}.other") as client:
        whole = await everything(client)

    assert log.followed == [-1, 2, -1]
    assert again == whole
    assert [each["since"] for each in said if each["event"] == "log.folded"] == [-1, 5, -1]


async def test_a_start_writes_what_came_since_its_snapshot_and_nothing_else(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = await filled(harness, samples)
    written: list[tuple[bool, list[str]]] = []
    write = Projection.write

    def noted(projection: Projection, change: Change, *, before: int) -> bool:
        written.append((change.snapshot.everything, [row["name"] for row in change.daggers]))
        return write(projection, change, before=before)

    monkeypatch.setattr(Projection, "write", noted)
    async with harness.running(log):
        pass
    stop = events_pb2.StopRequested(name="another_one")
    await log.append(Draft("stop", "/test", "another_one", START, stop))
    async with harness.running(log) as client:
        again = await everything(client)
    async with harness.running(log, database_url=f"{harness.database_url}.other") as client:
        whole = await everything(client)

    assert again == whole
    assert written[:2] == [(False, []), (False, ["another_one"])]
    assert written[-1][0]


def torn(file: Path) -> None:
    """All but the first page is noise."""
    pages = len(file.read_bytes()) // 4096
    file.write_bytes(file.read_bytes()[:4096] + bytes(range(256)) * 16 * (pages - 1))


def no_database(file: Path) -> None:
    file.write_bytes(b"this is no database " * 1000)


def row_changed(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE snapshot SET data = x'00' WHERE key = 'daggers/another_one'")
        database.commit()


def row_lost(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("DELETE FROM snapshot WHERE key LIKE 'answers/%'")
        database.commit()


def other_code(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE projection SET shape = 'newer'")
        database.commit()


def older_tables(file: Path) -> None:
    """As they were before there was a snapshot."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("DROP TABLE snapshot")
        for column in ("anchors", "checksum", "seal"):
            database.execute(f"ALTER TABLE projection DROP COLUMN {column}")
        database.execute("UPDATE projection SET shape = 'older'")
        database.execute("CREATE TABLE answers (request_id TEXT)")
        database.commit()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (torn, "cannot be read"),
        (no_database, "cannot be read"),
        (row_changed, "its row daggers/another_one is damaged"),
        (row_lost, "it has lost rows"),
        (other_code, "other code made it"),
        (older_tables, "other code made it"),
    ],
)
async def test_a_snapshot_that_cannot_be_used_is_told_of_once_and_the_whole_log_folded(
    harness: Any, samples: Any, tmp_path: Path, said: list[Any], damage: Callable[[Path], None], why: str
) -> None:
    log, _ = await filled(harness, samples)
    file = tmp_path / "gateway.db"
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    damage(file)
    async with harness.running(log) as client:
        again = await everything(client)
    async with harness.running(log, database_url=f"{harness.database_url}.other") as client:
        whole = await everything(client)
    async with harness.running(log) as client:
        restarted = await everything(client)

    told = [each["why"] for each in said if each["event"] == "snapshot.ignored"]
    with closing(sqlite3.connect(file)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema")}
    assert "answers" not in tables
    assert (again, restarted) == (whole, whole)
    assert [why in each for each in told] == [True]
    assert [each["since"] for each in said if each["event"] == "log.folded"] == [-1, -1, -1, 5]


async def test_what_was_made_of_a_record_is_told_however_long_ago(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Horizon(records=4, block=2)

    def beginning(projection: Projection) -> tuple[Fold, LogPosition]:
        held = projection.snapshot()
        return Fold(short) if held is None else Fold.restore(held, short), projection.prepare()

    monkeypatch.setattr("api_gateway.server.begin", beginning)
    monkeypatch.setattr("api_gateway.state.fold._ANCHOR_EVERY", 2)
    log = Counted()
    async with harness.running(log) as client:
        await samples.fill(client)
        await client.create()
        for number in range(9):
            stop = events_pb2.StopRequested(name="nobody")
            await log.append(Draft(f"stop-{number}", "/test", "nobody", START, stop))
        first = await all_events(client)
    async with harness.running(log) as client:
        again = await all_events(client)

    assert [bool(step.event.refused) for step in first] == [False] * 4 + [True] * 9
    assert [step.event.version for step in first] == [1] * 4 + [0] * 9
    assert again == first
    assert log.followed[-1] > 0


async def test_many_watches_from_the_beginning_read_the_log_a_few_times_and_fold_it_never(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not read what it is sent is among them, and holds up nobody."""
    log = Counted()
    async with harness.running(log) as client:
        await samples.fill(client)
        for number in range(300):
            stop = events_pb2.StopRequested(name="nobody", meta={"message": "x" * 900})
            await log.append(Draft(f"stop-{number}", "/test", "nobody", START, stop))
        await all_events(client)
        folded: list[Any] = []
        apply = Fleet.apply
        monkeypatch.setattr(Fleet, "apply", lambda *said: folded.append(said) or apply(*said))
        log.replayed.clear()
        request = pb.WatchEventsRequest(since_sequence=-1)
        silent = [client.daggers.WatchEvents(request) for _ in range(5)]
        watches = await asyncio.gather(*(all_events(client) for _ in range(20)))
        for one in silent:
            one.cancel()

    assert {len(events) for events in watches} == {303}
    assert folded == []
    assert len(log.replayed) < 5
