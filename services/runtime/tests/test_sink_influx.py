"""The sink influx on a real database: what is refused is found, what is missing told, silence waited out."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from daggers.v1.output_pb2 import RowCondition
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from influxdb_client.client.influxdb_client import InfluxDBClient
from services.runtime.tests.sink_contract import NOON, points, query
from services.runtime.tests.sink_influx import LAYOUT, rows
from tests.proxy import Proxy

from daggerspec.selection import Condition, Order, Selection
from daggersql import Column, Role
from runtime import sinks
from runtime.clients import bisection
from runtime.encode.rows import Layout
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Source, Target
from runtime.sinks import influx as influx_sink

pytestmark = pytest.mark.integration


class Database:
    """The sink's targets on one measurement."""

    def __init__(self, address: dict[str, str]) -> None:
        self.address = address
        self.measurement = f"m-{uuid4().hex[:8]}"

    def target(self, **changes: str) -> Target:
        sink = spec_pb2.ResolvedSink()
        sink.sink.influx.measurement = self.measurement
        address = sink.sink.influx.address
        given = self.address | changes
        address.url, address.org, address.bucket = given["url"], given["org"], given["bucket"]
        address.token.file = given["token_file"]
        schema = rows([], pa.int64()).schema
        return Target("d", sink.SerializeToString(), LAYOUT, schema, b"", updates=False)

    def write(self, batch: pa.RecordBatch, **changes: str) -> list[tuple[int, str]]:
        """The rows refused, with the reason."""
        outcome = sinks.open_writer(self.target(**changes)).write(batch, 0)
        return [(refusal.row, refusal.reason) for refusal in outcome.refused]

    def short(self) -> str:
        """A bucket, or a retention policy, that keeps points for an hour."""
        url, bucket = self.address["url"], self.address["bucket"]
        name = uuid4().hex[:8]
        if self.address["org"] == "-":
            query(self.address, f'CREATE RETENTION POLICY "{name}" ON "{bucket}" DURATION 1h REPLICATION 1')
            return f"{bucket}/{name}"
        with InfluxDBClient(url, self.address["token"], org=self.address["org"]) as client:
            rules = [{"type": "expire", "everySeconds": 3600}]
            client.buckets_api().create_bucket(bucket_name=name, retention_rules=rules)
        return name

    def numbers(self) -> list[Any]:
        """What the database holds, by time."""
        return [n for _, n, _ in points(self.address, self.measurement)]


@pytest.fixture(scope="module", params=["influx", "influx2"], ids=["1.8", "2"])
def influx(request: pytest.FixtureRequest) -> dict[str, str]:
    """Either database; both must be told from the same rows."""
    address: dict[str, str] = request.getfixturevalue(request.param)
    return address


@pytest.fixture
def database(influx: dict[str, str]) -> Database:
    return Database(influx)


def test_many_rows_are_written_whole(database: Database) -> None:
    refused = database.write(rows(list(range(12_345)), pa.int64()))

    assert (database.numbers(), refused) == (list(range(12_345)), [])


def test_every_row_of_another_field_type_is_found_and_the_others_are_written(database: Database) -> None:
    wide = Layout((*LAYOUT.columns[:2], Column("m", Role.FIELD, "m", "double"), LAYOUT.columns[2]), ())

    def write(n: list[Any], m: list[Any], kind: pa.DataType) -> list[Any]:
        narrow = rows(n, pa.int64())
        batch = narrow.add_column(2, "m", pa.array(m, kind))
        target = Target("d", database.target().sink, wide, batch.schema, b"", updates=False)
        return list(sinks.open_writer(target).write(batch, 0).refused)

    write([None], [2.5], pa.float64())  # m is a float from now on

    refused = write([10, 20, None, 40, None], [None, None, 3, None, 5], pa.int64())

    assert [(refusal.row, refusal.reason) for refusal in refused] == [
        (2, "SINK_REFUSED"),
        (4, "SINK_REFUSED"),
    ]
    assert "type integer, already exists as type float" in refused[0].detail
    assert [n for n in database.numbers() if n is not None] == [10, 20, 40]


def test_a_column_that_changed_its_type_is_refused_row_by_row_and_not_by_the_job(database: Database) -> None:
    database.write(rows([1], pa.int64()))

    refused = database.write(rows([0.5] * 6000, pa.float64()))

    assert refused == [(row, "SINK_REFUSED") for row in range(6000)]


def test_what_a_refused_line_quotes_means_nothing(database: Database) -> None:
    database.measurement = f"database not found dropped=2 {uuid4().hex[:8]}"
    database.write(rows([1], pa.int64()))

    other_type = database.write(rows([0.5, 1.5, 2.5], pa.float64()))
    too_long = rows([2, 3, 4], pa.int64()).set_column(
        0, "tag_city", pa.array(["1", "bucket not found: partial write: x dropped=3 " * 2000, "1"])
    )
    unreadable = database.write(too_long)

    assert (other_type, unreadable) == (
        [(row, "SINK_REFUSED") for row in range(3)],
        [(1, "SINK_REFUSED")],
    )
    assert database.numbers() == [2, 4]


def test_a_missing_database_is_named_with_what_to_do(database: Database) -> None:
    with pytest.raises(JobError) as missing:
        sinks.check(database.target(bucket="nowhere"))

    assert missing.value.error.reason == "SINK_MISSING"
    assert "'nowhere'" in missing.value.error.detail
    assert "create it" in missing.value.error.detail


