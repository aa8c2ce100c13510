"""Tables of Parquet files as DuckDB reads them, where it is installed."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from services.runtime.tests.sink_cases.parquet import sink
from services.runtime.tests.test_sink_parquet import EVERY, FIRST, WINDOWS, Table, batch, window

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


def test_values_of_every_type_are_what_they_were(tmp_path: Path) -> None:
    table = Table(sink(tmp_path))
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
    table.write([window(1)], batch=batch())
    table.layout = replace(
        table.layout, columns=(*table.layout.columns, Column("more", role_of("more"), "more", "string"))
    )
    table.schema = pa.schema([*list(WINDOWS)[:2], ("more", pa.string()), *list(WINDOWS)[2:]])
    sinks.check(table.target)
    table.write([{**window(2, 90), "more": "x"}], batch=batch(0, "after"))
    _, rows = by_duckdb(table.root)

    assert [(row["n"], row["more"]) for row in rows] == [("1", "None"), ("2", "x")]
