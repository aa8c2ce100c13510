"""Tables of Parquet files as DuckDB, where it is installed, and Spark read them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import unix_micros
from services.runtime.tests.sink_cases.parquet import sink
from services.runtime.tests.sink_parquet import EVERY, FIRST, WINDOWS, Table, batch, window

from daggerspec.columns import Column, role_of
from runtime import sinks

pytestmark = [pytest.mark.integration, pytest.mark.long]


def by_duckdb(root: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The columns with their types, and the rows as texts."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        place = str(root / "dt=*" / "hr=*" / "*.parquet")
        asked = "SELECT * FROM read_parquet(?, hive_partitioning = true, union_by_name = true) ORDER BY n"
        found = connection.execute(asked, [place])
        types = {name: str(kind).lower() for name, kind, *_ in found.description}
        rows = [dict(zip(types, map(str, row), strict=True)) for row in found.fetchall()]
    return types, rows


def test_a_table_is_read_by_its_folders_and_what_waits_there_is_not(tmp_path: Path) -> None:
    table = Table(sink(tmp_path))
    table.write(*FIRST, batch=batch())
    table.stage([window(99, 1)], batch(1))  # of a batch that is not committed
    types, rows = by_duckdb(table.root)

    assert {"n", "window_timestamp", "dt", "hr"} == types.keys()
    assert [(row["n"], row["dt"], row["hr"].lstrip("0")) for row in rows] == [
        ("1", "2026-01-01", "12"), ("2", "2026-01-01", "13"), ("3", "2026-01-01", "12"),
    ]  # fmt: skip


def of_every_type(table: Table) -> list[dict[str, Any]]:
    """Three rows that are written, and behind them one of NULLs."""
    columns = tuple(Column(name, role_of(name), name, spark) for name, (spark, _, _) in EVERY.items())
    table.layout = replace(table.layout, columns=(*table.layout.columns, *columns))
    fields = [pa.field(name, arrow) for name, (_, arrow, _) in EVERY.items()]
    table.schema = pa.schema([*list(WINDOWS)[:2], *fields, *list(WINDOWS)[2:]])
    sinks.check(table.target)
    given = [
        {**window(number), **{name: values[number % len(values)] for name, (_, _, values) in EVERY.items()}}
        for number in range(3)
    ]
    table.write([*given, window(3)], batch=batch())
    return given


def with_a_later_column(table: Table) -> None:
    """A row, and one with a column that came later."""
    table.write([window(1)], batch=batch())
    table.layout = replace(
        table.layout, columns=(*table.layout.columns, Column("more", role_of("more"), "more", "string"))
    )
    table.schema = pa.schema([*list(WINDOWS)[:2], ("more", pa.string()), *list(WINDOWS)[2:]])
    sinks.check(table.target)
    table.write([{**window(2, 90), "more": "x"}], batch=batch(0, "after"))


def test_values_of_every_type_are_what_they_were(tmp_path: Path) -> None:
    table = Table(sink(tmp_path))
    given = of_every_type(table)
    types, rows = by_duckdb(table.root)

    assert len(rows) == 4
    for name in ("whole", "small", "yes", "unsigned", "money", "text"):
        assert [row[name] for row in rows] == [*(str(each[name]) for each in given), "None"], name
    for name in ("double", "single"):
        assert [float(row[name]) for row in rows[:3]] == [each[name] for each in given], name
    assert [row["time"] for row in rows][3] == "None"
    assert all(moment(row["time"]) == each["time"] for row, each in zip(rows, given, strict=False)), rows
    assert math.isinf(float(rows[2]["double"]))
    assert types.keys() >= EVERY.keys()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_table_whose_columns_came_and_became_wider_is_one_table(tmp_path: Path) -> None:
    table = Table(sink(tmp_path))
    with_a_later_column(table)
    _, rows = by_duckdb(table.root)

    assert [(row["n"], row["more"]) for row in rows] == [("1", "None"), ("2", "x")]


# ---- Spark -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session as a reader has it: nothing of ours is set."""
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


def as_arrow(row: Row) -> dict[str, Any]:
    """A row of Spark, its values as they were given."""
    found = {name: row[name] for name in EVERY}
    return found | {
        "time": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row.time),
        "bytes": bytes(row.bytes),
        "map": list(row.map.items()),
        "inside": row.inside.asDict(),
    }


def test_spark_reads_a_table_by_its_folders_and_not_what_waits_there(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = Table(sink(tmp_path))
    table.write(*FIRST, batch=batch())
    table.stage([window(99, 1)], batch(1))
    read = spark.read.parquet(str(table.root)).orderBy("n").collect()

    assert [(row.n, str(row.dt), int(row.hr)) for row in read] == [
        (1, "2026-01-01", 12), (2, "2026-01-01", 13), (3, "2026-01-01", 12),
    ]  # fmt: skip


def test_spark_reads_values_of_every_type_as_they_were(tmp_path: Path, spark: SparkSession) -> None:
    table = Table(sink(tmp_path))
    given = of_every_type(table)
    table_read = spark.read.parquet(str(table.root)).where("n < 3").orderBy("n")
    read = table_read.withColumn("time", unix_micros("time"))  # Python's times know no year 1 in some zones
    spans = [{**row, "span": row["span"] // timedelta(microseconds=1)} for row in given]

    # What Arrow calls a duration is none to other readers: Spark reads a whole number of microseconds.
    assert {field.name: field.dataType.simpleString() for field in table_read.schema}.items() >= {
        name: spark for name, (spark, _, _) in EVERY.items() if name != "span"
    }.items()
    assert [as_arrow(row) for row in read.collect()] == [{name: row[name] for name in EVERY} for row in spans]


def test_spark_merges_columns_that_came_later(tmp_path: Path, spark: SparkSession) -> None:
    table = Table(sink(tmp_path))
    with_a_later_column(table)
    read = spark.read.option("mergeSchema", True).parquet(str(table.root)).orderBy("n").collect()

    assert [(row.n, row.more) for row in read] == [(1, None), (2, "x")]
