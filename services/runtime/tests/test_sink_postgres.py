"""The sink `postgres` against a real server: types, keys, poison, schemas, secrets, outages."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from services.runtime.tests import fresh
from services.runtime.tests.sink_cases.postgres import sink
from tests.proxy import Proxy

from daggerspec import sinks as kinds
from daggerspec.columns import Column, role_of
from daggerspec.selection import Selection
from runtime import sinks
from runtime.clients import postgres as clients
from runtime.clients.batch_marks import PartitionMarker
from runtime.encode.rows import Layout
from runtime.errors import JobError, TemporaryError
from runtime.sinks import BatchRef, Outcome, Part, Source, Target
from runtime.sinks import postgres as postgres_sink

pytestmark = pytest.mark.integration
KIND = spec_pb2.PostgresSink
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
PLAIN = {"id": ("bigint", pa.int64()), "text": ("string", pa.string()), "n": ("bigint", pa.int64())}
Types = dict[str, tuple[str, pa.DataType]]


@dataclass
class Place:
    """A table of one test: how it is written to and read."""

    resolved: spec_pb2.ResolvedSink
    url: str
    secret: Path

    @property
    def sink(self) -> spec_pb2.PostgresSink:
        return self.resolved.sink.postgres

    def target(self, types: Types = PLAIN) -> Target:
        columns = tuple(Column(name, role_of(name), name, spark) for name, (spark, _) in types.items())
        schema = pa.schema([(name, arrow) for name, (_, arrow) in types.items()])
        return Target("d", self.resolved.SerializeToString(), Layout(columns, ()), schema, b"", updates=False)

    def write(self, *rows: dict[str, Any], types: Types = PLAIN, check: bool = True) -> list[tuple[int, str]]:
        """Row and reason of each refusal."""
        target = self.target(types)
        if check:
            sinks.check(target)
        batch = pa.RecordBatch.from_pylist(list(rows), schema=target.schema)
        return [
            (refusal.row, refusal.reason) for refusal in sinks.open_writer(target).write(batch, 0).refused
        ]

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement, where it has some."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def ids(self) -> list[int]:
        return [number for (number,) in self.sql("SELECT id FROM counts ORDER BY id")]


@pytest.fixture
def place(postgres: str, tmp_path: Path) -> Iterator[Place]:
    resolved, url = sink(postgres, tmp_path)
    made = Place(resolved, url, tmp_path / "password")
    made.sink.key[:] = ["id"]
    yield made
    clients.drop(made.resolved)


def refused(ask: Callable[[], Any]) -> JobError:
    with pytest.raises(JobError) as caught:
        ask()
    return caught.value


INFINITE = float("inf")
EVERY: dict[str, tuple[str, pa.DataType, Sequence[Any]]] = {
    "text": ("string", pa.string(), ["", '"quoted", and\nlines\\.', "\\.", "𝄞 עברית", " ", "NULL"]),
    "whole": ("bigint", pa.int64(), [2**63 - 1, -(2**63), 0]),
    "small": ("tinyint", pa.int8(), [127, -128]),
    "double": (
        "double",
        pa.float64(),
        [0.1, -0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf")],
    ),
    "single": ("float", pa.float32(), [0.5, -1.5]),
    "yes": ("boolean", pa.bool_(), [True, False]),
    "money": ("decimal(38,18)", pa.decimal128(38, 18), [Decimal("12345678901234567890.123456789012345678")]),
    "time": ("timestamp", TIME, [NOON, datetime(1, 1, 1, tzinfo=UTC), NOON + timedelta(microseconds=1)]),
    "day": ("date", pa.date32(), [date(2024, 2, 29), date(9999, 12, 31)]),
    "bytes": ("binary", pa.binary(), [b"", b"\x00\xff", b"abc"]),
    "list": ("array<string>", pa.list_(pa.string()), [[], ["a", None, 'b"']]),
    "map": ("map<string,bigint>", pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]),
    "inside": ("struct<a:bigint>", pa.struct([("a", pa.int64())]), [{"a": 2**60}, {"a": None}]),
    "span": ("interval day to second", pa.duration("us"), [timedelta(seconds=1.5), timedelta(days=-2)]),
}


@pytest.mark.parametrize("name", EVERY)
def test_values_of_every_type_come_back_as_they_were(place: Place, name: str) -> None:
    spark, arrow, values = EVERY[name]
    types = {"id": ("bigint", pa.int64()), "value": (spark, arrow)}
    rows = [{"id": number, "value": value} for number, value in enumerate([None, *values])]

    assert place.write(*rows, types=types) == []
    read = [value for (value,) in place.sql("SELECT value FROM counts ORDER BY id")]
    if name == "map":
        values = [dict(value) for value in values]
    assert read == [None, *values]


@pytest.mark.parametrize("poison", [(0,), (4_999,), (0, 17, 4_999), (7_000, 7_001), tuple(range(40))])
def test_rows_that_a_constraint_refuses_are_named_and_all_others_are_written(
    place: Place, poison: tuple[int, ...]
) -> None:
    place.sql("CREATE TABLE counts (id bigint PRIMARY KEY, text text, n bigint CHECK (n < 100))")
    rows = [{"id": row, "text": "canary", "n": 100 if row in poison else 1} for row in range(8_000)]

    assert place.write(*rows) == [(row, "CONSTRAINT") for row in poison]
    assert place.ids() == [row for row in range(8_000) if row not in poison]


def test_why_a_row_is_refused_says_which_column_and_no_value(place: Place) -> None:
    place.sql("CREATE TABLE counts (id bigint PRIMARY KEY, text varchar(3), n smallint CHECK (n > 0))")
    target = place.target()
    rows = [
        {"id": 1, "text": "canary", "n": 1},
        {"id": 2, "text": "x", "n": -77},
        {"id": 3, "text": "x", "n": 2**40},
    ]

    outcome = sinks.open_writer(target).write(pa.RecordBatch.from_pylist(rows, schema=target.schema), 0)

    told = [(refusal.row, refusal.reason, refusal.detail) for refusal in outcome.refused]
    assert told == [
        (0, "SINK_REFUSED", "PostgreSQL refuses the row in the column text (StringDataRightTruncation)."),
        (1, "CONSTRAINT", "PostgreSQL refuses the row by the constraint counts_n_check (CheckViolation)."),
        (2, "SINK_REFUSED", "PostgreSQL refuses the row in the column n (NumericValueOutOfRange)."),
    ]
    assert "canary" not in json.dumps(told)


def test_a_nul_is_refused_or_becomes_a_space(place: Place) -> None:
    rows = [{"id": 1, "text": "a\0b", "n": 1}, {"id": 2, "text": "ab", "n": 1}]

    assert place.write(*rows) == [(0, "NUL_CHARACTER")]
    place.sink.nul_to_space = True
    assert place.write(*rows) == []
    assert place.sql("SELECT text FROM counts ORDER BY id") == [("a b",), ("ab",)]


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        (spec_pb2.PostgresSink.MODE_UPSERT, ["new", "third"]),
        (spec_pb2.PostgresSink.MODE_INSERT_IGNORE, ["old", "first"]),
    ],
)
def test_of_a_key_that_comes_again_one_row_is_left(place: Place, mode: Any, left: list[str]) -> None:
    place.sink.mode = mode
    place.write({"id": 1, "text": "old", "n": 1})
    place.write(
        {"id": 1, "text": "new", "n": 1},
        *({"id": 2, "text": text, "n": 1} for text in ("first", "second", "third")),
    )

    assert [text for (text,) in place.sql("SELECT text FROM counts ORDER BY id")] == left


def test_rows_whose_key_has_a_null_take_their_own_place(place: Place) -> None:
    place.sink.key[:] = ["id", "text"]
    for n in (1, 2):
        place.write({"id": 1, "text": None, "n": n})

    assert place.sql("SELECT id, text, n FROM counts") == [(1, None, 2)]


def test_columns_may_have_other_names_in_the_table(place: Place) -> None:
    place.sink.columns["n"] = 'the "count"'
    place.write({"id": 1, "text": "x", "n": 5})

    assert place.sql('SELECT "the ""count""" FROM counts') == [(5,)]


