"""Assemble what a launch computes from its spec: streams, rows, sinks.

All errors that can be found before the query starts are found here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from daggers.v1 import spec_pb2
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

import daggersql
from daggerspec import late, state
from daggerspec.columns import condition_column
from daggersql.emit.rowconditions import with_conditions
from daggersql.plan import CLOSED, GATE
from runtime import functions, sinks
from runtime.errors import JobError, internal
from runtime.launch import completion, guard, planned
from runtime.launch.completion import Completion
from runtime.launch.launch import Computation
from runtime.launch.predecessor import predecessor_offsets
from runtime.sinks import Target
from runtime.source import readers, warmup_source, watermark
from runtime.source.context import SourceContext
from runtime.source.metrics import count_late
from runtime.source.plan import BatchRule, milliseconds
from runtime.source.planner.ranges import Range
from runtime.source.reader.late_records import find_sink, late_target
from runtime.source.readers import Readers
from runtime.source.stream import open_stream
from runtime.spark import warmup
from runtime.spark.session import rows as rows_of
from runtime.spark.session import slots
from runtime.state import openstate
from runtime.state.checkpoint import Checkpoint, is_read_until_exact, read_until


@dataclass(frozen=True, slots=True)
class Job:
    """Parts of a launch whose query can start."""

    rows: DataFrame
    """Output rows: visible columns, then hidden ones."""
    targets: tuple[Target, ...]
    early: bool
    """True if rows are written repeatedly while their window is open."""
    source: SourceContext
    patience: timedelta | None
    """Longest time that windows may take to close; None where nothing waits for event time."""
    readers: Readers
    """Readers, with the assignment of partitions."""

    @property
    def written_targets(self) -> tuple[Target, ...]:
        """All sinks that are written to: those of rows, and that of late records."""
        sink = self.source.late_sink
        return (*self.targets, *([late_target(self.source.dagger, sink)] if sink else []))

    @property
    def closing(self) -> bool:
        """True if the query only finishes topics of before an edit: run it to its end, and assemble again."""
        return bool(self.readers.until)

    @property
    def lost(self) -> Sequence[str]:
        """Warnings of records that cannot be finished, because their topics are gone."""
        return self.readers.lost


def assemble(
    launch: Computation, plan: daggersql.Plan, checkpoint: Checkpoint, range_: Range | None = None
) -> Job:
    """Open the streams, register views and functions of the SQL, and build its rows. Raises: JobError.

    range_: of a preview, whose rows may lack earlier records. The assignment of readers and start offsets is
    decided and stored here, before anything that takes time.
    """
    spec, spark = launch.spec, launch.session
    source = SourceContext(
        dagger=spec.dagger,
        generation=spec.generation,
        checkpoint=str(checkpoint.path),
        run_dir=launch.run_dir,
        platform=spec.platform,
        descriptors=spec.descriptors,
        windows=watermark.windows_of(plan),
        consumer_group=spec.spec.consumer_group,
        past=predecessor_offsets(checkpoint.stand, plan, partial(openstate.oldest, spark)),
        open=checkpoint.watermark and checkpoint.watermark - plan.horizon,
        max_rows_of_all=0 if range_ else spec.spec.max_rows_per_batch,
        batches=_batches(spec, plan),
        slots=slots(spark),
        read_until={} if range_ else read_until(checkpoint.path),
        ended_in_order=range_ is None and is_read_until_exact(checkpoint.path),
        range=range_,
        shadow=spec.HasField("shadow"),
        late_sink=find_sink(spec),
    )
    reads = {read.table: read for read in plan.reads}
    query = plan.partial_aggregation or plan
    stages = query.staged.stages if query.staged else ()
    sql = with_conditions(plan, query.staged.spark_sql if query.staged else query.spark_sql)
    function_names = (*query.functions, *plan.condition_functions)
    # in parallel to opening streams, while the JVM mostly waits: hundreds of short calls
    checks = [
        warmup.beside(
            partial(guard.check, spark, text, [*reads, *(stage.name for stage in stages)], function_names)
        )
        for text in (sql, *(stage.spark_sql for stage in stages))
    ]
    streams = {stream.input.table: stream for stream in spec.streams if stream.input.table in reads}
    source_readers = readers.assign(spark, streams, source)
    for name, stream in streams.items():
        closing = tuple(map(watermark.windows, plan.closing[name]))
        context = replace(source, late_for=closing, marks_late=bool(stages))
        rows = open_stream(spark, stream, reads[name], context, source_readers, plan.partial_aggregation)
        rows.createOrReplaceTempView(f"`{name}`")
    # start the Python processes that Spark needs next. Nothing waits for them: a failure here repeats, and is
    # reported, where they are needed
    warmup.beside(partial(warmup_source.read, spark))
    for name in dict.fromkeys(function_names):
        functions.load(name).register(launch.functions)
    for check in checks:
        check.result()
    whole_from = None if range_ else source.registry.state().complete_from()
    for stage in stages:
        counted = count_late(rows_of(spark, stage.spark_sql, whole_from), stage)
        counted.createOrReplaceTempView(f"`{stage.name}`")
    rows = rows_of(spark, sql, whole_from)
    patience = _patience(source, streams.values())
    own = targets(spec, plan, rows, state.updates(spec.spec))
    return Job(rows, own, state.is_early(spec.spec), source, patience, source_readers)


def _batches(spec: spec_pb2.JobSpec, plan: daggersql.Plan) -> BatchRule:
    """Build the rule for when batches are due. Sessions and joins end at any time: no wait for their ends."""
    rule = spec.batches
    ends = daggersql.fixed_size(plan.window) is not None and not state.is_early(spec.spec)
    longest_wait = milliseconds(rule.longest_wait)
    return BatchRule(
        trigger=milliseconds(spec.spec.trigger),
        at_ends=ends and longest_wait > 0,
        longest_wait=longest_wait,
        records=min(rule.records, spec.spec.max_rows_per_batch or rule.records),
    )


def begin_completion(launch: Computation, assembled: Job, chosen: Checkpoint, now: datetime) -> Completion:
    """Build the completion of a launch that begins at `now`: what its windows hold already, and from when."""
    read = [time for times in assembled.source.read_until.values() for time in times.values()]
    tolerances = [stream.input.future_tolerance.ToTimedelta() for stream in launch.spec.streams]
    ahead_until = now + max(tolerances, default=timedelta())
    return completion.begin(
        None if assembled.early else assembled.source.windows,
        newest=max(read, default=0) // 1000 if chosen.committed else None,
        is_exact=assembled.source.ended_in_order,
        ahead_until=round(ahead_until.timestamp() * 1000),
    )


def _patience(source: SourceContext, streams: Collection[spec_pb2.ResolvedStream]) -> timedelta | None:
    if source.windows is None:
        return None
    inputs = [stream.input for stream in streams]
    delay = max(input_.watermark_delay.ToTimedelta() for input_ in inputs)
    silence = max(input_.idle_timeout.ToTimedelta() for input_ in inputs)
    return timedelta(milliseconds=source.windows.size) + delay + silence


def targets(
    spec: spec_pb2.JobSpec, plan: daggersql.Plan, rows: DataFrame, updates: bool
) -> tuple[Target, ...]:
    """Build the targets of the rows. updates: rows are written repeatedly. Raises: JobError."""
    layout = planned.layout(spec, plan)
    conditions = {condition.text: condition_column(n) for n, condition in enumerate(plan.conditions)}
    own = [*(column.name for column in plan.columns), *plan.hidden]
    expected = [*own, *conditions.values()]
    rows = rows.drop(GATE, CLOSED)
    if rows.columns != expected:
        raise internal("BAD_PLAN", f"The plan promises the columns {expected}, Spark gives {rows.columns}.")
    schema = to_arrow_schema(rows.select(own).schema if conditions else rows.schema, timezone="UTC")
    files = planned.messages(spec)
    serialised = planned.named_sinks(spec).values()
    return tuple(
        Target(
            spec.dagger,
            whole,
            layout,
            schema,
            files,
            updates,
            condition=conditions[sink.sink.when] if sink.sink.when else "",
        )
        for sink, whole in zip(spec.sinks, serialised, strict=True)
        if not late.takes_late(spec.spec, sink.sink)
    )


def check_sinks(targets: Sequence[Target]) -> None:
    """Check sinks. Raises: one JobError, with a sentence for each sink that cannot work."""
    problems: list[JobError] = []
    for target in targets:
        try:
            with sinks.clients_of(target):
                sinks.check(target)
        except JobError as problem:
            problems.append(problem)
    if problems:
        first = problems[0].error
        detail = " ".join(problem.error.detail for problem in problems)
        raise JobError(first.domain, first.reason, detail, retryable=first.retryable) from problems[0]
