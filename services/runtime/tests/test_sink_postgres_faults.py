"""The sink `postgres` beside servers and writers that stand still, locks, and tables that are altered."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_cases.postgres import sink
from services.runtime.tests.sink_contract import LAYOUT, Counts, batch, many, target
from services.runtime.tests.sink_postgres_faults import MINUTE, PATIENCE_S, Table
from tests.standstill import serving, standing_still

from daggerspec.sinks import postgres as kind
from runtime import sinks
from runtime.clients import postgres as clients
from runtime.errors import JobError, TemporaryError
from runtime.sinks import BatchRef, Part
from runtime.sinks import postgres as postgres_sink

pytestmark = pytest.mark.integration
Sink = spec_pb2.PostgresSink


def numbered(batch_id: int, rows: int = 40) -> Counts:
    """Rows of a batch, no two of one city in any two of them."""
    return {(MINUTE, f"{batch_id}/{row}"): row for row in range(rows)}


def once(*written: Counts) -> dict[tuple[str, int], int]:
    return {(city, n): 1 for counts in written for (_, city), n in counts.items()}


@pytest.fixture(params=[Sink.MODE_UPSERT, Sink.MODE_APPEND], ids=["upsert", "append"])
def table(request: pytest.FixtureRequest, postgres: str, tmp_path: Path) -> Iterator[Table]:
    resolved, url = sink(postgres, tmp_path)
    resolved.sink.postgres.mode = request.param
    if request.param == Sink.MODE_APPEND:
        del resolved.sink.postgres.key[:]
    sinks.check(target("d", resolved))
    yield Table(resolved, url)
    clients.drop(resolved)


class Exchanges:
    """Counts what is said to the server by the sink, and does something before it says it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number, self.at = 0, -1
        self.act: Callable[[], object] = lambda: None
        wait = clients.MonitoredConnection.wait

        def counted(connection: Any, *said: Any, **more: Any) -> Any:
            if self.number == self.at:
                self.act()
            self.number += 1
            return wait(connection, *said, **more)

        monkeypatch.setattr(clients.MonitoredConnection, "wait", counted)


@pytest.mark.long
def test_rows_are_there_once_wherever_the_server_stands_still(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "SILENCE_S", 0.5)
    monkeypatch.setattr(clients, "CONNECT_S", 2)
    exchanges, written = Exchanges(monkeypatch), [numbered(0)]
    clients.drop(table.resolved)
    assert table.write(written[0]) == 0
    for at in range(exchanges.number):
        written.append(numbered(at + 1))
        with ExitStack() as frozen:
            exchanges.number, exchanges.at = 0, at
            exchanges.act = lambda frozen=frozen: frozen.enter_context(  # type: ignore[misc]
                standing_still(serving(table.resolved.sink.postgres.address.port))
            )
            with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):
                table.write(written[-1], batch_id=at + 1)
        exchanges.at = -1
        table.patiently(written[-1], batch_id=at + 1)

    assert len(written) > 8
    assert table.rows() == once(*written)


@pytest.mark.long
def test_a_server_that_is_busy_with_a_statement_is_waited_for(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "SILENCE_S", 0.5)
    table.sql(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_sleep(4); RETURN NULL; END'",
        "CREATE TRIGGER slow AFTER INSERT ON counts FOR EACH STATEMENT EXECUTE FUNCTION slow()",
    )

    assert table.write(numbered(0)) == 0
    assert table.rows() == once(numbered(0))


def stopped_before_it_commits(resolved: bytes, counts: Counts) -> None:
    """A worker of generation 1, in a process of its own, that stands still once it has written its rows."""
    for name in ("put", "append"):
        written = getattr(postgres_sink._PostgresTable, name)

        def then(table: Any, *said: Any, written: Any = written) -> None:
            written(table, *said)
            os.kill(os.getpid(), signal.SIGSTOP)

        setattr(postgres_sink._PostgresTable, name, then)
    soon = clients.OPTIONS.replace("session_timeout=60s", "session_timeout=5s")
    clients.OPTIONS = soon  # type: ignore[misc]  # this process is its own
    Table(spec_pb2.ResolvedSink.FromString(resolved)).write(counts)


