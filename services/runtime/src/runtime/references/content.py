"""The content of a reference table: parsed, and read as values by key or as a list of entries. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from daggers.v1 import spec_pb2

Format = spec_pb2.ReferenceTable


class InvalidContent(ValueError):  # noqa: N818 - reads as what is wrong
    """Content that cannot be used as it is asked for. `reason` is UPPER_SNAKE; the text is one sentence."""

    reason = "REFERENCE_INVALID"


def parse(form: Format.Format.ValueType, data: bytes) -> Any:
    """A file's content, whatever its format, as JSON has it. Raises: InvalidContent.

    Of CSV and Parquet, one column gives `{"data": [entries]}`; of two or more, the first is the key and the
    second the value, or all others an object.
    """
    try:
        match form:
            case Format.FORMAT_CSV:
                rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig")), strict=True))
                header, *lines = rows or [[]]
                return _table(header, [line for line in lines if line])
            case Format.FORMAT_PARQUET:
                table = pq.read_table(pa.BufferReader(data))
                return _table(
                    table.column_names, list(map(list, zip(*table.to_pydict().values(), strict=True)))
                )
        return json.loads(data)
    except (ValueError, csv.Error, pa.ArrowException) as problem:
        detail = " ".join(str(problem).split())[:200]
        name = Format.Format.Name(form).removeprefix("FORMAT_")
        raise InvalidContent(f"It is not {name}: {detail}.") from problem


def _table(header: list[str], rows: list[list[Any]]) -> Any:
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"a line has not the {len(header)} columns of the header")
    if len(header) == 1:
        return {"data": [row[0] for row in rows]}
    if len(header) == 2:
        return {_text(row[0]): row[1] for row in rows}
    return {_text(row[0]): dict(zip(header[1:], row[1:], strict=True)) for row in rows}


def mapping(content: Any) -> Mapping[str, str]:
    """Values by key, as text; a key whose value is null is not there. Raises: InvalidContent."""
    if not isinstance(content, dict):
        raise InvalidContent("DartGet needs an object of values by key.")
    return {key: text for key, value in content.items() if (text := _text(value)) is not None}


def entries(content: Any) -> tuple[str, ...]:
    """The entries of a list, as text, in order. Raises: InvalidContent."""
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, list):
        raise InvalidContent('DartContains needs {"data": [entries]}.')
    return tuple(text for text in map(_text, data) if text is not None)


def _text(value: Any) -> str | None:
    """Text as it is, NULL as NULL, all else as compact JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


class Tables:
    """Tables that are read when they are asked for and have grown too old: what the plain forms look into.

    `load(name)` gives the content; `clock()` is in hours.
    """

    def __init__(self, load: Callable[[str], Any], clock: Callable[[], float]) -> None:
        self.loads = 0
        """How often a table was read."""
        self._load = load
        self._clock = clock
        self._found: dict[str, tuple[float, Any]] = {}

    def get(self, name: str, refresh_hours: int) -> Any:
        """The content of a table that is not older than that; 0 or less reads it again."""
        now = self._clock()
        read = self._found.get(name)
        if read is None or refresh_hours <= 0 or now - read[0] >= refresh_hours:
            self.loads += 1
            read = self._found[name] = (now, self._load(name))
        return read[1]
