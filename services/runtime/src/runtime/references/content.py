"""Parse the content of a reference table, and read it as values by key or as a list of entries. Pure."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from daggers.v1 import spec_pb2

from daggerspec.alertrules import MOST_KEYS

Format = spec_pb2.ReferenceTable


class InvalidContent(ValueError):  # noqa: N818 - reads as what is wrong
    """Raised for content that a query cannot use. `reason` is UPPER_SNAKE; the text is one sentence."""

    reason = "REFERENCE_INVALID"


def parse(form: Format.Format.ValueType, data: bytes) -> Any:
    """Parse a file of any format to the values that JSON has. Raises: InvalidContent.

    In CSV and Parquet, one column gives `{"data": [entries]}`; of two or more, the first is the key and the
    second the value, or all others an object.
    """
    try:
        match form:
            case Format.FORMAT_CSV:
                rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig")), strict=True))
                header, *lines = rows or [[]]
                return _rows_to_content(header, [line for line in lines if line])
            case Format.FORMAT_PARQUET:
                table = pq.read_table(pa.BufferReader(data))
                return _rows_to_content(
                    table.column_names, list(map(list, zip(*table.to_pydict().values(), strict=True)))
                )
        return json.loads(data)
    except (ValueError, csv.Error, pa.ArrowException) as problem:
        detail = " ".join(str(problem).split())[:200]
        name = Format.Format.Name(form).removeprefix("FORMAT_")
        raise InvalidContent(f"It is not {name}: {detail}.") from problem


def _rows_to_content(header: list[str], rows: list[list[Any]]) -> Any:
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"a line has not the {len(header)} columns of the header")
    if len(header) == 1:
        return {"data": [row[0] for row in rows]}
    if len(header) == 2:
        return {_text(row[0]): row[1] for row in rows}
    return {_text(row[0]): dict(zip(header[1:], row[1:], strict=True)) for row in rows}


def mapping(content: Any) -> Mapping[str, str]:
    """Return values by key, as text, without keys whose value is null. Raises: InvalidContent."""
    if not isinstance(content, dict):
        raise InvalidContent("DartGet needs an object of values by key.")
    return {key: text for key, value in content.items() if (text := _text(value)) is not None}


@dataclass(frozen=True, slots=True)
class NumberColumns:
    """Columns of a table, all of numbers, by key: the limits that alert rules read."""

    names: tuple[str, ...]

    def __call__(self, content: Any) -> Mapping[str, tuple[float | None, ...]]:
        """Return the numbers of each key in the order of the columns; None where it has none, or an empty
        text. Where the table has one value for each key, that is what every column reads. Raises:
        InvalidContent.
        """
        if not isinstance(content, dict):
            raise InvalidContent("Limits of alert rules are an object of values by key.")
        if len(content) > MOST_KEYS:
            raise InvalidContent(f"Limits of alert rules are of {MOST_KEYS:,} keys at most.")
        there = {name for row in content.values() if isinstance(row, dict) for name in row}
        for name in self.names:
            if there and name not in there:
                raise InvalidContent(f"Alert rules read its column {name}, and no key has one.")
        return {key: tuple(_number(key, name, row) for name in self.names) for key, row in content.items()}


def _number(key: str, name: str, row: Any) -> float | None:
    """Read a number of a key. Raises: InvalidContent."""
    value = row.get(name) if isinstance(row, dict) else row
    if value is None or value == "":
        return None
    try:
        number = math.nan if isinstance(value, bool | list) else float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidContent(f"Alert rules read {name} of {key}, and {_text(value)} is no number.")
    return number


def entries(content: Any) -> tuple[str, ...]:
    """Return the entries of a list, as text, in order. Raises: InvalidContent."""
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, list):
        raise InvalidContent('DartContains needs {"data": [entries]}.')
    return tuple(text for text in map(_text, data) if text is not None)


def _text(value: Any) -> str | None:
    """Convert a value to text: text as it is, NULL to NULL, all else to compact JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


class Tables:
    """Cache of tables, each loaded at its use when it is too old; for the plain forms of the functions.

    load: returns the content of a table by name. clock: in hours.
    """

    def __init__(self, load: Callable[[str], Any], clock: Callable[[], float]) -> None:
        self.loads = 0
        """Number of loads of all tables."""
        self._load = load
        self._clock = clock
        self._loaded: dict[str, tuple[float, Any]] = {}

    def get(self, name: str, refresh_hours: int) -> Any:
        """Return content that is at most `refresh_hours` old; 0 or less loads it again."""
        now = self._clock()
        read = self._loaded.get(name)
        if read is None or refresh_hours <= 0 or now - read[0] >= refresh_hours:
            self.loads += 1
            read = self._loaded[name] = (now, self._load(name))
        return read[1]
