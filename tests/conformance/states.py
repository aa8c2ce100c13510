"""What Spark would keep of a query's rows and groups, read off its plan: nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession
from tests.conformance.corpus import public

from daggersql import Plan, StagedQuery, Table
from runtime import functions
from runtime.launch.launch import Computation
from runtime.source import watermark
from runtime.source.context import SourceContext
from runtime.source.metrics import count_late
from runtime.source.offsets import Offsets, Partition
from runtime.source.planner.assignment import Assignment
from runtime.source.readers import Readers
from runtime.source.stream import open_stream
from runtime.spark.session import rows as rows_of

NOWHERE = {"bootstrap_servers": "127.0.0.1:1"}
State = list[list[Any]]
"""Of each operator that keeps state, from the leaves up: its kind, and its columns (name, type, nullable)."""


def state_of(
    session: SparkSession, plan: Plan, tables: tuple[Table, ...], folder: Path, *, staged: bool
) -> State:
    """The state of a plan, in stages as a driver has it, or as it was before there were any."""
    query = plan.partial_aggregation or plan
    stages: StagedQuery | None = query.staged if staged else None
    streams = {read.table: read for read in plan.reads}
    context = SourceContext(
        dagger="d",
        generation=1,
        checkpoint=str(folder / "checkpoint"),
        run_dir=folder / uuid4().hex,
        platform=spec_pb2.KafkaAddress(**NOWHERE),
        descriptors=public().files,
        windows=watermark.windows_of(plan),
        consumer_group="g",
        marks_late=stages is not None,
    )
    for table in tables:
        if table.name in streams:
            _open(session, plan, table, context)
    computed = Computation(spec_pb2.JobSpec(run_dir=str(folder)), lambda: session)
    for name in dict.fromkeys(query.functions):
        functions.load(name).register(computed.functions)
    for stage in stages.stages if stages else ():
        rows = count_late(rows_of(session, stage.spark_sql), stage)
        rows.createOrReplaceTempView(f"`{stage.name}`")
    rows = rows_of(session, stages.spark_sql if stages else query.spark_sql)
    return [*_states(_executed(session, rows._jdf.queryExecution().logical()))]


def _open(session: SparkSession, plan: Plan, table: Table, context: SourceContext) -> None:
    stream = spec_pb2.ResolvedStream(kafka=NOWHERE)
    stream.input.table, stream.stream.message = table.name, table.message.full_name
    stream.stream.topics.append(table.name)
    stream.stream.time_field = table.time_field
    stream.input.watermark_delay.FromSeconds(5)
    shares = {
        read.table: (Offsets({read.table: "id"}, {Partition(read.table, 0): 0}, reader=f"1/{read.table}.0"),)
        for read in plan.reads
    }
    late_for = tuple(map(watermark.windows, plan.closing[table.name]))
    read = next(read for read in plan.reads if read.table == table.name)
    readers = Readers(Assignment(1, shares, {}), {}, {})
    rows = open_stream(
        session, stream, read, replace(context, late_for=late_for), readers, plan.partial_aggregation
    )
    rows.createOrReplaceTempView(f"`{table.name}`")


def _executed(session: SparkSession, logical: Any) -> Any:
    """How Spark would run a batch of it, as its EXPLAIN has it."""
    jvm = session._jvm
    assert jvm is not None
    streaming = jvm.org.apache.spark.sql.execution.streaming
    execution = streaming.runtime.IncrementalExecution
    companion = getattr(getattr(streaming.runtime, "IncrementalExecution$"), "MODULE$")
    defaults = (getattr(companion, f"$lessinit$greater$default${number}")() for number in range(12, 17))
    metadata = getattr(getattr(streaming.checkpointing, "OffsetSeqMetadata$"), "MODULE$")
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
    query_id = jvm.java.util.UUID.randomUUID()
    return execution(
        session._jsparkSession,
        logical,
        jvm.org.apache.spark.sql.streaming.OutputMode.Append(),
        "<unknown>",
        query_id,
        query_id,
        0,
        getattr(getattr(jvm.scala, "None$"), "MODULE$"),
        metadata.apply(0, 0, nothing),
        streaming.runtime.WatermarkPropagator.noop(),
        False,
        *defaults,
    ).executedPlan()


def _states(node: Any) -> Iterator[list[Any]]:
    for child in _each(node.children()):
        yield from _states(child)
    match node.getClass().getSimpleName():
        case "StateStoreSaveExec" | "SessionWindowStateStoreSaveExec" as kind:
            yield [kind, _columns(node.keyExpressions()), _columns(node.child().output())]
        case "StreamingSymmetricHashJoinExec" as kind:
            keys = [
                [key.dataType().catalogString() for key in _each(side)]
                for side in (node.leftKeys(), node.rightKeys())
            ]
            yield [kind, *keys, _columns(node.left().output()), _columns(node.right().output())]


def _columns(attributes: Any) -> list[list[Any]]:
    return [
        [each.name(), each.dataType().catalogString(), bool(each.nullable())] for each in _each(attributes)
    ]


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