@pytest.mark.parametrize(
    ("made", "may", "said"),
    [
        ([], {}, "is not there: set create_table, or make it by CREATE TABLE"),
        (
            ["CREATE TABLE counts (id bigint PRIMARY KEY)"],
            {},
            "has no column text, n: set add_columns, or",
        ),
        (
            ["CREATE TABLE counts (id bigint, text text, n bigint)"],
            {},
            "has no unique index of id: CREATE",
        ),
        (
            ["CREATE TABLE counts (id bigint UNIQUE, text text, n bigint)"],
            {},
            "has no unique index of id: CREATE",
        ),
        (["CREATE TABLE counts (id bigint PRIMARY KEY)"], {"add_columns": True}, ""),
        (["CREATE TABLE counts (id bigint PRIMARY KEY, text text, n int, more text)"], {}, ""),
        ([], {"create_table": True}, ""),
    ],
)
def test_a_table_that_cannot_take_the_rows_is_told_with_the_statement_that_mends_it(
    place: Place, made: list[str], may: dict[str, bool], said: str
) -> None:
    place.sql(*made, "SELECT 1")
    place.sink.create_table = may.get("create_table", False)
    place.sink.add_columns = may.get("add_columns", False)

    if said:
        error = refused(lambda: sinks.check(place.target())).error
        assert (error.reason, error.retryable, said in error.detail) == ("SINK_SCHEMA", False, True), (
            error.detail
        )
    else:
        assert place.write({"id": 1, "text": "x", "n": 1}) == []


