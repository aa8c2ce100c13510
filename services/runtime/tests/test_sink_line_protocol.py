"""Output rows become line protocol byte for byte as the conformance cases say."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from daggersql import Column, Role
from runtime.encode.line_protocol import Encoder
from runtime.encode.rows import Layout
from runtime.errors import JobError

CASES = Path(__file__).parents[3] / "tests" / "conformance" / "sink_cases.jsonl"
ARROW = {
    "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "smallint": pa.int16(),
    "tinyint": pa.int8(), "double": pa.float64(), "float": pa.float32(), "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(), "binary": pa.binary(),
    "struct<id:string,n:int>": pa.struct([("id", pa.string()), ("n", pa.int32())]),
    "struct<k:string,v:string>": pa.struct([("k", pa.string()), ("v", pa.string())]),
    "struct<seconds:bigint,nanos:int>": pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())]),
    "map<string,double>": pa.map_(pa.string(), pa.float64()),
}  # fmt: skip


def cases() -> list[Any]:
    lines = CASES.read_text(encoding="utf-8").splitlines()
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]


def arrow_type(name: str) -> pa.DataType:
    if name.startswith("decimal("):
        return pa.decimal128(*map(int, name[8:-1].split(",")))
    return pa.list_(arrow_type(name[6:-1])) if name.startswith("array<") else ARROW[name]


def value(raw: Any, kind: str) -> Any:
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


def column(name: str, kind: str = "") -> Column:
    """A column with the role its name gives it."""
    if name in ("window_timestamp", "rowtime"):
        return Column(name, Role.TIME, name, kind)
    if name.startswith("label_"):
        return Column(name, Role.TAG, name.removeprefix("label_"), kind)
    return Column(name, Role.TAG if name.startswith("tag_") else Role.FIELD, name, kind)


def outcome(case: dict[str, Any]) -> Any:
    columns, rows = case["columns"], case.get("rows", [case.get("row")])
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([value(row[at], c["type"]) for row in rows], arrow_type(c["type"]))
            for at, c in enumerate(columns)
        ],
        names=[c["name"] for c in columns],
    )
    layout = Layout(tuple(column(c["name"], c["type"]) for c in columns), hidden=())
    try:
        lines, refusals = Encoder(layout, case["measurement"]).encode(batch)
    except JobError as refused:
        return {"$error": refused.error.reason}
    if "rows" not in case and refusals:
        return {"$error": refusals[0].reason}
    written = "\n".join(line for line in lines if line is not None)
    if not refusals:
        return written
    return {"lines": written, "quarantined": [{"row": r.row, "reason": r.reason} for r in refusals]}


@pytest.mark.parametrize("case", cases())
def test_a_row_becomes_exactly_this_line(case: dict[str, Any]) -> None:
    assert outcome(case) == case["expected"]


def forwarded(offsets: list[int], partitions: list[int]) -> tuple[Layout, pa.RecordBatch]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    layout = Layout((column("fare"),), hidden=("__rowtime", "__key_0", "__key_1", "__key_2"))
    columns = [
        pa.array([1.5] * len(offsets)),
        pa.array([at] * len(offsets), pa.timestamp("us", "UTC")),
        pa.array(["bookings"] * len(offsets)),
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
    ]
    return layout, pa.RecordBatch.from_arrays(columns, names=["fare", *layout.hidden])


def test_a_thousand_forwarded_records_of_one_instant_are_a_thousand_points() -> None:
    layout, batch = forwarded(list(range(5, 1005)), [0] * 1000)

    lines, _ = Encoder(layout, "fares").encode(batch)

    assert len(set(lines)) == 1000


def test_a_forwarded_record_keeps_its_microsecond_and_is_the_same_point_each_time() -> None:
    layout, batch = forwarded([7], [3])
    micro = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000

    once, again = (Encoder(layout, "fares").encode(batch)[0][0] for _ in range(2))

    assert once == again
    assert once is not None
    assert int(once.split(" ")[-1]) // 1000 == micro


def test_a_slice_of_a_batch_is_encoded_like_a_batch_of_its_own() -> None:
    layout = Layout((column("m"), column("a"), column("s")), hidden=())
    columns = [
        pa.array([[("b", 1.0)], [("a", 2.0), ("A", None)], None], pa.map_(pa.string(), pa.float64())),
        pa.array([["x"], None, ["y", "z"]], pa.list_(pa.string())),
        pa.array([{"t": 1}, {"t": None}, None], pa.struct([("t", pa.int64())])),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["m", "a", "s"])

    whole, _ = Encoder(layout, "x").encode(batch)
    parts = [Encoder(layout, "x").encode(batch.slice(row, 1))[0][0] for row in range(3)]

    assert (
        parts
        == whole
        == [
            r'x a="[\"x\"]",m="{\"b\":1.0}",s="{\"t\":1}"',
            r'x m="{\"A\":null,\"a\":2.0}",s="{\"t\":null}"',
            r'x a="[\"y\",\"z\"]"',
        ]
    )