@pytest.mark.long
def test_a_writer_that_stands_still_gives_its_locks_back_and_writes_no_more(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "OPTIONS", clients.OPTIONS.replace("lock_timeout=20s", "lock_timeout=1s"))
    clients.drop(table.resolved)
    counts = numbered(0)
    spawned = multiprocessing.get_context("spawn")
    old = spawned.Process(target=stopped_before_it_commits, args=(table.resolved.SerializeToString(), counts))
    old.start()
    began = time.monotonic()
    while psutil.Process(old.pid).status() != psutil.STATUS_STOPPED:
        assert old.is_alive()
        assert time.monotonic() - began < PATIENCE_S
        time.sleep(0.1)  # polling a process; bounded by the deadline
    told = table.patiently(counts, generation=2)
    os.kill(old.pid or 0, signal.SIGCONT)
    old.join(PATIENCE_S)

    assert old.exitcode == 1
    assert any("another session has a lock" in each for each in told)
    assert table.rows() == once(counts)


@pytest.mark.parametrize(
    "held",
    [
        "LOCK TABLE counts IN ACCESS EXCLUSIVE MODE",
        "ALTER TABLE counts ADD COLUMN more text",
        "CREATE INDEX ON counts (n)",
    ],
)
def test_rows_wait_for_who_has_a_lock_say_so_and_go_on(
    table: Table, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "OPTIONS", clients.OPTIONS.replace("lock_timeout=20s", "lock_timeout=200ms"))
    clients.drop(table.resolved)
    with psycopg.connect(table.url) as other:
        other.execute(held)
        with pytest.raises(TemporaryError, match=r"SINK_UNAVAILABLE.*another session has a lock"):
            table.write(numbered(0))
    assert table.patiently(numbered(0)) == []
    assert table.patiently(numbered(1), batch_id=1) == []

    assert table.rows() == once(numbered(0), numbered(1))


@pytest.mark.long
def test_a_table_that_is_locked_for_half_a_minute_is_waited_for(table: Table) -> None:
    told = list[str]()
    with psycopg.connect(table.url) as other:
        other.execute("LOCK TABLE counts IN ACCESS EXCLUSIVE MODE")
        writing = threading.Thread(target=lambda: told.extend(table.patiently(numbered(0))))
        writing.start()
        time.sleep(30)  # so long it is locked
    writing.join(PATIENCE_S)

    assert any("another session has a lock" in each for each in told)
    assert table.rows() == once(numbered(0))


@pytest.mark.long
@pytest.mark.parametrize("table", [Sink.MODE_UPSERT], ids=["upsert"], indirect=True)
def test_a_writer_that_is_the_victim_of_a_deadlock_writes_again_and_refuses_no_row(table: Table) -> None:
    rows = numbered(0)
    assert table.write(rows) == 0
    first, last = min(rows), max(rows)
    told = list[str]()
    with psycopg.connect(table.url) as other:
        other.execute("SET deadlock_timeout = '20s'")  # the sink notices it first, and is the victim
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        for _, city in (last, first):
            other.execute("UPDATE counts SET n = n WHERE tag_city = %s", (city,))
            if city == last[1]:
                writing = threading.Thread(target=lambda: told.extend(table.patiently(rows, batch_id=1)))
                writing.start()
                end = time.monotonic() + PATIENCE_S
                while True:  # until the sink has rows, and waits for this one
                    with psycopg.connect(table.url, autocommit=True) as look:
                        if look.execute(waiting).fetchone() != (0,):
                            break
                    assert time.monotonic() < end
                    time.sleep(0.02)
    writing.join(PATIENCE_S)

    assert any("does not answer" in each or "another session" in each for each in told), told
    assert table.rows() == once(rows)


def test_a_table_may_be_altered_beside_its_writer(table: Table) -> None:
    done, written = threading.Event(), list[Counts]()

    def writing() -> None:
        while not done.is_set() or len(written) < 20:
            written.append(numbered(len(written)))
            table.patiently(written[-1], batch_id=len(written) - 1)

    writer = threading.Thread(target=writing)
    writer.start()
    try:
        for statement in (
            "ALTER TABLE counts ADD COLUMN more text DEFAULT 'x'",
            "ALTER TABLE counts ALTER COLUMN n TYPE numeric",
            "CREATE INDEX ON counts (n)",
            "ALTER TABLE counts DROP COLUMN more",
            "ALTER TABLE counts ALTER COLUMN n TYPE bigint",
        ):
            table.sql(statement)
            before = len(written)
            while len(written) < before + 3 and writer.is_alive():
                time.sleep(0.01)  # until it goes on; bounded by its patience
    finally:
        done.set()
        writer.join(PATIENCE_S)

    assert len(written) >= 15
    assert table.rows() == once(*written)


