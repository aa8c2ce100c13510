"""Rows of random schemas for properties of sinks: every type that a column of the dialect may have, at its
extremes; and what is the same, whoever reads it back.

Times are microseconds and dates are days since the epoch, as Arrow counts them: Python's own end in 9999.
"""

from __future__ import annotations

import base64
import json
import math
import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import types

TIME = pa.timestamp("us", "UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
FIRST_US = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // _US
LAST_US = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - EPOCH) // _US
"""The first and the last microsecond of the years 1 to 9999."""
DAYS = date.min.toordinal() - 719_163, date.max.toordinal() - 719_163
"""The first and the last day of them."""


@dataclass(frozen=True)
class Kind:
    """The type of a column, and its values: None is none of them."""

    spark: str
    arrow: pa.DataType
    values: st.SearchStrategy[Any] = field(repr=False)


Types = dict[str, Kind]
Row = dict[str, Any]


def _edges(*values: Any, others: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values) | others


def _whole(spark: str, arrow: pa.DataType) -> Kind:
    least, most = -(2 ** (arrow.bit_width - 1)), 2 ** (arrow.bit_width - 1) - 1
    return Kind(spark, arrow, _edges(least, most, 0, -1, others=st.integers(least, most)))


def _decimal(precision: int, scale: int, least: int, most: int) -> Kind:
    digits = _edges(least, most, 0, 1, others=st.integers(least, most))
    # Written as text: arithmetic rounds to 28 digits.
    values = digits.map(lambda number: Decimal(f"{number}e-{scale}"))
    return Kind(f"decimal({precision},{scale})", pa.decimal128(precision, scale), values)


_TEXTS = _edges(
    "", " ", "\0", "a\0b", '"', "'", '""', "\\", "\\.", "\\N", "\\x00", ",", ";", "\n", "\r\n", "\t", "null",
    "NULL", "NaN", "{}", "[1", "𝄞", "עברית", "\u202e", "\ufeff", "\x7f\x1b", "é" * 20_000, '",\n' * 5_000,
    others=st.text(st.characters(codec="utf-8"), max_size=40),
)  # fmt: skip
TEXT = Kind("string", pa.string(), _TEXTS)
LONG = _whole("bigint", pa.int64())
YES = Kind("boolean", pa.bool_(), st.booleans())
_TIMES = _edges(FIRST_US, LAST_US, 0, -1, 951_782_400_000_000, others=st.integers(FIRST_US, LAST_US))
_FAR = _edges(
    FIRST_US - 1, LAST_US + 1, -(2**63), 2**63 - 1, others=st.integers(-(2**63), 2**63 - 1)
)  # what arithmetic may give
_NESTED_TIME = Kind("timestamp", TIME, _TIMES)
_NESTED_DATE = Kind("date", pa.date32(), _edges(*DAYS, 0, -1, 11_016, others=st.integers(*DAYS)))
_SCALARS = [
    TEXT,
    LONG,
    YES,
    _whole("tinyint", pa.int8()),
    _whole("smallint", pa.int16()),
    _whole("int", pa.int32()),
    _decimal(20, 0, 0, 2**64 - 1),  # what uint64 is
    _decimal(38, 18, 1 - 10**38, 10**38 - 1),
    Kind("float", pa.float32(), st.floats(width=32)),
    Kind("double", pa.float64(), _edges(5e-324, 1.7976931348623157e308, -0.0, 0.1, others=st.floats())),
    Kind("binary", pa.binary(), _edges(b"", b"\0", b"\\x", b"\xff" * 40_000, others=st.binary(max_size=40))),
]
_TOP = [
    *_SCALARS,
    Kind("timestamp", TIME, _TIMES | _FAR),
    Kind("date", pa.date32(), _NESTED_DATE.values | st.integers(-(2**31), 2**31 - 1)),
]


def _list(inner: Kind) -> Kind:
    values = st.lists(st.none() | inner.values, max_size=3)
    return Kind(f"array<{inner.spark}>", pa.list_(inner.arrow), values)


def _map(key: Kind, inner: Kind) -> Kind:
    values = st.dictionaries(key.values, st.none() | inner.values, max_size=3).map(
        lambda held: [*held.items()]
    )
    return Kind(f"map<{key.spark},{inner.spark}>", pa.map_(key.arrow, inner.arrow), values)


def _struct(parts: Types) -> Kind:
    said = ",".join(f"{name}:{part.spark}" for name, part in parts.items())
    arrow = pa.struct([(name, part.arrow) for name, part in parts.items()])
    values = st.fixed_dictionaries({name: st.none() | part.values for name, part in parts.items()})
    return Kind(f"struct<{said}>", arrow, values)


