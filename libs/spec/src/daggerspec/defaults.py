"""The defaults of a dagger, in one place: what stands in the log says all, whatever the defaults become."""

from __future__ import annotations

from datetime import timedelta

from daggers.v1 import spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerspec import sinks
from daggerspec.sinks import influx

TABLE = "data_stream"
WATERMARK_DELAY = timedelta(seconds=5)
IDLE_TIMEOUT = timedelta(seconds=10)
FUTURE_TOLERANCE = timedelta(minutes=5)
TRIGGER = timedelta(seconds=1)

PREVIEWED = "preview"
"""The name of a draft without one, in its preview."""
SINKS_TESTED = "sink-test"
"""The name of a draft without one, whose sinks are tried."""


def _duration(span: timedelta) -> Duration:
    message = Duration()
    message.FromTimedelta(span)
    return message


# Converted once: a conversion takes longer than a copy, and each request has three.
_WATERMARK_DELAY, _IDLE_TIMEOUT, _FUTURE_TOLERANCE = map(
    _duration, (WATERMARK_DELAY, IDLE_TIMEOUT, FUTURE_TOLERANCE)
)


def fill_defaults(name: str, original: spec_pb2.DaggerSpec) -> spec_pb2.DaggerSpec:
    """Return the spec with every default filled in. Filled in twice, it does not change again.

    Driver memory stays 0: the scheduler knows its host. Addresses stay with their clusters.
    """
    spec = spec_pb2.DaggerSpec()
    spec.CopyFrom(original)
    for stream in spec.streams:
        if not stream.table and len(spec.streams) == 1:
            stream.table = TABLE
        if not stream.HasField("watermark_delay"):
            stream.watermark_delay.CopyFrom(_WATERMARK_DELAY)
        if not stream.HasField("idle_timeout"):
            stream.idle_timeout.CopyFrom(_IDLE_TIMEOUT)
        if not stream.HasField("future_tolerance"):
            stream.future_tolerance.CopyFrom(_FUTURE_TOLERANCE)
        if stream.start.WhichOneof("position") is None:
            stream.start.latest = True
    for sink in spec.sinks:
        sinks.fill(sink, name, spec)
    if not spec.HasField("trigger"):
        spec.trigger.FromTimedelta(sinks.trigger(spec) or TRIGGER)
    spec.emit = spec.emit or spec_pb2.EMIT_FINAL
    if not spec.late.keep and not spec.late.HasField("update"):
        spec.ClearField("late")
    spec.consumer_group = spec.consumer_group or consumer_group(name)
    return spec


def consumer_group(name: str) -> str:
    """Return the consumer group of a dagger that names none."""
    return f"daggers.{name}"


def fill_cluster_defaults(original: spec_pb2.Cluster) -> spec_pb2.Cluster:
    """Return the cluster with every default filled in."""
    cluster = spec_pb2.Cluster()
    cluster.CopyFrom(original)
    if cluster.HasField("influx"):
        cluster.influx.org = cluster.influx.org or influx.DEFAULT_ORG
    return cluster