def test_a_column_that_was_widened_takes_what_it_can_at_once(table: Table) -> None:
    table.sql("ALTER TABLE counts ALTER COLUMN n TYPE smallint, ALTER COLUMN tag_city TYPE varchar(8)")
    assert table.write(numbered(0)) == 0
    table.sql("ALTER TABLE counts ALTER COLUMN n TYPE bigint, ALTER COLUMN tag_city TYPE text")
    wide: Counts = {(MINUTE, "a city of more than eight letters"): 2**40, (MINUTE, "b"): 1}

    assert table.write(wide, batch_id=1) == 0
    assert table.rows() == once(numbered(0), wide)


@pytest.mark.parametrize("table", [Sink.MODE_UPSERT], indirect=True)
def test_a_unique_index_that_is_dropped_is_told_and_rows_are_taken_again_with_a_new_one(
    table: Table,
) -> None:
    own = table.resolved.sink.postgres
    table.write(many(3))
    for name in _indexes(table):
        table.sql(f"DROP INDEX {name}")
    with pytest.raises(JobError) as dropped:
        table.write(many(3))
    table.sql(kind.index_ddl(own, LAYOUT))
    table.write(many(3))

    assert (dropped.value.error.reason, dropped.value.error.retryable) == ("SINK_SCHEMA", True)
    assert set(table.rows().values()) == {1}


def _indexes(table: Table) -> list[str]:
    with psycopg.connect(table.url) as connection:
        found = connection.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'counts'::regclass"
        )
        return [name for (name,) in found]


def test_rows_wait_for_a_server_that_became_read_only(table: Table) -> None:
    role = f"writer_{os.getpid()}_{table.resolved.sink.postgres.mode}"
    password = Path(table.resolved.sink.postgres.address.password.file).read_text().strip()
    table.sql(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{password}'")
    table.resolved.sink.postgres.address.user = role
    aimed = target("d", table.resolved)
    table.write(numbered(0))
    table.sql(
        f"ALTER ROLE {role} SET default_transaction_read_only = on",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'",
    )
    with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):  # its connection was ended
        table.write(numbered(1), batch_id=1)
    for ask in (lambda: table.write(numbered(1), batch_id=1), lambda: sinks.probe(aimed)):
        with pytest.raises(TemporaryError, match="SINK_READ_ONLY"):
            ask()
    table.sql(f"ALTER ROLE {role} RESET default_transaction_read_only")
    sinks.probe(aimed)
    table.write(numbered(1), batch_id=1)

    assert table.rows() == once(numbered(0), numbered(1))


# Rows that the database refuses in whatever words


def refused_of(table: Table, counts: Counts, batch_id: int = 0) -> list[int]:
    """Write a batch as one; the rows that were refused."""
    writer = sinks.open_writer(replace(target("d", table.resolved), part=Part(BatchRef("c", batch_id, 1), 0)))
    outcomes = [writer.write(batch(counts), batch_id), writer.finish()]
    assert all(refusal.by_server and refusal.detail for each in outcomes for refusal in each.refused)
    return sorted(refusal.row for each in outcomes for refusal in each.refused)


def raising(table: Table, when: str, what: str) -> None:
    """A trigger of the table's owner."""
    table.sql(
        f"CREATE OR REPLACE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF {when} THEN {what}; END IF; RETURN new; END $$",
        "CREATE OR REPLACE TRIGGER complain BEFORE INSERT OR UPDATE ON counts"
        " FOR EACH ROW EXECUTE FUNCTION complain()",
    )


