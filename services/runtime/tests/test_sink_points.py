"""Rows of random schemas in InfluxDB: each is a point of its own that holds what the row had."""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pyarrow import types
from services.runtime.tests.sink_contract import NOON, influx_sink, query
from services.runtime.tests.sink_properties import FEW, target, written
from services.runtime.tests.sinkvalues import (
    EPOCH,
    LONG,
    TEXT,
    TIME,
    Kind,
    Row,
    Table,
    from_json,
    in_json,
    since_epoch,
    tables,
    told,
)

from daggerspec.columns import key_of

pytestmark = pytest.mark.integration
_MEASUREMENTS = count()
_AT = Kind("timestamp", TIME, st.none())
_NOON_US = (NOON - EPOCH) // timedelta(microseconds=1)
_SPELT = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\x5c": "\\"}


def is_tag(name: str) -> bool:
    return name.startswith(("tag_", "label_"))


def text_of(tag: str) -> str:
    """The text that a tag was written for, as docs/dialect.md says."""
    if tag in ('""', r"\x22" + '"'):
        return "" if tag == '""' else '""'
    return re.sub(r"\\(?:[nrt]|x5c)", lambda found: _SPELT[found[0]], tag)


def to_ms(value: Any, kind: pa.DataType) -> Any:
    """A value whose times are those of a field: rounded down to milliseconds."""
    if value is None:
        return None
    if types.is_timestamp(kind):
        return value // 1000 * 1000
    if types.is_struct(kind):
        return {part.name: to_ms(value[part.name], part.type) for part in kind}
    if types.is_map(kind):
        return [(key, to_ms(inner, kind.item_type)) for key, inner in value]
    return [to_ms(inner, kind.value_type) for inner in value] if types.is_list(kind) else value


def sent(value: Any, kind: pa.DataType) -> Any:
    """What a field holds of a value; None: there is no field."""
    if value is None or (types.is_floating(kind) and not math.isfinite(value)):
        return None
    if types.is_floating(kind) or types.is_decimal(kind):
        return told(float(value) + 0.0)
    return in_json(to_ms(value, kind), kind)


def found(value: Any, kind: pa.DataType) -> Any:
    """The same, of a field that was read."""
    if value is None or types.is_integer(kind) or types.is_boolean(kind) or types.is_string(kind):
        return value
    if types.is_floating(kind) or types.is_decimal(kind):
        return told(float(value) + 0.0)
    if types.is_binary(kind):
        return base64.b64decode(value)
    if types.is_timestamp(kind):
        return since_epoch(value, "ms") * 1000
    if types.is_nested(kind):
        return from_json(json.loads(value, parse_float=Decimal), kind)
    return from_json(value, kind)


def points(influx: dict[str, str], measurement: str) -> dict[str, Row]:
    """What each point has, by its tag `tag_row`."""
    there = query(influx, f'SELECT * FROM "{measurement}"').get("series", [])
    rows = [dict(zip(series["columns"], row, strict=True)) for series in there for row in series["values"]]
    return {row["tag_row"]: row for row in rows}


@FEW
@given(table=tables(), size=st.integers(1, 10))
@example(table=Table({"label_x": TEXT, "value": TEXT}, [{"label_x": "", "value": "v"}]), size=1)
def test_every_row_with_a_field_is_a_point_that_reads_back_as_it_was(
    influx: dict[str, str], table: Table, size: int
) -> None:
    assume(not all(map(is_tag, table.named)))
    measurement = f"points-{next(_MEASUREMENTS)}-{id(table)}"
    named = {**table.named, "tag_row": TEXT, "window_timestamp": _AT}
    more = {"window_timestamp": _NOON_US, "__key_0": 0}
    rows = [{**row, **more, "tag_row": f"{number}"} for number, row in enumerate(table.rows)]

    refused = written(target(influx_sink(influx, measurement), named, {"__key_0": LONG}), rows, size)

    fields = {name: kind.arrow for name, kind in table.named.items() if not is_tag(name)}
    tags = [name for name, kind in table.named.items() if is_tag(name) and kind == TEXT]
    there = points(influx, measurement)
    expected = {
        number: {name: sent(row[name], kind) for name, kind in fields.items()}
        for number, row in enumerate(rows)
    }
    without = {number for number, held in expected.items() if not any(v is not None for v in held.values())}
    assert {number: why.reason for number, why in refused.items()} == dict.fromkeys(without, "NO_FIELDS")
    assert {
        int(number): {name: found(row.get(name), kind) for name, kind in fields.items()}
        for number, row in there.items()
    } == {number: held for number, held in expected.items() if number not in without}
    for number, row in there.items():
        read = {name: row.get(key_of(name)) or None for name in tags}
        assert {name: text and text_of(text) for name, text in read.items()} == {
            name: rows[int(number)][name] for name in tags
        }
