"""A Spark session as the runtime makes it, and streams of files for its queries."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType
from tests.conformance.corpus import HERE, compiled, tables

from daggersql import Plan, Table, check
from runtime import functions
from runtime.decode.decoder import Decoder
from runtime.spark import session as spark
from runtime.values.registration import Registration

COMMON = [
    StructField("rowtime", TimestampType()),
    StructField("__topic", StringType()),
    StructField("__partition", IntegerType()),
    StructField("__offset", LongType()),
    StructField("__timestamp", TimestampType()),
]
_registrations: dict[SparkSession, Registration] = {}
START = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)


def corpus_files() -> FileDescriptorSet:
    """The message types of the corpus."""
    return compiled(HERE / "proto" / "corpus.proto", include=HERE / "proto")


@contextmanager
def _jvm(master: str, *settings: str) -> Iterator[None]:
    """What a JVM is started with. All modules of a process share one, as the first of them has it started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        options = " ".join(f"--conf {setting}" for setting in ("spark.ui.enabled=false", *settings))
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--master {master} --driver-memory 1g {options} pyspark-shell")
        yield


@contextmanager
def driver_session(master: str = "local[1]", *settings: str) -> Iterator[SparkSession]:
    """The session of a driver, in this process. settings: Spark's, NAME=VALUE each."""
    with _jvm(master, *settings):
        started = spark.start()
        yield started
        started.stop()


@contextmanager
def spark_session(*names: str) -> Iterator[SparkSession]:
    """A session with these functions of ours; it knows the corpus's message types."""
    with _jvm("local[1]"):
        conf = SparkConf().set("spark.ui.enabled", "false").set("spark.log.level", "ERROR")
        SparkContext(master="local[1]", appName="udfs", conf=conf)
        started = spark.start()
        spark.checkpoint_locally(started)
        _registrations[started] = Registration(started, corpus_files().SerializeToString())
        for name in names:
            functions.load(name).register(_registrations[started])
        yield started
        started.stop()


def invalid_input(session: SparkSession, function: str) -> int:
    """Values that this function could not use in a session of `spark_session`."""
    return _registrations[session].counts().get(function, 0)


def planned(sql: str, *streams: str) -> Plan:
    """The plan of a query over streams of the corpus."""
    checked = check(sql, tables(*streams))
    assert checked.plan is not None, checked.findings
    return checked.plan


def answer(session: SparkSession, sql: str, records: Sequence[dict[str, Any]], table: str) -> list[Row]:
    """What a query gives over records that are all there."""
    plan = planned(sql, table)
    shape = schema(tables(table)[0], plan.reads[0].paths)
    common = {"rowtime": START, "__topic": "t", "__partition": 0, "__offset": 0, "__timestamp": START}
    rows = [tuple({**common, **record}.get(field.name) for field in shape.fields) for record in records]
    session.createDataFrame(rows, shape).createOrReplaceTempView(table)
    return spark.rows(session, plan.spark_sql).collect()


def schema(table: Table, paths: Sequence[str]) -> StructType:
    """The schema of a stream's view, as the runtime makes it."""
    fields = [path for path in paths if not path.startswith("__")]
    return StructType([*from_arrow_schema(Decoder(table.message, fields, None).schema).fields, *COMMON])


def stream(session: SparkSession, plan: Plan, folder: Path) -> DataFrame:
    """The plan's query over files in `folder`, one folder for each stream."""
    by_name = {table.name: table for table in tables()}
    for read in plan.reads:
        (folder / read.table).mkdir(parents=True, exist_ok=True)
        reader = session.readStream.schema(schema(by_name[read.table], read.paths))
        rows = reader.json(str(folder / read.table)).withWatermark("rowtime", "0 seconds")
        rows.createOrReplaceTempView(f"`{read.table}`")
    return spark.rows(session, plan.spark_sql)


def drain(rows: DataFrame, folder: Path) -> list[Row]:
    """Run the query over what is there now, on its checkpoint, then stop it; the rows it gives."""
    found: list[Row] = []
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def feed(folder: Path, table: str, name: str, records: Sequence[dict[str, Any]]) -> None:
    """One file of records, seen as a whole or not at all."""
    target = folder / table
    target.mkdir(parents=True, exist_ok=True)
    hidden = target / f".{name}"
    hidden.write_text("\n".join(json.dumps(record) for record in records))
    hidden.rename(target / f"{name}.json")


def moment(seconds: float) -> str:
    """A time so many seconds after START, as a record has it."""
    return (START + timedelta(seconds=seconds)).isoformat()
