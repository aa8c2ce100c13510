"""Whether a dagger can be what it is asked to be: its spec against the catalogue, and its SQL. Pure.

The spec is checked with its defaults filled in; every violation is answered at once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from daggers.v1 import spec_pb2

from api_gateway import columns, validation
from chassis.errors import Violation, sql_violation
from daggersql import Checked, Finding, Plan, Severity, check
from fleet import Fleet, resolve

MAX_SQL_BYTES: Final = 256 * 1024
MAX_STREAMS: Final = 11
MAX_SINKS: Final = 20
MIN_DRIVER_MEMORY_MIB: Final = 450
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_GROUP: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Topics of the platform itself: a forged record in one of them is a forged fact.
_PLATFORM: Final = "daggers."


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found about a spec."""

    violations: tuple[Violation, ...]
    """Empty when it can run."""
    warnings: tuple[str, ...]
    """What people should know of a spec that can run."""


async def judge(at: str, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> Judged:
    """Check a spec, defaults filled in. Paths begin with `at`.

    The query is checked in a thread, so that a large one holds up no other call.
    """
    violations = [*_plain(at, spec), *_cluster(at, spec, fleet)]
    inputs = [v for n, s in enumerate(spec.streams) for v in _input(f"{at}.streams[{n}]", s, spec, fleet)]
    if not spec.streams:
        inputs.append(Violation(f"{at}.streams", "must have at least one stream", "REQUIRED"))
    checked = Checked(None, ())
    if not spec.sql.strip():
        violations.append(Violation(f"{at}.sql", "is required: one SELECT", "REQUIRED"))
    elif len(spec.sql.encode()) > MAX_SQL_BYTES:
        violations.append(Violation(f"{at}.sql", f"is longer than {MAX_SQL_BYTES} bytes", "TOO_LONG"))
    elif not inputs:  # without its tables, every column of a query is unknown
        try:
            tables = resolve.tables(fleet, spec)
        except resolve.Unresolved as error:
            inputs.append(Violation(f"{at}.streams", error.detail, error.reason))
        else:
            checked = await asyncio.to_thread(check, spec.sql, tables)
    violations += inputs
    violations += [_finding(f"{at}.sql", f) for f in checked.findings if f.severity is Severity.ERROR]
    for number, sink in enumerate(spec.sinks):
        violations += _sink(f"{at}.sinks[{number}]", sink, spec, fleet, checked.plan)
    warnings = checked.plan.warnings if checked.plan else ()
    return Judged(
        tuple(violations),
        tuple(f"{f.code}: line {f.line}, column {f.column}: {f.message}" for f in warnings),
    )


def _plain(at: str, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
    """What can be judged without the catalogue."""
    yield from validation.text(f"{at}.team", spec.team, limit=128)
    yield from validation.duration(f"{at}.trigger", spec.trigger)
    if len(spec.streams) > MAX_STREAMS:
        yield Violation(f"{at}.streams", f"must not be more than {MAX_STREAMS}", "TOO_MANY")
    if not spec.sinks:
        yield Violation(f"{at}.sinks", "must have at least one sink", "REQUIRED")
    if len(spec.sinks) > MAX_SINKS:
        yield Violation(f"{at}.sinks", f"must not be more than {MAX_SINKS}", "TOO_MANY")
    if spec.emit not in (spec_pb2.EMIT_FINAL, spec_pb2.EMIT_EARLY):
        yield Violation(f"{at}.emit", f"{spec.emit} is not a way to emit", "UNKNOWN_ENUM_VALUE")
    if 0 < spec.driver_memory_mib < MIN_DRIVER_MEMORY_MIB:
        yield Violation(
            f"{at}.driver_memory_mib",
            f"must be at least {MIN_DRIVER_MEMORY_MIB}: Spark refuses less; 0 lets the scheduler choose",
            "OUT_OF_RANGE",
        )
    if not _GROUP.fullmatch(spec.consumer_group):
        yield Violation(
            f"{at}.consumer_group", "must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'", "INVALID_GROUP"
        )


def _cluster(at: str, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> Iterator[Violation]:
    if not spec.cluster:
        yield Violation(f"{at}.cluster", "is required: the cluster whose Spark runs it", "REQUIRED")
    elif spec.cluster not in fleet.clusters:
        yield _unknown(f"{at}.cluster", "cluster", spec.cluster)
    elif not fleet.clusters[spec.cluster].value.spark_master:
        yield Violation(
            f"{at}.cluster",
            f"cluster {spec.cluster} has no spark_master: nothing can run there",
            "NO_SPARK",
        )


def _input(
    at: str, asked: spec_pb2.StreamInput, spec: spec_pb2.DaggerSpec, fleet: Fleet
) -> Iterator[Violation]:
    if not asked.table:
        yield Violation(f"{at}.table", "is required when a dagger has several streams", "REQUIRED")
    elif not _TABLE.fullmatch(asked.table):
        yield Violation(f"{at}.table", "must be a letter or _, then letters, digits and _", "INVALID_NAME")
    elif sum(asked.table.lower() == other.table.lower() for other in spec.streams) > 1:
        yield Violation(f"{at}.table", f"{asked.table} is the table of two streams", "DUPLICATE")
    yield from validation.duration(f"{at}.watermark_delay", asked.watermark_delay)
    yield from validation.duration(f"{at}.idle_timeout", asked.idle_timeout)
    match asked.start.WhichOneof("position"):
        case "at" if not 0 <= asked.start.at.seconds < 253402300800 or asked.start.at.nanos < 0:
            yield Violation(f"{at}.start.at", "must be an instant from 1970 on", "OUT_OF_RANGE")
        case ("latest" | "earliest") as position if not getattr(asked.start, position):
            yield Violation(f"{at}.start.{position}", "must be true, or not set", "OUT_OF_RANGE")
    if not asked.stream:
        yield Violation(f"{at}.stream", "is required: a registered stream", "REQUIRED")
        return
    entry = fleet.streams.get(asked.stream)
    if entry is None:
        yield _unknown(f"{at}.stream", "stream", asked.stream)
        return
    cluster = fleet.clusters.get(entry.value.cluster)
    if cluster is None or not cluster.value.kafka.bootstrap_servers:
        where = f"its cluster {entry.value.cluster} has no Kafka any more"
        yield Violation(f"{at}.stream", f"{asked.stream} cannot be read: {where}", "NO_KAFKA")


def _sink(
    at: str, sink: spec_pb2.Sink, spec: spec_pb2.DaggerSpec, fleet: Fleet, plan: Plan | None
) -> Iterator[Violation]:
    kind = sink.WhichOneof("kind")
    if kind is None:
        yield Violation(at, "must be an influx, a kafka or a log sink", "REQUIRED")
    elif kind == "influx":
        yield from _influx(f"{at}.influx", sink.influx, spec, fleet)
    elif kind == "kafka":
        yield from _kafka(f"{at}.kafka", sink.kafka, spec, fleet, plan)
    if spec.emit == spec_pb2.EMIT_EARLY and kind in ("kafka", "log"):
        yield Violation(
            at, f"a {kind} sink cannot take updates: emit EMIT_FINAL, or use an influx sink", "NOT_UPSERT"
        )


def _influx(
    at: str, sink: spec_pb2.InfluxSink, spec: spec_pb2.DaggerSpec, fleet: Fleet
) -> Iterator[Violation]:
    yield from validation.text(f"{at}.measurement", sink.measurement, limit=256)
    if sink.measurement.startswith(("#", "_")):
        yield Violation(f"{at}.measurement", "must not begin with # or _", "INVALID_NAME")
    yield from validation.influx_address(f"{at}.address", sink.address)
    if spec.cluster in fleet.clusters:
        default = fleet.clusters[spec.cluster].value.influx
        for part in ("url", "bucket"):
            if not getattr(sink.address, part) and not getattr(default, part):
                yield Violation(
                    f"{at}.address.{part}", f"is required: cluster {spec.cluster} has none", "REQUIRED"
                )


def _kafka(
    at: str, sink: spec_pb2.KafkaSink, spec: spec_pb2.DaggerSpec, fleet: Fleet, plan: Plan | None
) -> Iterator[Violation]:
    yield from validation.topic(f"{at}.topic", sink.topic)
    if sink.topic.startswith(_PLATFORM):
        yield Violation(f"{at}.topic", f"topics that begin with {_PLATFORM} are the platform's", "RESERVED")
    if sink.cluster not in fleet.clusters:
        if sink.cluster and sink.cluster != spec.cluster:
            yield _unknown(f"{at}.cluster", "cluster", sink.cluster)
    elif not fleet.clusters[sink.cluster].value.kafka.bootstrap_servers:
        yield Violation(f"{at}.cluster", f"cluster {sink.cluster} has no Kafka", "NO_KAFKA")
    for asked in spec.streams:
        entry = fleet.streams.get(asked.stream)
        if entry and entry.value.cluster == sink.cluster and sink.topic in entry.value.topics:
            yield Violation(
                f"{at}.topic", f"{sink.topic} is read by this dagger: its rows would come back", "LOOP"
            )
    if sink.format == spec_pb2.KafkaSink.FORMAT_PROTOBUF:
        yield from _kafka_message(at, sink, fleet, plan)
    elif sink.format != spec_pb2.KafkaSink.FORMAT_JSON:
        yield Violation(f"{at}.format", f"{sink.format} is not a format", "UNKNOWN_ENUM_VALUE")
    elif sink.message:
        yield Violation(f"{at}.message", "goes with FORMAT_PROTOBUF only", "UNEXPECTED")


def _kafka_message(at: str, sink: spec_pb2.KafkaSink, fleet: Fleet, plan: Plan | None) -> Iterator[Violation]:
    if not sink.message:
        yield Violation(f"{at}.message", "is required for FORMAT_PROTOBUF", "REQUIRED")
        return
    try:
        message = resolve.message(fleet, sink.message)
    except resolve.Unresolved as error:
        yield Violation(f"{at}.message", error.detail, error.reason)
        return
    if plan is not None:
        yield from columns.mismatches(f"{at}.message", plan.columns, message)


def _unknown(at: str, kind: str, name: str) -> Violation:
    return Violation(at, f"{kind} {name} is not registered", f"UNKNOWN_{kind.upper()}")


def _finding(at: str, finding: Finding) -> Violation:
    return sql_violation(
        at,
        code=finding.code,
        line=finding.line,
        column=finding.column,
        message=finding.message,
        suggestion=finding.suggestion,
    )