_KINDS = st.sampled_from(_TOP) | st.recursive(
    st.sampled_from([*_SCALARS, _NESTED_TIME, _NESTED_DATE]),
    lambda inner: (
        inner.map(_list)
        | st.builds(_map, st.sampled_from([TEXT, LONG, YES]), inner)
        | st.dictionaries(st.sampled_from(["a", "b", "B", "list", "key"]), inner, min_size=1, max_size=3).map(
            _struct
        )
    ),
    max_leaves=4,
)
_NAMES = st.sampled_from(
    ["value", "Sum", "select", "tag_city", "label_x", "a", "a.b", "rowtimes", "x" * 63, "_", "n1"]
)


_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlevel = 80, 200, 9
_SHORT.maxlist, _SHORT.maxdict, _SHORT.maxtuple = 20, 20, 20


class Table:
    """Columns and rows. Hypothesis prints long texts of a dataclass whole, whatever that says."""

    def __init__(self, named: Types, rows: list[Row]) -> None:
        self.named, self.rows = named, rows

    def __repr__(self) -> str:
        kinds = {name: kind.spark for name, kind in self.named.items()}
        return f"Table({kinds}, {_SHORT.repr(self.rows)})"


FAR = Table(
    {"value": Kind("timestamp", TIME, _FAR), "day": Kind("date", pa.date32(), _FAR)},
    [
        *({"value": time, "day": None} for time in (LAST_US + 1, 2**61, 2**63 - 1, 0)),
        *({"value": None, "day": day} for day in (DAYS[1] + 1, 10**6, 2**31 - 1, None)),
    ],
)
"""Times behind the years that Arrow can write down."""


@st.composite
def tables(draw: st.DrawFn, **more: st.SearchStrategy[Any]) -> Table:
    """Rows any value of which may be null; of `more` columns only the values are drawn."""
    named = draw(st.dictionaries(_NAMES, _KINDS, min_size=1, max_size=4))
    columns = {name: st.none() | kind.values for name, kind in named.items()}
    return Table(named, draw(st.lists(st.fixed_dictionaries({**columns, **more}), max_size=10)))


def cut(rows: list[Row], size: int) -> list[list[Row]]:
    """The rows in parts of so many."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


# ---- What is the same --------------------------------------------------------------------------------------


def told(value: Any) -> Any:
    """A value, where floats are told apart by all their bits: NaN is NaN, and -0.0 is another than 0.0."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value.hex()
        case list() | tuple():
            return [told(each) for each in value]
        case dict():
            return {name: told(each) for name, each in value.items()}
    return value


def counted(kind: pa.DataType) -> pa.DataType:
    """The type with whole numbers in place of times."""
    if types.is_timestamp(kind):
        return pa.int64()
    if types.is_date(kind):
        return pa.int32()
    if types.is_struct(kind):
        return pa.struct([(part.name, counted(part.type)) for part in kind])
    if types.is_map(kind):
        return pa.map_(counted(kind.key_type), counted(kind.item_type))
    return pa.list_(counted(kind.value_type)) if types.is_list(kind) else kind


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column of Arrow."""
    return [told(value) for value in column.cast(counted(column.type)).to_pylist()]


def in_json(value: Any, kind: pa.DataType) -> Any:
    """A nested value as a document of JSON can hold it: what is no number is null, and zero has no sign."""
    if value is None:
        return None
    if types.is_struct(kind):
        return {part.name: in_json(value[part.name], part.type) for part in kind}
    if types.is_map(kind):
        return {key: in_json(inner, kind.item_type) for key, inner in value}
    if types.is_list(kind):
        return [in_json(inner, kind.value_type) for inner in value]
    if types.is_floating(kind):
        return told(value + 0.0) if math.isfinite(value) else None
    return value


def from_json(value: Any, kind: pa.DataType) -> Any:
    """The same, out of a document that somebody reads who knows the types."""
    if value is None:
        return None
    if types.is_struct(kind):
        return {part.name: from_json(value[part.name], part.type) for part in kind}
    if types.is_map(kind):
        return {_key(key, kind.key_type): from_json(inner, kind.item_type) for key, inner in value.items()}
    if types.is_list(kind):
        return [from_json(inner, kind.value_type) for inner in value]
    return _READ.get(kind, lambda same: same)(value)


def _key(text: str, kind: pa.DataType) -> Any:
    return text if types.is_string(kind) else json.loads(text)


def since_epoch(text: str, unit: str) -> int:
    """A time or a date in ISO text, in so many units."""
    return int(np.datetime64(text.removesuffix("Z"), unit).astype(np.int64))  # years beyond 9999, too


def _float(number: Decimal | int) -> Any:
    return told(float(number) + 0.0)


_READ: dict[pa.DataType, Callable[[Any], Any]] = {
    TIME: partial(since_epoch, unit="us"),
    pa.date32(): partial(since_epoch, unit="D"),
    pa.binary(): base64.b64decode,
    pa.float32(): _float,
    pa.float64(): _float,
    pa.decimal128(20, 0): Decimal,
    pa.decimal128(38, 18): Decimal,
}


def single(value: float | None) -> float | None:
    """The number of 32 bits that is meant by its shortest text."""
    return None if value is None else float(np.float32(value))


def texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from texts(inner)
        case list() | tuple():
            for inner in value:
                yield from texts(inner)