def test_a_table_that_somebody_changes_is_told_and_taken_again_once_it_fits(place: Place) -> None:
    place.write({"id": 1, "text": "x", "n": 1})
    place.sql("ALTER TABLE counts DROP COLUMN n")
    dropped = refused(lambda: place.write({"id": 2, "text": "x", "n": 1}, check=False)).error
    place.sql("ALTER TABLE counts ADD COLUMN n text")
    place.write({"id": 2, "text": "x", "n": 7}, check=False)

    assert (dropped.reason, dropped.retryable) == ("SINK_SCHEMA", True)
    assert place.sql("SELECT n FROM counts WHERE id = 2") == [("7",)]


def test_a_wrong_password_is_denied_and_one_that_is_rotated_is_read_again(place: Place) -> None:
    place.sql("CREATE ROLE writer LOGIN PASSWORD 'first' SUPERUSER")
    place.sink.address.user = "writer"
    place.secret.write_text("wrong")
    denied = refused(lambda: place.write({"id": 1, "text": "x", "n": 1})).error
    place.secret.write_text("first\n")
    place.write({"id": 1, "text": "x", "n": 1})
    place.sql("ALTER ROLE writer PASSWORD 'second'", END)
    place.secret.write_text("second\n")
    with pytest.raises(TemporaryError):  # its connection was ended
        place.write({"id": 2, "text": "x", "n": 1}, check=False)
    place.write({"id": 2, "text": "x", "n": 1}, check=False)

    assert (denied.reason, denied.retryable, "wrong" in denied.detail) == ("SINK_DENIED", True, False)
    assert place.ids() == [1, 2]


END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [("database", "nowhere", "SINK_MISSING"), ("user", "nobody", "SINK_DENIED")],
)
def test_what_is_not_there_is_told_apart_from_silence(
    place: Place, field: str, value: str, reason: str
) -> None:
    setattr(place.sink.address, field, value)

    error = refused(lambda: sinks.check(place.target())).error
    assert (error.reason, error.retryable) == (reason, True)


def test_a_server_without_tls_is_not_talked_to_where_tls_is_asked_for(place: Place, tmp_path: Path) -> None:
    place.sink.address.tls.ca_file = str(tmp_path / "ca.pem")

    assert refused(lambda: sinks.check(place.target())).error.reason == "SINK_TLS"


def test_rows_wait_while_the_server_is_away(place: Place) -> None:
    address = place.sink.address
    with Proxy(address.port) as way:
        place.write({"id": 1, "text": "x", "n": 1})
        address.port = way.port
        place.write({"id": 2, "text": "x", "n": 1})
        way.cut()
        with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):
            place.write({"id": 3, "text": "x", "n": 1}, check=False)
        sinks.check(place.target())  # silence is no error
        way.open()
        place.write({"id": 3, "text": "x", "n": 1}, check=False)
        clients.drop(place.resolved)

    assert place.ids() == [1, 2, 3]


