"""JSON text of Arrow columns: what Kafka records and quarantined rows are made of."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.encode.json_text import millisecond_times, objects, shortest_times, texts
from runtime.errors import JobError

UTC_TIME = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, pa.int32(), "null"),
        (2**63 - 1, pa.int64(), "9223372036854775807"),
        (2.0, pa.float64(), "2.0"),
        (float("nan"), pa.float64(), "null"),
        (float("-inf"), pa.float64(), "null"),
        (Decimal("12.500"), pa.decimal128(10, 3), "12.500"),
        (True, pa.bool_(), "true"),
        ('say "hi"\n日本', pa.string(), r'"say \"hi\"\n日本"'),
        (b"\x00\x01\x02\xff", pa.binary(), '"AAEC/w=="'),
        (date(2024, 2, 29), pa.date32(), '"2024-02-29"'),
        (datetime(2024, 1, 1, tzinfo=UTC), UTC_TIME, '"2024-01-01T00:00:00Z"'),
        (datetime(2024, 1, 1, microsecond=120_000, tzinfo=UTC), UTC_TIME, '"2024-01-01T00:00:00.120Z"'),
        (datetime(2024, 1, 1, microsecond=7, tzinfo=UTC), UTC_TIME, '"2024-01-01T00:00:00.000007Z"'),
        (timedelta(seconds=3, milliseconds=500), pa.duration("us"), '"3.500000s"'),
        ([], pa.list_(pa.int32()), "[]"),
        ([1, None], pa.list_(pa.int32()), "[1,null]"),
        ([("b", 1), ("a", None)], pa.map_(pa.string(), pa.int32()), '{"a":null,"b":1}'),
        ([(2, True), (1, False)], pa.map_(pa.int32(), pa.bool_()), '{"1":false,"2":true}'),
        ({"a": None, "b": {"c": "x"}}, pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
         '{"a":null,"b":{"c":"x"}}'),
    ],
)  # fmt: skip
def test_a_value_becomes_this_text(value: Any, kind: pa.DataType, text: str) -> None:
    assert texts(pa.array([value], kind)) == [text]


def test_a_row_is_one_object_with_its_nulls() -> None:
    columns = [("n", pa.array([1, None])), ("s", pa.array(["a", "b"]))]

    assert objects(columns) == ['{"n":1,"s":"a"}', '{"n":null,"s":"b"}']


def test_a_time_before_the_epoch_is_rounded_down() -> None:
    array = pa.array([-1, None], pa.int64()).cast(UTC_TIME)

    assert (millisecond_times(array), shortest_times(array)) == (
        ["1969-12-31T23:59:59.999Z", None],
        ["1969-12-31T23:59:59.999999Z", None],
    )


def test_the_earliest_and_the_latest_time_are_written() -> None:
    array = pa.array([-(2**63), 2**63 - 1], pa.int64()).cast(UTC_TIME)

    assert shortest_times(array) == ["-290308-12-21T19:59:05.224192Z", "294247-01-10T04:00:54.775807Z"]
    assert millisecond_times(array) == ["-290308-12-21T19:59:05.224Z", "294247-01-10T04:00:54.775Z"]


def test_a_type_without_a_json_form_is_refused_before_any_row() -> None:
    with pytest.raises(JobError, match="UNSUPPORTED_TYPE"):
        texts(pa.array([], pa.month_day_nano_interval()))


NESTED = pa.list_(pa.struct([("s", pa.string()), ("m", pa.map_(pa.string(), pa.list_(pa.int64())))]))
LONGS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.none() | st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "s": st.none() | st.text(st.characters(codec="utf-8")),
            "m": st.none()
            | st.dictionaries(
                st.text(st.characters(codec="utf-8")), st.none() | st.lists(st.none() | LONGS, max_size=3)
            ).map(lambda entries: list(entries.items())),
        }
    ),
    max_size=4,
)


@given(rows=st.lists(VALUES, max_size=6), start=st.integers(0, 6))
def test_nested_text_reads_back_as_the_value_in_any_slice(rows: list[Any], start: int) -> None:
    array = pa.array(rows, NESTED).slice(min(start, len(rows)))

    assert [json.loads(text) for text in texts(array)] == [plain(row) for row in rows[start:]]


def plain(row: Any) -> Any:
    """A value as JSON would give it back: maps are objects."""
    if row is None:
        return None
    return [
        None
        if element is None
        else {"s": element["s"], "m": None if element["m"] is None else dict(element["m"])}
        for element in row
    ]
