"""Whether a dagger can be what it is asked to be: its spec against the catalogue, and its SQL.

The spec is checked with its defaults filled in; every violation is answered at once. A default that was made
from the dagger's name is not judged: if it is wrong, the name is, and that is said of the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import spec_pb2

from api_gateway.checks import Checks
from daggerspec import catalogue, fields, fit, limits
from daggerspec.defaults import consumer_group
from daggerspec.violation import Violation
from daggersql import Checked, Finding, Plan, Severity, check
from daggersql.limits import MAX_BYTES
from fleet import Fleet, resolve

# Clocks differ; further ahead than this, nobody meant an instant that has passed.
_CLOCK_SKEW: Final = timedelta(minutes=1)
# Topics of the platform itself: a forged record in one of them is a forged fact.
_PLATFORM: Final = "daggers."


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found about a spec."""

    at: str
    """Path of the spec."""
    others: tuple[Violation, ...]
    """What is wrong beside the query."""
    query: Checked
    """What was found about the query; nothing at all when its tables are not known."""

    @property
    def violations(self) -> list[Violation]:
        """Everything that is wrong; empty when it can run."""
        errors = [f for f in self.query.findings if f.severity is Severity.ERROR]
        return [*self.others, *(_violation(f"{self.at}.sql", f) for f in errors)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know of a spec that can run."""
        found = self.query.plan.warnings if self.query.plan else ()
        return tuple(f"{f.code}: line {f.line}, column {f.column}: {f.message}" for f in found)


async def judge(
    at: str, name: str, spec: spec_pb2.DaggerSpec, fleet: Fleet, checks: Checks, *, now: datetime
) -> Judged:
    """Check the spec of the dagger `name`, its defaults filled in. Paths begin with `at`."""
    violations = [*_plain(at, name, spec), *_cluster(at, spec, fleet)]
    violations += [
        v for n, s in enumerate(spec.streams) for v in _reading(f"{at}.streams[{n}]", s, now + _CLOCK_SKEW)
    ]
    inputs = [v for n, s in enumerate(spec.streams) for v in _input(f"{at}.streams[{n}]", s, spec, fleet)]
    if not spec.streams:
        inputs.append(Violation(f"{at}.streams", "must have at least one stream", "REQUIRED"))
    checked = Checked(None, ())
    if not spec.sql.strip():
        violations.append(Violation(f"{at}.sql", "is required: one SELECT", "REQUIRED"))
    elif len(spec.sql.encode()) > MAX_BYTES:
        checked = await asyncio.to_thread(check, spec.sql, ())  # refused for its size, whatever it reads
    elif not inputs:  # without its tables, every column of a query is unknown
        try:
            checked = await checks.check(spec, fleet, accepted=_has(fleet, name, spec))
        except resolve.Unresolved as error:
            inputs.append(Violation(f"{at}.streams", error.detail, error.reason))
    violations += inputs
    for number, sink in enumerate(spec.sinks):
        violations += _sink(f"{at}.sinks[{number}]", sink, name, spec, fleet, checked.plan)
    return Judged(at, tuple(violations), checked)


def _has(fleet: Fleet, name: str, spec: spec_pb2.DaggerSpec) -> bool:
    """Whether the dagger has this query already: new objections do not hold up its other edits."""
    dagger = fleet.living(name)
    return dagger is not None and (dagger.spec.sql, dagger.spec.emit) == (spec.sql, spec.emit)


def _plain(at: str, name: str, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
    """What can be judged without the catalogue."""
    yield from fields.text(f"{at}.team", spec.team, limit=128)
    yield from fields.duration(f"{at}.trigger", spec.trigger, positive=True)
    if len(spec.streams) > limits.MAX_STREAMS:
        yield Violation(f"{at}.streams", f"must not be more than {limits.MAX_STREAMS}", "TOO_MANY")
    if not spec.sinks:
        yield Violation(f"{at}.sinks", "must have at least one sink", "REQUIRED")
    if len(spec.sinks) > limits.MAX_SINKS:
        yield Violation(f"{at}.sinks", f"must not be more than {limits.MAX_SINKS}", "TOO_MANY")
    if spec.emit not in (spec_pb2.EMIT_FINAL, spec_pb2.EMIT_EARLY):
        yield Violation(f"{at}.emit", f"{spec.emit} is not a way to emit", "UNKNOWN_ENUM_VALUE")
    if spec.state not in spec_pb2.StateStore.values():
        yield Violation(f"{at}.state", f"{spec.state} is not a place for state", "UNKNOWN_ENUM_VALUE")
    if 0 < spec.driver_memory_mib < limits.MIN_DRIVER_MEMORY_MIB:
        yield Violation(
            f"{at}.driver_memory_mib",
            f"must be at least {limits.MIN_DRIVER_MEMORY_MIB}: Spark refuses less; without it the scheduler"
            " chooses",
            "OUT_OF_RANGE",
        )
    if spec.consumer_group != consumer_group(name):
        yield from fields.group(f"{at}.consumer_group", spec.consumer_group)


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


def _reading(at: str, asked: spec_pb2.StreamInput, latest: datetime) -> Iterator[Violation]:
    """How a stream is read; it may begin at an instant until `latest`."""
    yield from fields.duration(f"{at}.watermark_delay", asked.watermark_delay)
    yield from fields.duration(f"{at}.idle_timeout", asked.idle_timeout)
    yield from fields.duration(f"{at}.future_tolerance", asked.future_tolerance, positive=True)
    match asked.start.WhichOneof("position"):
        case "at" if not 0 <= asked.start.at.seconds < 253402300800 or asked.start.at.nanos < 0:
            yield Violation(f"{at}.start.at", "must be an instant from 1970 on", "OUT_OF_RANGE")
        case "at" if asked.start.at.ToDatetime(tzinfo=UTC) > latest:
            yield Violation(
                f"{at}.start.at",
                "is in the future: start at latest, or at an instant before now",
                "OUT_OF_RANGE",
            )
        case ("latest" | "earliest") as position if not getattr(asked.start, position):
            yield Violation(f"{at}.start.{position}", "must be true, or not set", "OUT_OF_RANGE")


def _input(
    at: str, asked: spec_pb2.StreamInput, spec: spec_pb2.DaggerSpec, fleet: Fleet
) -> Iterator[Violation]:
    if not asked.table:
        yield Violation(f"{at}.table", "is required when a dagger has several streams", "REQUIRED")
    elif wrong := list(fields.table(f"{at}.table", asked.table)):
        yield from wrong
    elif sum(asked.table.lower() == other.table.lower() for other in spec.streams) > 1:
        yield Violation(f"{at}.table", f"{asked.table} is the table of two streams", "DUPLICATE")
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
    at: str, sink: spec_pb2.Sink, name: str, spec: spec_pb2.DaggerSpec, fleet: Fleet, plan: Plan | None
) -> Iterator[Violation]:
    kind = sink.WhichOneof("kind")
    if kind is None:
        yield Violation(at, "must be an influx, a kafka or a log sink", "REQUIRED")
    elif kind == "influx":
        yield from _influx(f"{at}.influx", sink.influx, name, spec, fleet)
    elif kind == "kafka":
        yield from _kafka(f"{at}.kafka", sink.kafka, spec, fleet, plan)
    if spec.emit == spec_pb2.EMIT_EARLY and kind in ("kafka", "log"):
        yield Violation(
            at, f"a {kind} sink cannot take updates: emit final, or use an influx sink", "NOT_UPSERT"
        )


def _influx(
    at: str, sink: spec_pb2.InfluxSink, name: str, spec: spec_pb2.DaggerSpec, fleet: Fleet
) -> Iterator[Violation]:
    if sink.measurement != name:
        yield from fields.text(f"{at}.measurement", sink.measurement, limit=256)
        if sink.measurement.startswith(("#", "_")):
            yield Violation(f"{at}.measurement", "must not begin with # or _", "INVALID_NAME")
        if sink.measurement.endswith("\\"):
            yield Violation(f"{at}.measurement", "must not end with a backslash", "INVALID_NAME")
    yield from catalogue.influx_address(f"{at}.address", sink.address)
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
    yield from fields.topic(f"{at}.topic", sink.topic)
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
        yield Violation(f"{at}.message", "goes with the format Protobuf only", "UNEXPECTED")


def _kafka_message(at: str, sink: spec_pb2.KafkaSink, fleet: Fleet, plan: Plan | None) -> Iterator[Violation]:
    if not sink.message:
        yield Violation(f"{at}.message", "is required for the format Protobuf", "REQUIRED")
        return
    try:
        message = resolve.message(fleet, sink.message)
    except resolve.Unresolved as error:
        yield Violation(f"{at}.message", error.detail, error.reason)
        return
    if plan is not None:
        yield from fit.mismatches(f"{at}.message", plan.columns, message)


def _unknown(at: str, kind: str, name: str) -> Violation:
    return Violation(at, f"{kind} {name} is not registered", f"UNKNOWN_{kind.upper()}")


def _violation(at: str, finding: Finding) -> Violation:
    return Violation(
        at,
        finding.message,
        finding.code,
        finding.line,
        finding.column,
        finding.end_line,
        finding.end_column,
        finding.suggestion,
    )