def test_rows_are_read_back_newest_first(place: Place, tmp_path: Path) -> None:
    types: Types = {
        "window_timestamp": ("timestamp", TIME),
        "tag_city": ("string", pa.string()),
        "n": ("bigint", pa.int64()),
    }
    place.sink.key[:] = ["window_timestamp", "tag_city"]
    rows = [
        {"window_timestamp": NOON + timedelta(minutes=minute), "tag_city": "a", "n": 2**60 + minute}
        for minute in range(5)
    ]
    place.write(*rows, types=types)

    source = Source("d", place.resolved, FileDescriptorSet(), tmp_path)
    read = postgres_sink.read(source, Selection(2))

    assert [(row.time, row.tags, row.fields) for row in read] == [
        (NOON + timedelta(minutes=minute), {"tag_city": "a"}, {"n": 2**60 + minute}) for minute in (4, 3)
    ]


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "2130706433", "0x7f.1", "127.1", "::ffff:127.0.0.1"]
)
def test_an_address_of_a_tenant_that_leads_inward_gets_no_row(place: Place, host: str) -> None:
    place.write({"id": 1, "text": "x", "n": 1})
    place.sink.address.host = host
    place.resolved.egress.enforce = True

    error = refused(lambda: place.write({"id": 2, "text": "x", "n": 1}, check=False)).error
    assert (error.reason, error.retryable, place.ids()) == ("SINK_ADDRESS_REFUSED", True, [1])


@pytest.mark.parametrize(
    "egress", [spec_pb2.Egress(enforce=True, networks="127.0.0.0/8, ::1/128"), spec_pb2.Egress()]
)
def test_what_may_be_reached_gets_its_rows(place: Place, egress: spec_pb2.Egress) -> None:
    place.sink.address.host = "localhost"
    place.resolved.egress.CopyFrom(egress)

    assert place.write({"id": 1, "text": "x", "n": 1}) == []
    assert place.ids() == [1]


APPEND = KIND.MODE_APPEND


@dataclass
class Appending:
    """What a worker does with one partition of a batch, from its own connection."""

    place: Place
    checkpoint: str = "fingerprint/1"
    name: str = "db"

    def write(
        self,
        *parts: Sequence[int],
        batch: int = 0,
        number: int = 0,
        generation: int = 7,
        n: int = 1,
        may_refuse: bool = False,
    ) -> list[tuple[int, str]]:
        """Id and reason of each refusal; rows by their ids, in so many Arrow batches."""
        self.place.resolved.sink.name = self.name
        target = self.place.target()
        part = Part(BatchRef(self.checkpoint, batch, generation), number)
        layout = replace(target.layout, hidden=("__key_0",))
        schema = target.schema.append(pa.field("__key_0", pa.int64()))
        target = replace(target, part=part, layout=layout, schema=schema, may_refuse=may_refuse)
        writer = sinks.open_writer(target)
        for ids in parts:
            rows = [{"id": id_, "text": "x", "n": n, "__key_0": id_} for id_ in ids]
            assert writer.write(pa.RecordBatch.from_pylist(rows, schema=schema), batch) == Outcome()
        outcome = writer.finish()
        assert outcome.rows is not None
        assert all(refusal.by_server for refusal in outcome.refused)
        return [(outcome.rows["id"][refusal.row].as_py(), refusal.reason) for refusal in outcome.refused]


@pytest.fixture
def appending(place: Place) -> Appending:
    place.sink.mode = APPEND
    del place.sink.key[:]
    sinks.check(place.target())
    return Appending(place)


def test_rows_that_are_added_are_there_once_however_often_their_batch_is_written(
    appending: Appending,
) -> None:
    for generation in (7, 7, 8):
        appending.write([1, 1], [2], generation=generation)

    assert appending.place.ids() == [1, 1, 2]


def test_batches_partitions_sinks_and_checkpoints_are_added_each_for_itself(appending: Appending) -> None:
    appending.write([1])
    appending.write([2], number=1)
    appending.write([3], batch=1)
    appending.write([4], batch=1, number=1)
    replace(appending, checkpoint="fingerprint/2").write([5])
    replace(appending, name="another").write([6])

    assert appending.place.ids() == [1, 2, 3, 4, 5, 6]


def test_a_driver_that_stood_still_adds_nothing_to_a_batch_that_is_over(appending: Appending) -> None:
    appending.write([1], batch=4, generation=8)
    appending.write([1], batch=3)

    assert appending.place.ids() == [1]


def test_the_rows_of_a_partition_may_come_in_another_order_and_no_others(appending: Appending) -> None:
    appending.write([1, 2, 3])
    appending.write([3], [1, 2])

    for others in ([1, 2], [1, 2, 4], [1, 2, 3, 4]):
        error = refused(lambda others=others: appending.write(others)).error
        assert (error.reason, error.retryable) == ("SINK_HAS_OTHER_ROWS", False)
    assert appending.place.ids() == [1, 2, 3]