COMPLAINTS: Final = {
    "an exception": "RAISE EXCEPTION 'negative'",
    "any code": "RAISE EXCEPTION 'no' USING ERRCODE = 'QQ123'",
    "no such function": "PERFORM nowhere(new.n)",
    "no such table": "INSERT INTO nowhere VALUES (new.n)",
    "no right": "RAISE insufficient_privilege",
    "an assertion": "ASSERT false",
    "too many columns": "RAISE too_many_columns",
    "internal": "RAISE internal_error",
}


@pytest.mark.parametrize("what", COMPLAINTS.values(), ids=COMPLAINTS)
def test_a_row_for_which_a_trigger_raises_is_refused_by_itself(table: Table, what: str) -> None:
    raising(table, "new.n IN (3, 17)", what)

    assert refused_of(table, numbered(0)) == [3, 17]
    assert table.rows() == {row: 1 for row in once(numbered(0)) if row[1] not in (3, 17)}


@pytest.mark.parametrize("what", ["RAISE EXCEPTION 'closed'", "PERFORM nowhere(new.n)"])
def test_rows_wait_where_a_trigger_raises_for_each(table: Table, what: str) -> None:
    raising(table, "true", what)
    with pytest.raises(JobError) as waits:
        refused_of(table, numbered(0))

    assert (waits.value.error.reason, waits.value.error.retryable) == ("SINK_SCHEMA", True)
    raising(table, "false", "RETURN new")
    assert refused_of(table, numbered(0)) == []
    assert table.rows() == once(numbered(0))


def test_a_row_by_itself_is_compared_with_one_that_is_made_up_and_taken_back(table: Table) -> None:
    raising(table, "new.n < 0", "RAISE EXCEPTION 'negative'")

    assert refused_of(table, {(MINUTE, "a"): -1}) == [0]
    assert table.rows() == {}


@pytest.mark.parametrize("table", [Sink.MODE_UPSERT], indirect=True)
def test_a_key_that_is_too_long_for_its_index_is_refused_by_itself(table: Table) -> None:
    long = "".join(f"{number:x}" for number in range(100_000, 101_500))
    counts = {(MINUTE, "a"): 1, (MINUTE, long): 2, (MINUTE, "b"): 3}

    assert refused_of(table, counts) == [1]
    assert table.rows() == {("a", 1): 1, ("b", 3): 1}


def test_row_level_security_refuses_rows_by_themselves_and_a_missing_right_none(table: Table) -> None:
    role = f"tenant_{os.getpid()}_{table.resolved.sink.postgres.mode}"
    password = Path(table.resolved.sink.postgres.address.password.file).read_text().strip()
    schema = table.resolved.sink.postgres.schema
    table.sql(
        f"CREATE ROLE {role} LOGIN PASSWORD '{password}'",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "ALTER TABLE counts ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON counts USING (n <> 5)",
    )
    table.resolved.sink.postgres.address.user = role

    assert refused_of(table, numbered(0)) == [5]
    assert sum(table.rows().values()) == 39
    table.sql(f"REVOKE INSERT ON counts FROM {role}")
    with pytest.raises(JobError) as waits:
        refused_of(table, numbered(1), batch_id=1)
    assert (waits.value.error.reason, waits.value.error.retryable) == ("SINK_DENIED", True)
    table.sql(f"GRANT INSERT ON counts TO {role}")
    assert refused_of(table, numbered(1), batch_id=1) == [5]


STATES: Final = {
    "too many connections": "too_many_connections",
    "disk full": "disk_full",
    "out of memory": "out_of_memory",
    "limit": "configuration_limit_exceeded",
    "shutdown": "admin_shutdown",
    "crash": "crash_shutdown",
    "starting": "cannot_connect_now",
    "canceled": "query_canceled",
    "read-only": "read_only_sql_transaction",
    "deadlock": "deadlock_detected",
    "serialization": "serialization_failure",
    "lock": "lock_not_available",
    "io": "io_error",
    "connection": "connection_failure",
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_what_a_server_says_of_its_own_state_is_no_rows_fault(table: Table, state: str) -> None:
    raising(table, "new.n = 3", f"RAISE {state}")
    with pytest.raises(TemporaryError, match=r"SINK_UNAVAILABLE|SINK_READ_ONLY"):
        refused_of(table, numbered(0))
    raising(table, "false", "RETURN new")

    assert refused_of(table, numbered(0)) == []
    assert table.rows() == once(numbered(0))
