"""A row of which a person says some columns otherwise."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.encode import json_text
from runtime.replay.edits import BadEditError, apply_edit

SCHEMA = pa.schema(
    [
        ("city", pa.int32()),
        ("fare", pa.decimal128(20, 4)),
        ("ratio", pa.float64()),
        ("name", pa.string()),
        ("paid", pa.bool_()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.struct([("k", pa.string()), ("n", pa.int64())]))),
        ("counts", pa.map_(pa.int32(), pa.int64())),
        ("__key_0", pa.int32()),
    ]
)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "city": INT32,
    "fare": st.decimals(min_value=-(10**15), max_value=10**15, places=4),
    "ratio": st.floats(allow_nan=False, allow_infinity=False),
    "name": st.text(st.characters(exclude_categories=["Cs"])),
    "paid": st.booleans(),
    "raw": st.binary(),
    "day": st.dates(),
    "at": st.datetimes(timezones=st.just(UTC)),
    "tags": st.lists(st.fixed_dictionaries({"k": st.none() | st.just("x"), "n": INT64}), max_size=3),
    "counts": st.dictionaries(INT32, INT64, max_size=3).map(lambda pairs: sorted(pairs.items())),
    "__key_0": INT32,
}
ROWS = st.fixed_dictionaries({name: st.none() | each for name, each in VALUES.items()})


def batch(row: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def shown(row: pa.RecordBatch) -> str:
    [text] = json_text.objects([(name, row.column(name)) for name in row.schema.names])
    return text


@given(ROWS, ROWS)
def test_what_is_shown_of_another_row_makes_this_one_the_other(
    before: dict[str, Any], wanted: dict[str, Any]
) -> None:
    made = apply_edit(batch(before), shown(batch(wanted)))

    assert made.schema == SCHEMA
    assert shown(made) == shown(batch(wanted))


def test_columns_that_are_not_named_stay() -> None:
    row = {"city": 1, "fare": Decimal("1.5000"), "at": datetime(2026, 1, 1, tzinfo=UTC), "__key_0": 7}
    made = apply_edit(batch(row), '{"fare": 0.25, "day": "2026-02-03"}')

    expected = row | {"fare": Decimal("0.2500"), "day": date(2026, 2, 3)}
    assert made.to_pylist() == batch(expected).to_pylist()


@pytest.mark.parametrize(
    "wrong",
    [
        '{"city": 2147483648}', '{"city": true}', '{"city": "1"}', '{"city": 1.5}', '{"fare": 0.00001}',
        '{"fare": "1"}', '{"ratio": "NaN"}', '{"name": 5}', '{"paid": 1}', '{"raw": "%"}', '{"day": "soon"}',
        '{"at": 5}', '{"tags": {}}', '{"tags": [{"k": "x", "other": 1}]}', '{"counts": {"x": 1}}',
        '{"nothing": 1}', "[]", "{", '{"ratio": NaN}', "",
    ],
)  # fmt: skip
def test_what_no_column_can_have_is_refused_in_words_without_it(wrong: str) -> None:
    with pytest.raises(BadEditError) as refused:
        apply_edit(batch({"city": 1}), wrong)

    assert "soon" not in str(refused.value)
