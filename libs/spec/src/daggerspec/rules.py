"""Rules of a dagger's spec, shared by gateway, scheduler and driver.

The spec is checked with its defaults filled in; all violations are reported at once. A default that was
derived from the dagger's name is not checked: if it is wrong, the name is, and the violation is the name's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import (
    alertrules,
    conditionlimits,
    defaults,
    executors,
    fields,
    isolation,
    labels,
    late,
    limits,
    query,
    querytests,
    sinks,
)
from daggerspec.catalogue import Catalogue
from daggerspec.kind import Resolved, ValidationContext
from daggerspec.protobuf import is_instant
from daggerspec.violation import Violation, unregistered_name

# Clocks differ; further ahead than this, nobody meant an instant that has passed.
_CLOCK_SKEW: Final = timedelta(minutes=1)
_LEAST_LATENESS: Final = timedelta(seconds=1)
_PRIORITIES: Final = frozenset(spec_pb2.Priority.values())
_STATES: Final = frozenset(spec_pb2.StateStore.values())


def violations(path: str, context: ValidationContext, resolutions: Sequence[Resolved]) -> Iterator[Violation]:
    """Yield every violation of a dagger's spec beside its query; fields are below `path`.

    `context.output` are the query's output columns; None if it gives none. `resolutions` are its sinks'.
    """
    spec, catalogue = context.spec, context.catalogue
    yield from _plain(path, context.dagger, spec)
    yield from _cluster(path, spec, catalogue)
    if spec.HasField("executors"):
        yield from executors.violations(f"{path}.executors", spec.executors, catalogue.cluster(spec.cluster))
    yield from isolation.violations(f"{path}.isolation", spec, catalogue.cluster(spec.cluster))
    for number, stream in enumerate(spec.streams):
        yield from _reading(f"{path}.streams[{number}]", stream)
    yield from _inputs(path, spec, catalogue)
    if spec.tests:
        yield from querytests.violations(path, spec, context.output.columns if context.output else None)
    if spec.alerts:
        yield from alertrules.violations(f"{path}.alerts", spec)
    if spec.conditions:
        yield from conditionlimits.violations(f"{path}.conditions", spec.conditions)
    if spec.HasField("late"):
        yield from _late(f"{path}.late", context)
    yield from sinks.check_names(f"{path}.sinks", spec.sinks)
    for number, (sink, resolved) in enumerate(zip(spec.sinks, resolutions, strict=True)):
        yield from sinks.violations(f"{path}.sinks[{number}]", sink, context, resolved)


def is_judgeable(spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> bool:
    """Return whether the query can be checked whole, or planned: all its tables are known."""
    return unknown_tables(spec, catalogue) == ()


def unknown_tables(spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> Sequence[str] | None:
    """List the tables without a registered stream; the rest of the query can be checked. None: the query
    or names for its tables are missing, and nothing can be checked.
    """
    named = spec.streams and not any(any(_table("", stream, spec)) for stream in spec.streams)
    if not named or any(_query("", spec)):
        return None
    return tuple(stream.table for stream in spec.streams if catalogue.stream(stream.stream) is None)


def unresolved_names(
    path: str, name: str, spec: spec_pb2.DaggerSpec, catalogue: Catalogue
) -> Iterator[Violation]:
    """Yield the violations of names that are not registered: a launch cannot be prepared without them."""
    yield from _cluster(path, spec, catalogue)
    for number, stream in enumerate(spec.streams):
        yield from _stream(f"{path}.streams[{number}].stream", stream.stream, catalogue)
    for number, sink in enumerate(spec.sinks):
        yield from sinks.unresolved_names(
            f"{path}.sinks[{number}]", sink, ValidationContext(name, spec, catalogue)
        )


def in_the_future(path: str, spec: spec_pb2.DaggerSpec, now: datetime) -> Iterator[Violation]:
    """Streams that would begin at an instant that has not come: nobody asks for that."""
    for number, stream in enumerate(spec.streams):
        start_path, start = f"{path}.streams[{number}].start.at", stream.start
        if not start.HasField("at") or any(_instant(start_path, start)):
            continue
        if start.at.ToDatetime(tzinfo=UTC) > now + _CLOCK_SKEW:
            problem = "is in the future: start at latest, or at an instant before now"
            yield Violation(start_path, problem, "OUT_OF_RANGE")


def default_fields(name: str, spec: spec_pb2.DaggerSpec) -> Sequence[str]:
    """List the fields that were left to defaults; a stored spec has all of them filled in."""
    full = defaults.fill_defaults(name, spec)
    return [field.name for field, value in full.ListFields() if getattr(spec, field.name) != value]


def _plain(path: str, name: str, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
    """Yield the violations that show without the catalogue."""
    yield from fields.text(f"{path}.team", spec.team, limit=128)
    yield from fields.duration(f"{path}.trigger", spec.trigger, positive=True)
    if spec.HasField("freshness"):
        yield from fields.duration(f"{path}.freshness", spec.freshness, positive=True)
    if len(spec.streams) > limits.MAX_STREAMS:
        yield Violation(f"{path}.streams", f"must not be more than {limits.MAX_STREAMS}", "TOO_MANY")
    if not spec.sinks:
        yield Violation(f"{path}.sinks", "must have at least one sink", "REQUIRED")
    if len(spec.sinks) > limits.MAX_SINKS:
        yield Violation(f"{path}.sinks", f"must not be more than {limits.MAX_SINKS}", "TOO_MANY")
    yield from _query(path, spec)
    if spec.emit not in (spec_pb2.EMIT_FINAL, spec_pb2.EMIT_EARLY):
        yield Violation(f"{path}.emit", f"{spec.emit} is not a way to emit", "UNKNOWN_ENUM_VALUE")
    if spec.state not in _STATES:
        yield Violation(f"{path}.state", f"{spec.state} is not a place for state", "UNKNOWN_ENUM_VALUE")
    if spec.priority not in _PRIORITIES:
        yield Violation(f"{path}.priority", f"{spec.priority} is not a priority", "UNKNOWN_ENUM_VALUE")
    yield from labels.violations(f"{path}.needs", spec.needs)
    if 0 < spec.driver_memory_mib < limits.MIN_DRIVER_MEMORY_MIB:
        problem = (
            f"must be at least {limits.MIN_DRIVER_MEMORY_MIB}: Spark refuses less; without it the scheduler"
            " chooses"
        )
        yield Violation(f"{path}.driver_memory_mib", problem, "OUT_OF_RANGE")
    if spec.driver_memory_mib > limits.MAX_DRIVER_MEMORY_MIB:
        problem = f"must not be more than {limits.MAX_DRIVER_MEMORY_MIB:,}, which is a TiB"
        yield Violation(f"{path}.driver_memory_mib", problem, "OUT_OF_RANGE")
    if spec.max_rows_per_batch > limits.BATCH_RECORDS:
        problem = f"must not be more than {limits.BATCH_RECORDS:,}: a driver takes no more at once"
        yield Violation(f"{path}.max_rows_per_batch", problem, "OUT_OF_RANGE")
    if spec.consumer_group != defaults.consumer_group(name):
        yield from fields.group(f"{path}.consumer_group", spec.consumer_group)


def _late(path: str, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of the rule for late rows."""
    if context.spec.late.HasField("update"):
        yield from _late_update(f"{path}.update", context.spec)
    if context.spec.late.keep:
        yield from _late_keep(f"{path}.keep", context)


