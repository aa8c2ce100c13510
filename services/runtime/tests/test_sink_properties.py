"""Rows of random schemas in the sinks `postgres` and `parquet`: they come back as they were, or are refused
with the name of the column that is why.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from daggers.v1 import spec_pb2
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.types.json import set_json_loads
from pyarrow import types
from services.runtime.tests.sink_cases import parquet as files
from services.runtime.tests.sink_cases import postgres as database
from services.runtime.tests.sink_properties import _NUMBERS, FEW, Refused, target, written
from services.runtime.tests.sinkvalues import (
    DAYS,
    EPOCH,
    FAR,
    FIRST_US,
    LAST_US,
    LONG,
    TEXT,
    TIME,
    Kind,
    Row,
    Table,
    Types,
    from_json,
    in_json,
    plain,
    single,
    tables,
    texts,
    told,
)

from runtime.clients import postgres as clients

pytestmark = pytest.mark.integration


# ---- PostgreSQL --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """A sink with a schema of its own, and a URL that looks there."""
    resolved, url = database.sink(postgres, tmp_path_factory.mktemp("postgres"))
    yield resolved, url
    clients.drop(resolved)


def in_table(
    place: tuple[Any, str], mode: Any, named: Types, rows: list[Row], size: int, hidden: Types
) -> tuple[Refused, list[Row]]:
    """Write rows to a table of their own; the refusals, and the rows that are there."""
    held, url = place
    resolved = spec_pb2.ResolvedSink()
    resolved.CopyFrom(held)
    asked = resolved.sink.postgres
    asked.table, asked.mode = f"rows_{next(_NUMBERS)}", mode
    asked.key[:] = [] if mode == spec_pb2.PostgresSink.MODE_APPEND else ["id"]
    refused = written(target(resolved, named, hidden), rows, size)
    with psycopg.connect(url, autocommit=True) as connection:
        set_json_loads(partial(json.loads, parse_float=Decimal), connection)
        shown = ", ".join(_read_as(name, kind) for name, kind in named.items())
        found = connection.execute(f'SELECT {shown} FROM "{asked.table}"').fetchall()
        connection.execute(f'DROP TABLE "{asked.table}"')
    return refused, [
        {name: _meant(value, named[name]) for name, value in zip(named, row, strict=True)} for row in found
    ]


def _read_as(name: str, kind: Kind) -> str:
    """A column, or how far its time is from the epoch: Python knows no year 10,000."""
    if types.is_timestamp(kind.arrow):
        return f"\"{name}\" - TIMESTAMPTZ 'epoch'"
    return f"\"{name}\" - DATE '1970-01-01'" if types.is_date(kind.arrow) else f'"{name}"'


def _meant(value: Any, kind: Kind) -> Any:
    if types.is_nested(kind.arrow):
        return from_json(value, kind.arrow)
    if types.is_timestamp(kind.arrow):
        return None if value is None else value // timedelta(microseconds=1)
    return told(single(value) if types.is_float32(kind.arrow) else value)


def _sent(value: Any, kind: Kind) -> Any:
    return in_json(value, kind.arrow) if types.is_nested(kind.arrow) else told(value)


def _must_refuse(value: Any) -> bool:
    """Whether PostgreSQL has no place for a value: there is no U+0000 in its texts."""
    return any("\0" in text for text in texts(value))


def _may_refuse(value: Any, kind: Kind) -> bool:
    """Whether a value may be refused: a time outside of the years 1 to 9999."""
    if value is None or not types.is_temporal(kind.arrow):
        return False
    least, most = DAYS if types.is_date(kind.arrow) else (FIRST_US, LAST_US)
    return not least <= value <= most


def judged(named: Types, rows: list[Row], refused: Refused) -> list[Row]:
    """The rows that were not refused. Each that was is so for a column that it has to be refused for, or may
    be; and names it.
    """
    for number, row in enumerate(rows):
        must = [name for name in named if _must_refuse(row[name])]
        may = [name for name, kind in named.items() if _may_refuse(row[name], kind)]
        assert number in refused or not must
        if number in refused:
            why, is_text = refused[number], any(named[name] == TEXT for name in must)
            assert why.reason == ("NUL_CHARACTER" if is_text else "SINK_REFUSED")
            assert any(f"the column {name} " in why.detail.replace("The", "the") for name in must + may), why
    return [row for number, row in enumerate(rows) if number not in refused]


@FEW
@given(table=tables(id=st.none() | st.integers(0, 5)), size=st.integers(1, 10))
def test_of_every_key_the_last_row_that_postgres_can_hold_comes_back(
    place: tuple[Any, str], table: Table, size: int
) -> None:
    named, rows = {"id": LONG, **table.named}, table.rows

    refused, found = in_table(place, spec_pb2.PostgresSink.MODE_UPSERT, named, rows, size, {})

    last = {row["id"]: row for row in judged(named, rows, refused)}
    assert len(found) == len(last)
    assert {row["id"]: row for row in found} == {
        key: {name: _sent(row[name], kind) for name, kind in named.items()} for key, row in last.items()
    }


@FEW
@given(table=tables(), size=st.integers(1, 10))
@example(table=FAR, size=5)
def test_every_row_that_postgres_can_hold_is_added_once(
    place: tuple[Any, str], table: Table, size: int
) -> None:
    named = {"id": LONG, **table.named}
    rows = [{**row, "id": number, "__key_0": number} for number, row in enumerate(table.rows)]

    mode = spec_pb2.PostgresSink.MODE_APPEND
    refused, found = in_table(place, mode, named, rows, size, {"__key_0": LONG})

    assert sorted(found, key=lambda row: int(row["id"])) == [
        {name: _sent(row[name], kind) for name, kind in named.items()} for row in judged(named, rows, refused)
    ]


# ---- Parquet -----------------------------------------------------------------------------------------------


_RECORD: Types = {
    "__rowtime": Kind("timestamp", TIME, st.none()),
    "__key_0": TEXT,
    "__key_1": Kind("int", pa.int32(), st.none()),
    "__key_2": LONG,
}
_ROWTIMES = st.none() | st.sampled_from(
    [FIRST_US - 1, FIRST_US, LAST_US, LAST_US + 1, 0, -1, -(2**63), 2**63 - 1]
) | st.integers(1_767_225_600_000_000, 1_767_240_000_000_000)  # fmt: skip


@FEW
@given(table=tables(__rowtime=_ROWTIMES), size=st.integers(1, 10))
def test_every_row_with_a_time_is_in_one_file_of_its_hour_as_it_was(table: Table, size: int) -> None:
    named = table.named
    rows = [{**row, "__key_0": "t", "__key_1": 0, "__key_2": number} for number, row in enumerate(table.rows)]
    with tempfile.TemporaryDirectory() as folder:
        resolved = files.sink(Path(folder))
        refused = written(target(resolved, named, _RECORD), rows, size)
        root = Path(resolved.sink.parquet.location) / "counts"
        found = [*in_files(root, named)]

    times = {number: row["__rowtime"] for number, row in enumerate(rows)}
    assert {number: (why.reason, "column __rowtime " in why.detail) for number, why in refused.items()} == {
        number: ("NO_TIME", True)
        for number, time in times.items()
        if time is None or not FIRST_US <= time <= LAST_US
    }
    assert sorted(found, key=lambda row: int(row["__offset"])) == [
        {
            "folder": hour(times[number]),
            "__offset": number,
            **{name: told(row[name]) for name in named},
        }
        for number, row in enumerate(rows)
        if number not in refused
    ]


def hour(time: int) -> str:
    """The folder of a time."""
    begins = EPOCH + timedelta(microseconds=time)
    return f"dt={begins.date().isoformat()}/hr={begins.hour:02}"


def in_files(root: Path, named: Types) -> Iterator[Row]:
    """The rows of all files, and in which folder they are."""
    for file in sorted(root.glob("dt=*/hr=*/*.parquet")):
        held = pq.ParquetFile(file).read()
        columns = {name: plain(held[name]) for name in ("__offset", *named)}
        assert [held.schema.field(name).type for name in named] == [kind.arrow for kind in named.values()]
        for values in zip(*columns.values(), strict=True):
            folder = unquote(str(file.parent.relative_to(root)))
            yield {"folder": folder, **dict(zip(columns, values, strict=True))}