def test_rows_that_are_refused_are_told_again_when_their_batch_is_written_again(
    appending: Appending,
) -> None:
    appending.place.sql("ALTER TABLE counts ADD CHECK (id % 3000 <> 17)", "SELECT 1")
    ids = range(6_000)

    first = appending.write(ids)
    again = appending.write(ids)

    assert first == again == [(17, "CONSTRAINT"), (3_017, "CONSTRAINT")]
    assert appending.place.ids() == [id_ for id_ in ids if id_ % 3_000 != 17]


@pytest.mark.parametrize(
    ("most", "check", "told"), [(None, "n > 100", "120 of 120"), (0.5, "id > 109", "110 of 120")]
)
def test_rows_of_a_flood_leave_no_mark_and_are_taken_once_the_table_is_mended(
    appending: Appending, most: float | None, check: str, told: str
) -> None:
    place = appending.place
    if most is not None:
        place.resolved.sink.max_refused = most
    place.sql(f"ALTER TABLE counts ADD CONSTRAINT wrong CHECK ({check})", "SELECT 1")
    for _ in range(2):
        error = refused(lambda: appending.write(range(120))).error
        assert (error.reason, error.retryable) == ("SINK_REFUSES_MOST", True)
        assert f"it refuses {told} rows (CONSTRAINT)" in error.detail
    place.sql("ALTER TABLE counts DROP CONSTRAINT wrong", "SELECT 1")

    assert (appending.write(range(120)), place.ids()) == ([], [*range(120)])


def test_rows_of_a_flood_that_was_allowed_are_refused_and_refused_again(appending: Appending) -> None:
    appending.place.sql("ALTER TABLE counts ADD CHECK (n > 100)", "SELECT 1")
    told = [appending.write(range(120), may_refuse=True) for _ in range(2)]

    assert told == [[(id_, "CONSTRAINT") for id_ in range(120)]] * 2


def test_a_constraint_that_is_looked_at_in_the_end_refuses_its_rows_alone(appending: Appending) -> None:
    appending.place.sql("ALTER TABLE counts ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED", "SELECT 1")

    assert appending.write([1, 2, 2, 3]) == [(2, "CONSTRAINT")]
    assert appending.place.ids() == [1, 2, 3]


