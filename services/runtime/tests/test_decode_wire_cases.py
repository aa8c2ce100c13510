"""Records from public bug reports, with the rows that are right: decoded, checked and computed by Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import grpc_tools
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc
from pyspark.sql import SparkSession
from services.runtime.tests import wireoracle, wireschemas
from services.runtime.tests.wireforms import WireForms, varint

from daggersql import Plan, Table, check
from runtime.decode.columns import select
from runtime.decode.decoder import find_message, message_pool
from runtime.source.offsets import Partition
from runtime.source.reader.control_rows import RangeStatistics
from runtime.source.reader.rows import QuarantinedRecord, Rows
from runtime.source.records import Records

CASES: Final = sorted(Path(__file__).with_name("wire_cases").glob("*.json"))
_KNOWN: Final = Path(grpc_tools.__file__).with_name("_proto")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One small session for all cases."""
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    session.stop()


def event_time(case: dict[str, Any]) -> bytes:
    """The field of the event time, with an instant of now."""
    number, now = case["time_field_number"], varint(1 << 3) + varint(int(time.time()) - 20)
    if case.get("time_delimited"):
        return varint(number << 3 | 3) + now + varint(number << 3 | 4)
    return varint(number << 3 | 2) + varint(len(now)) + now


def read(
    message: Descriptor, plan: Plan, values: list[bytes], time_field: str
) -> tuple[pa.RecordBatch, list[QuarantinedRecord]]:
    """The rows that a reader has of these records, and those that it puts aside."""
    paths = [path for path in plan.reads[0].paths if path != "rowtime"]
    count, now_ms = len(values), int(time.time() * 1000)
    records = Records(
        np.arange(count), np.full(count, now_ms), pa.array(values, pa.binary()), pa.nulls(count, pa.binary())
    )
    rows = Rows(message, paths, time_field, 60_000)
    return rows.rows(records, Partition("t", 0), now_ms, RangeStatistics())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_has_the_right_rows(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    case = json.loads(path.read_text())
    (tmp_path / "case.proto").write_text(case["schema"])
    out = tmp_path / "case.bin"
    words = [f"-I{tmp_path}", f"-I{_KNOWN}", "--include_imports", f"--descriptor_set_out={out}", "case.proto"]
    assert protoc.main(["", *words]) == 0
    message = find_message(message_pool(FileDescriptorSet.FromString(out.read_bytes())), case["message"])
    plan = check(case["sql"], [Table("data_stream", message, case["time_field"])]).plan
    assert plan is not None
    values = [event_time(case) + bytes.fromhex(record) for record in case["records_hex"]]

    batch, quarantined = read(message, plan, values, case["time_field"])
    spark.createDataFrame(pa.Table.from_batches([batch])).createOrReplaceTempView("data_stream")

    assert quarantined == []
    found = [row.asDict(recursive=True) for row in spark.sql(plan.spark_sql).collect()]
    shown = [{name: row[name] for name in case["right"][0]} for row in found]
    assert sorted(shown, key=repr) == sorted(case["right"], key=repr)


@pytest.mark.parametrize("seed", range(5))
def test_a_reader_hands_on_what_protobuf_reads(seed: int) -> None:
    rng = Random(1000 + seed)
    files = wireschemas.schema(rng)
    message = find_message(message_pool(files), "wire.Root")
    forms, oracle = WireForms(rng, 0.05), wireoracle.Oracle(files, "wire.Root")
    columns = select(message, [str(field.name) for field in message.fields])
    values = [b"\x0a\x02\x08\x01" + forms.record(message) for _ in range(30)]
    plan = check("SELECT * FROM data_stream", [Table("data_stream", message, "at")]).plan
    assert plan is not None

    batch, quarantined = read(message, plan, values, "at")

    aside = {record.index for record in quarantined}
    expected = [oracle.row(value, columns) for index, value in enumerate(values) if index not in aside]
    found = batch.to_pylist()
    shown = [{column.name: wireoracle.shown(row[column.name], column) for column in columns} for row in found]
    assert shown == expected


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_what_a_query_shows_is_what_protobuf_reads(spark: SparkSession, seed: int) -> None:
    rng = Random(1000 + seed)
    files = wireschemas.schema(rng)
    message = find_message(message_pool(files), "wire.Root")
    forms, oracle = WireForms(rng, 0.05), wireoracle.Oracle(files, "wire.Root")
    columns = select(message, [str(field.name) for field in message.fields])
    values = [b"\x0a\x02\x08\x01" + forms.record(message) for _ in range(30)]
    many = [column.name for column in columns if column.field.is_repeated]
    counts = "".join(f", CARDINALITY(`{name}`) AS `n_{name}`" for name in many)
    table = Table("data_stream", message, "at")
    plan = check(f"SELECT *{counts} FROM data_stream", [table]).plan
    assert plan is not None

    batch, quarantined = read(message, plan, values, "at")
    spark.createDataFrame(pa.Table.from_batches([batch])).createOrReplaceTempView("data_stream")

    aside = {record.index for record in quarantined}
    expected = [oracle.row(value, columns) for index, value in enumerate(values) if index not in aside]
    found = spark.sql(plan.spark_sql).toArrow().to_pylist()
    assert len(found) + len(quarantined) == len(values)
    shown = [{column.name: wireoracle.shown(row[column.name], column) for column in columns} for row in found]
    assert sorted(map(repr, shown)) == sorted(map(repr, expected))
    assert [[row[f"n_{name}"] for name in many] for row in found] == [
        [len(row[name]) for name in many] for row in shown
    ]
