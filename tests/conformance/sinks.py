"""Sink cases: output rows become line protocol, byte for byte."""

from __future__ import annotations

import base64
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from daggersql import Column, Role
from runtime.encode.line_protocol import LineProtocolEncoder
from runtime.encode.rows import Layout
from runtime.errors import JobError

_ARROW = {
    "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "smallint": pa.int16(),
    "tinyint": pa.int8(), "double": pa.float64(), "float": pa.float32(), "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(), "binary": pa.binary(),
}  # fmt: skip


def outcome(case: dict[str, Any]) -> Any:
    """What becomes of a case's rows: the lines, what is quarantined, or the reason of a refusal."""
    columns, rows = case["columns"], case.get("rows", [case.get("row")])
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([_value(row[at], c["type"]) for row in rows], arrow_type(c["type"]))
            for at, c in enumerate(columns)
        ],
        names=[c["name"] for c in columns],
    )
    layout = Layout(tuple(column(c["name"], c["type"]) for c in columns), hidden=())
    try:
        lines, refusals = LineProtocolEncoder(layout, case["measurement"]).encode(batch)
    except JobError as refused:
        return {"$error": refused.error.reason}
    if "rows" not in case and refusals:
        return {"$error": refusals[0].reason}
    written = "\n".join(line for line in lines if line is not None)
    if not refusals:
        return written
    return {"lines": written, "quarantined": [{"row": r.row, "reason": r.reason} for r in refusals]}


def column(name: str, kind: str = "") -> Column:
    """A column with the role its name gives it."""
    if name in ("window_timestamp", "rowtime"):
        return Column(name, Role.TIME, name, kind)
    if name.startswith("label_"):
        return Column(name, Role.TAG, name.removeprefix("label_"), kind)
    return Column(name, Role.TAG if name.startswith("tag_") else Role.FIELD, name, kind)


def arrow_type(text: str) -> pa.DataType:
    """A Spark type as Arrow has it, from its name: `array<struct<id:string,n:int>>`."""
    outer, _, inner = text.partition("<")
    parts = _split(inner.removesuffix(">"))
    match outer:
        case "array":
            return pa.list_(arrow_type(parts[0]))
        case "map":
            return pa.map_(*map(arrow_type, parts))
        case "struct":
            return pa.struct(
                [(name, arrow_type(kind)) for name, _, kind in (p.partition(":") for p in parts)]
            )
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", text)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _ARROW[text]


def _split(text: str) -> list[str]:
    """The parts between the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _value(raw: Any, kind: str) -> Any:
    match raw:
        case {"$float": text}:
            return float(text)
        case {"$bytes": text}:
            return base64.b64decode(text)
        case None:
            return None
    if kind == "timestamp":
        return datetime.fromisoformat(raw)
    if kind == "date":
        return date.fromisoformat(raw)
    if kind.startswith("decimal"):
        return Decimal(raw)
    return list(raw.items()) if kind.startswith("map") else raw
