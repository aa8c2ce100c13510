"""What is wrong with what a user asks of a dagger: the one answer of gateway, scheduler and driver.

The spec is judged with its defaults filled in; every violation is told at once. A default that was made from
the dagger's name is not judged: if it is wrong, the name is, and that is said of the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import defaults, fields, limits, sinks
from daggerspec.catalogue import Catalogue
from daggerspec.columns import Output
from daggerspec.sinks import Asked
from daggerspec.violation import Violation

# Clocks differ; further ahead than this, nobody meant an instant that has passed.
_CLOCK_SKEW: Final = timedelta(minutes=1)
_END_OF_TIME_S: Final = 253_402_300_800


def violations(
    at: str, name: str, spec: spec_pb2.DaggerSpec, catalogue: Catalogue, output: Output | None
) -> Iterator[Violation]:
    """Everything that is wrong with the spec of the dagger `name` beside its query; paths begin with `at`.

    `output` are the rows that the query gives; None when it gives none.
    """
    asked = Asked(name, spec, catalogue, output)
    yield from _plain(at, name, spec)
    yield from _cluster(at, spec, catalogue)
    for number, each in enumerate(spec.streams):
        yield from _reading(f"{at}.streams[{number}]", each)
    yield from _inputs(at, spec, catalogue)
    for number, sink in enumerate(spec.sinks):
        yield from sinks.violations(f"{at}.sinks[{number}]", sink, asked)


def is_judgeable(spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> bool:
    """Whether something can be said of the query: without its tables every column of it would be unknown."""
    return bool(spec.sql.strip()) and not any(_inputs("", spec, catalogue))


def unresolved(at: str, name: str, spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> Iterator[Violation]:
    """The names that stand for nothing: without them no launch can be told what it needs."""
    yield from _cluster(at, spec, catalogue)
    for number, each in enumerate(spec.streams):
        yield from _stream(f"{at}.streams[{number}].stream", each.stream, catalogue)
    for number, sink in enumerate(spec.sinks):
        yield from sinks.unresolved(f"{at}.sinks[{number}]", sink, Asked(name, spec, catalogue))


def in_the_future(at: str, spec: spec_pb2.DaggerSpec, now: datetime) -> Iterator[Violation]:
    """Streams that would begin at an instant that has not come: nobody asks for that."""
    for number, each in enumerate(spec.streams):
        place, start = f"{at}.streams[{number}].start.at", each.start
        if not start.HasField("at") or any(_instant(place, start)):
            continue
        if start.at.ToDatetime(tzinfo=UTC) > now + _CLOCK_SKEW:
            what = "is in the future: start at latest, or at an instant before now"
            yield Violation(place, what, "OUT_OF_RANGE")


def unsaid(name: str, spec: spec_pb2.DaggerSpec) -> Sequence[str]:
    """The fields that a spec leaves to defaults, where all of them should be said."""
    full = defaults.filled(name, spec)
    return [field.name for field, value in full.ListFields() if getattr(spec, field.name) != value]


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
    if not spec.sql.strip():
        yield Violation(f"{at}.sql", "is required: one SELECT", "REQUIRED")
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
    if spec.consumer_group != defaults.consumer_group(name):
        yield from fields.group(f"{at}.consumer_group", spec.consumer_group)


def _cluster(at: str, spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> Iterator[Violation]:
    cluster = catalogue.cluster(spec.cluster)
    if not spec.cluster:
        yield Violation(f"{at}.cluster", "is required: the cluster whose Spark runs it", "REQUIRED")
    elif cluster is None:
        yield Violation(f"{at}.cluster", f"cluster {spec.cluster} is not registered", "UNKNOWN_CLUSTER")
    elif not cluster.spark_master:
        what = f"cluster {spec.cluster} has no spark_master: nothing can run there"
        yield Violation(f"{at}.cluster", what, "NO_SPARK")


def _reading(at: str, asked: spec_pb2.StreamInput) -> Iterator[Violation]:
    """How a stream is read."""
    yield from fields.duration(f"{at}.watermark_delay", asked.watermark_delay)
    yield from fields.duration(f"{at}.idle_timeout", asked.idle_timeout)
    yield from fields.duration(f"{at}.future_tolerance", asked.future_tolerance, positive=True)
    match asked.start.WhichOneof("position"):
        case "at":
            yield from _instant(f"{at}.start.at", asked.start)
        case ("latest" | "earliest") as position if not getattr(asked.start, position):
            yield Violation(f"{at}.start.{position}", "must be true, or not set", "OUT_OF_RANGE")


def _instant(at: str, start: spec_pb2.StartPosition) -> Iterator[Violation]:
    if not 0 <= start.at.seconds < _END_OF_TIME_S or start.at.nanos < 0:
        yield Violation(at, "must be an instant from 1970 on", "OUT_OF_RANGE")


def _inputs(at: str, spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> Iterator[Violation]:
    """What is wrong with the tables."""
    if not spec.streams:
        yield Violation(f"{at}.streams", "must have at least one stream", "REQUIRED")
    for number, each in enumerate(spec.streams):
        yield from _table(f"{at}.streams[{number}].table", each, spec)
        yield from _stream(f"{at}.streams[{number}].stream", each.stream, catalogue)


def _table(at: str, asked: spec_pb2.StreamInput, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
    if not asked.table:
        yield Violation(at, "is required when a dagger has several streams", "REQUIRED")
    elif wrong := list(fields.table(at, asked.table)):
        yield from wrong
    elif sum(asked.table.lower() == other.table.lower() for other in spec.streams) > 1:
        yield Violation(at, f"{asked.table} is the table of two streams", "DUPLICATE")


def _stream(at: str, name: str, catalogue: Catalogue) -> Iterator[Violation]:
    stream = catalogue.stream(name)
    if not name:
        yield Violation(at, "is required: a registered stream", "REQUIRED")
    elif stream is None:
        yield Violation(at, f"stream {name} is not registered", "UNKNOWN_STREAM")
    else:
        cluster = catalogue.cluster(stream.cluster)
        if cluster is None or not cluster.kafka.bootstrap_servers:
            where = f"its cluster {stream.cluster} has no Kafka any more"
            yield Violation(at, f"{name} cannot be read: {where}", "NO_KAFKA")