def _late_update(path: str, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
    allowed = spec.late.update
    if wrong := list(fields.duration(path, allowed, positive=True)):
        yield from wrong
    elif allowed.ToTimedelta() < _LEAST_LATENESS:
        yield Violation(
            path, "must be at least 1s: a row that is written again so soon helps nobody", "OUT_OF_RANGE"
        )
    if spec.emit == spec_pb2.EMIT_EARLY:
        text = (
            "goes with emit final: with early, rows are written again until their window is closed, which a"
            " longer watermark_delay puts off"
        )
        yield Violation(path, text, "UNEXPECTED")


def _late_keep(path: str, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of the sink that takes late records; `path` is that of its name."""
    spec, output = context.spec, context.output
    takers = [late.takes_late(spec, sink) for sink in spec.sinks]
    if not any(takers):
        text = f"{spec.late.keep} is the name of no sink: give it to the one that takes late records"
        yield Violation(path, text, "NO_SUCH_SINK")
    elif all(takers):
        yield Violation(path, f"{spec.late.keep} is the only sink: rows need another one", "REQUIRED")
    if output is not None and not output.finds_late_where_read:
        text = (
            "needs a query of one stream, grouped by a window, whose WHERE compares fields with constants: of"
            " others readers do not know which records are late, and these are counted and dropped"
        )
        yield Violation(path, text, "LATE_NOT_KNOWN")


def _query(path: str, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
    if not spec.HasField("forward"):
        if not spec.sql.strip():
            yield Violation(f"{path}.sql", "is required: one SELECT, or forward in its place", "REQUIRED")
        return
    if spec.sql:
        problem = "stands in place of sql: leave one of them out"
        yield Violation(f"{path}.forward", problem, "FORWARD_AND_SQL")
    if len(spec.streams) > 1:
        yield Violation(f"{path}.streams", "must be one: forward has no joins, sql has", "TOO_MANY")
    if spec.forward.payload not in spec_pb2.Forward.Payload.values():
        problem = f"{spec.forward.payload} is not a payload"
        yield Violation(f"{path}.forward.payload", problem, "UNKNOWN_ENUM_VALUE")
    if query.has_records(spec) and spec.forward.fields:
        problem = "go with payload: row: a record that is passed on as it is has no other columns"
        yield Violation(f"{path}.forward.fields", problem, "UNEXPECTED")
    for number, field in enumerate(spec.forward.fields):
        inner = f"{path}.forward.fields[{number}]"
        if not field.name.strip():
            yield Violation(f"{inner}.name", "is required: the column's name", "REQUIRED")
        if not field.expression.strip():
            yield Violation(f"{inner}.expression", "is required: what the column holds", "REQUIRED")


def _cluster(path: str, spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> Iterator[Violation]:
    cluster = catalogue.cluster(spec.cluster)
    if not spec.cluster:
        yield Violation(f"{path}.cluster", "is required: the cluster whose Spark runs it", "REQUIRED")
    elif cluster is None:
        yield unregistered_name(f"{path}.cluster", "cluster", spec.cluster)
    elif not cluster.spark_master:
        problem = f"cluster {spec.cluster} has no spark_master: nothing can run there"
        yield Violation(f"{path}.cluster", problem, "NO_SPARK")


def _reading(path: str, input_: spec_pb2.StreamInput) -> Iterator[Violation]:
    """Yield the violations of watermark, idleness, tolerance and start of a stream."""
    yield from fields.duration(f"{path}.watermark_delay", input_.watermark_delay)
    yield from fields.duration(f"{path}.idle_timeout", input_.idle_timeout)
    yield from fields.duration(f"{path}.future_tolerance", input_.future_tolerance, positive=True)
    match input_.start.WhichOneof("position"):
        case "at":
            yield from _instant(f"{path}.start.at", input_.start)
        case ("latest" | "earliest") as position if not getattr(input_.start, position):
            yield Violation(f"{path}.start.{position}", "must be true, or not set", "OUT_OF_RANGE")


def _instant(path: str, start: spec_pb2.StartPosition) -> Iterator[Violation]:
    if not is_instant(start.at):
        yield Violation(path, "must be an instant from 1970 on", "OUT_OF_RANGE")


def _inputs(path: str, spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> Iterator[Violation]:
    """Yield the violations of streams and their tables."""
    if not spec.streams:
        yield Violation(f"{path}.streams", "must have at least one stream", "REQUIRED")
    for number, stream in enumerate(spec.streams):
        yield from _table(f"{path}.streams[{number}].table", stream, spec)
        yield from _stream(f"{path}.streams[{number}].stream", stream.stream, catalogue)


def _table(path: str, input_: spec_pb2.StreamInput, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
    if not input_.table:
        yield Violation(path, "is required when a dagger has several streams", "REQUIRED")
    elif wrong := list(fields.table(path, input_.table)):
        yield from wrong
    elif sum(input_.table.lower() == other.table.lower() for other in spec.streams) > 1:
        yield Violation(path, f"{input_.table} is the table of two streams", "DUPLICATE")


def _stream(path: str, name: str, catalogue: Catalogue) -> Iterator[Violation]:
    stream = catalogue.stream(name)
    if not name:
        yield Violation(path, "is required: a registered stream", "REQUIRED")
    elif stream is None:
        yield unregistered_name(path, "stream", name)
    else:
        cluster = catalogue.cluster(stream.cluster)
        if cluster is None or not cluster.kafka.bootstrap_servers:
            where = f"its cluster {stream.cluster} has no Kafka any more"
            yield Violation(path, f"{name} cannot be read: {where}", "NO_KAFKA")