def refused(ask: Callable[[], Any]) -> JobError:
    with pytest.raises(JobError) as caught:
        ask()
    return caught.value


def test_a_missing_retention_policy_is_told_before_the_first_point_with_the_statement_that_helps(
    database: Database,
) -> None:
    bucket = f'{database.address["bucket"]}/of "{uuid4().hex[:8]}"'
    aimed = database.target(bucket=bucket)
    told = [
        refused(lambda: sinks.check(aimed)).error,
        refused(lambda: sinks.rehearse(aimed, None)).error,
        refused(lambda: database.write(rows([1], pa.int64()), bucket=bucket)).error,
    ]

    assert {(error.reason, error.retryable) for error in told} == {("SINK_MISSING", True)}
    if database.address["org"] == "-":  # a bucket of InfluxDB 2 has no policies
        _, _, statement = told[0].detail.partition(": CREATE")
        query(database.address, f"CREATE{statement}")
        sinks.check(aimed)
        assert sinks.rehearse(aimed, None).startswith(f"The bucket {bucket} takes points")
        assert database.write(rows([1], pa.int64()), bucket=bucket) == []


def test_points_beyond_what_is_kept_are_refused_and_the_others_are_written(database: Database) -> None:
    bucket = database.short()
    old, now = NOON - timedelta(days=1_000), datetime.now(UTC)
    batch = rows([1, 2, 3, 4, 5], pa.int64())
    times = pa.array([now, old, now - timedelta(seconds=1), old, old], pa.timestamp("us", "UTC"))
    outcome = sinks.open_writer(database.target(bucket=bucket)).write(
        batch.set_column(2, "window_timestamp", times), 0
    )
    again = database.write(batch.set_column(2, "window_timestamp", times), bucket=bucket)

    assert [refusal.row for refusal in outcome.refused] == [1, 3, 4]
    assert again == [(row, "SINK_REFUSED") for row in (1, 3, 4)]


def test_where_that_was_allowed_all_points_are_refused_though_none_passed_a_moment_ago(
    database: Database,
) -> None:
    database.write(rows([1], pa.int64()))
    aimed = database.target()
    history = bisection.history_of(aimed.resolved.SerializeToString(deterministic=True))
    history.record_closed(time.monotonic())
    many, writer = rows([0.5] * 110, pa.float64()), sinks.open_writer(aimed)
    long = many.set_column(0, "tag_city", pa.array(["x" * 70_000] * 110))
    waits = refused(lambda: writer.write(long, 0)).error
    allowed = sinks.open_writer(replace(aimed, may_refuse=True)).write(long, 0)

    assert (waits.reason, len(allowed.refused)) == ("SINK_REFUSES_MOST", 110)


def test_a_database_that_is_away_is_no_reason_not_to_start(database: Database) -> None:
    sinks.check(database.target(url="http://127.0.0.1:1"))

    with pytest.raises(TemporaryError, match="does not answer"):
        database.write(rows([1], pa.int64()), url="http://127.0.0.1:1")


def test_rows_wait_while_the_database_is_away_and_none_is_lost(database: Database, detour: Proxy) -> None:
    database.write(rows([1, 2], pa.int64()), url=detour.url)
    detour.cut()
    with pytest.raises(TemporaryError):
        database.write(rows([1, 2, 3], pa.int64()), url=detour.url)
    detour.open()

    database.write(rows([1, 2, 3], pa.int64()), url=detour.url)

    assert database.numbers() == [1, 2, 3]


def test_points_are_read_by_their_time_their_tags_and_their_fields(
    database: Database, tmp_path: Path
) -> None:
    for city, first in (("a", 0), ("b", 100)):
        database.write(rows([2**53 + 1 + first + at for at in range(20)], pa.int64(), city))
    source = Source("d", database.target().resolved, FileDescriptorSet(), tmp_path)
    tag, number, _ = LAYOUT.columns

    def read(limit: int, *where: Condition, **further: Any) -> list[tuple[str, int, int]]:
        found = influx_sink.read(source, Selection(limit, where=where, **further))
        assert all(row.time for row in found)
        seconds = [round((row.time - NOON).total_seconds()) for row in found if row.time]
        return [
            (row.tags["tag_city"], second, row.fields["n"] - 2**53 - 1)
            for row, second in zip(found, seconds, strict=True)
        ]

    of_b = Condition(tag, RowCondition.COMPARISON_EQUAL, "b")
    not_b = Condition(tag, RowCondition.COMPARISON_NOT_EQUAL, "b")
    exactly = Condition(number, RowCondition.COMPARISON_EQUAL, Decimal(2**53 + 1))

    assert read(3) == [("a", 19, 19), ("b", 19, 119), ("a", 18, 18)]
    assert read(2, of_b) == [("b", 19, 119), ("b", 18, 118)]
    assert read(2, not_b) == [("a", 19, 19), ("a", 18, 18)]
    assert read(9, exactly) == [("a", 0, 0)]  # the next double is another point's
    assert read(9, of_b, since=NOON + timedelta(seconds=18)) == [("b", 19, 119), ("b", 18, 118)]
    assert read(9, since=NOON + timedelta(days=365_000)) == []
    assert read(2, order=Order(number, descending=True)) == [("b", 19, 119), ("b", 18, 118)]
    assert read(2, of_b, order=Order(number, descending=False)) == [("b", 0, 100), ("b", 1, 101)]