def test_a_partition_is_there_whole_or_not_at_all_when_its_connection_ends(
    appending: Appending, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = appending.place
    with Proxy(place.sink.address.port) as way:
        direct, place.sink.address.port = place.sink.address.port, way.port
        with monkeypatch.context() as cut:
            cut.setattr(PartitionMarker, "claim", lambda *_: way.cut())
            with pytest.raises(TemporaryError):
                appending.write(range(9_000))
        assert place.ids() == []
        way.open()
        appending.write(range(9_000))
        clients.drop(place.resolved)
        place.sink.address.port = direct

    assert place.ids() == list(range(9_000))


def killed_after(point: str, resolved: bytes) -> None:
    """A worker that is killed when it has come so far."""
    place = Place(spec_pb2.ResolvedSink.FromString(resolved), "", Path())
    claim = PartitionMarker.claim

    def claimed(mark: PartitionMarker, *given: Any) -> Any:
        if point == "before its mark":
            os._exit(9)
        before = claim(mark, *given)
        if point == "after its mark":
            os._exit(9)
        return before

    PartitionMarker.claim = claimed  # type: ignore[method-assign]  # this process is its own
    Appending(place).write(range(7_000))
    os._exit(9)  # after its commit, before it could say so


@pytest.mark.parametrize("point", ["before its mark", "after its mark", "after its commit"])
def test_rows_are_added_once_wherever_a_worker_is_killed(appending: Appending, point: str) -> None:
    code = fresh.exit_code(killed_after, point, appending.place.resolved.SerializeToString())

    assert (code, len(appending.place.ids())) == (9, 7_000 if "commit" in point else 0)
    appending.write(range(7_000))
    assert appending.place.ids() == list(range(7_000))


def test_without_leave_to_make_tables_the_marks_are_asked_for_with_the_statement(place: Place) -> None:
    place.sink.mode, place.sink.create_table = APPEND, False
    del place.sink.key[:]
    place.sql("CREATE TABLE counts (id bigint, text text, n bigint)", "SELECT 1")

    error = refused(lambda: sinks.check(place.target())).error
    _, _, statement = error.detail.partition("beside it: ")
    place.sql(statement.rstrip("."), "SELECT 1")
    sinks.check(place.target())

    assert (error.reason, error.retryable) == ("SINK_SCHEMA", False)


def test_a_batch_that_was_written_stays_as_it_is_where_an_edit_wants_other_rows(appending: Appending) -> None:
    sink = appending.place.resolved.sink
    for wanted, ids in (("id < 3", range(3)), ("id < 5", range(5)), ("", range(9)), ("id < 3", range(3))):
        sink.when = wanted
        appending.write(ids)

    assert appending.place.ids() == [0, 1, 2]
    assert refused(lambda: appending.write(range(2))).error.reason == "SINK_HAS_OTHER_ROWS"


@pytest.mark.parametrize("mode", [KIND.MODE_UPSERT, KIND.MODE_INSERT_IGNORE, APPEND])
def test_what_the_statements_on_request_make_is_all_that_a_sink_asks_for(place: Place, mode: Any) -> None:
    place.sink.mode, place.sink.create_table = mode, False
    if mode == APPEND:
        del place.sink.key[:]
    statements = kinds.ddl(place.resolved.sink, place.target().layout)

    assert refused(lambda: sinks.check(place.target())).error.reason == "SINK_SCHEMA"
    place.sql(*statements, "SELECT 1")
    sinks.check(place.target())


WINDOWED = ("__window_start", "__window_end", "__key_0")
FORWARDED = ("__key_0", "__key_1", "__key_2")


def part_of(
    appending: Appending, hidden: tuple[str, ...], checkpoint: str, batch: int, ids: Sequence[int]
) -> bytes:
    """Write a part of a query's batch, and its receipt. Row N is the record at offset N, or of the window
    that ends N minutes after noon.
    """
    target = appending.place.target()
    layout = replace(target.layout, hidden=hidden)
    instant = pa.timestamp("us", "UTC")
    kinds = [instant, instant, pa.string()] if hidden == WINDOWED else [pa.string(), pa.int32(), pa.int64()]
    schema = pa.schema([*target.schema, *zip(hidden, kinds, strict=True)])
    part = Part(BatchRef(checkpoint, batch, 7), 3)
    target = replace(target, layout=layout, schema=schema, part=part)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def row(number: int) -> dict[str, object]:
        end = noon + timedelta(minutes=number)
        key = (end - timedelta(minutes=1), end, "k") if hidden == WINDOWED else ("t", 0, number)
        return {"id": number, "text": "x", "n": 1, **dict(zip(hidden, key, strict=True))}

    writer = sinks.open_writer(target)
    writer.write(pa.RecordBatch.from_pylist([row(id_) for id_ in ids], schema=schema), batch)
    outcome = writer.finish()
    assert not outcome.refused
    return outcome.receipt


def whole_batch(
    appending: Appending, hidden: tuple[str, ...], checkpoint: str, batch: int, ids: Sequence[int]
) -> None:
    """Write a batch, and have the driver commit it."""
    receipt = part_of(appending, hidden, checkpoint, batch, ids)
    sinks.commit(appending.place.target(), BatchRef(checkpoint, batch, 7), [receipt])


@pytest.mark.parametrize("hidden", [WINDOWED, FORWARDED])
def test_an_edit_repeats_no_row_of_a_batch_that_was_written(
    appending: Appending, hidden: tuple[str, ...]
) -> None:
    whole_batch(appending, hidden, "before/1", 0, [1, 2])
    whole_batch(appending, hidden, "before/1", 1, [3, 4])
    again = [3, 4, 5] if hidden == FORWARDED else [2, 3, 4, 5]
    for _ in range(2):
        whole_batch(appending, hidden, "after/2", 0, again)
    whole_batch(appending, hidden, "after/2", 1, [6])

    assert appending.place.ids() == [1, 2, 3, 4, 5, 6]


def test_a_batch_that_was_not_written_whole_has_windows_that_come_again_and_no_records(
    appending: Appending,
) -> None:
    part_of(appending, FORWARDED, "before/1", 0, [1])
    part_of(appending, WINDOWED, "before/2", 0, [1])
    part_of(appending, FORWARDED, "after/3", 0, [1, 2])
    part_of(appending, WINDOWED, "after/4", 0, [1])

    assert appending.place.ids() == [1, 1, 1, 2]
