"""A DaggerSpec as a dagger file writes it: the inverse of `parse`."""

from datetime import timedelta
from typing import Any

import yaml
from daggers.v1 import spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerclient.times import iso

UNITS = ((timedelta(hours=1), "h"), (timedelta(minutes=1), "m"), (timedelta(seconds=1), "s"))


def to_document(spec: spec_pb2.DaggerSpec) -> dict[str, Any]:
    """The specification under the keys of a dagger file, without the name."""
    document: dict[str, Any] = {
        "team": spec.team,
        "cluster": spec.cluster,
        "streams": [_stream(stream) for stream in spec.streams],
        "sql": spec.sql,
        "sinks": [_sink(sink) for sink in spec.sinks],
    }
    if spec.HasField("trigger"):
        document["trigger"] = duration(spec.trigger)
    document["emit"] = "early" if spec.emit == spec_pb2.EMIT_EARLY else "final"
    if spec.state:
        document["state"] = "disk" if spec.state == spec_pb2.STATE_STORE_DISK else "memory"
    if spec.driver_memory_mib:
        document["driver_memory"] = f"{spec.driver_memory_mib}m"
    if spec.consumer_group:
        document["consumer_group"] = spec.consumer_group
    return document


def duration(value: Duration) -> str:
    """A duration in its largest whole unit: 5s, 500ms, 1m."""
    span = value.ToTimedelta()
    for unit, name in UNITS:
        if span and span % unit == timedelta(0):
            return f"{span // unit}{name}"
    return f"{span // timedelta(milliseconds=1)}ms" if span else "0s"


def to_yaml(document: dict[str, Any]) -> str:
    """The text of a dagger file; several lines of SQL become a block."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _stream(stream: spec_pb2.StreamInput) -> dict[str, Any]:
    document: dict[str, Any] = {"table": stream.table or "data_stream", "stream": stream.stream}
    if stream.HasField("watermark_delay"):
        document["watermark_delay"] = duration(stream.watermark_delay)
    if stream.HasField("idle_timeout"):
        document["idle_timeout"] = (
            duration(stream.idle_timeout) if stream.idle_timeout.ToTimedelta() else "off"
        )
    if stream.HasField("future_tolerance"):
        document["future_tolerance"] = duration(stream.future_tolerance)
    if stream.HasField("start"):
        kind = stream.start.WhichOneof("position") or "latest"
        document["start"] = iso(stream.start.at) if kind == "at" else kind
    return document


def _sink(sink: spec_pb2.Sink) -> Any:
    match sink.WhichOneof("kind"):
        case "influx":
            address = sink.influx.address
            parts = {"measurement": sink.influx.measurement, "url": address.url, "org": address.org}
            document: dict[str, Any] = {**parts, "bucket": address.bucket}
            if address.HasField("token"):
                document["token"] = secret(address.token)
            return {"influx": {key: value for key, value in document.items() if value}}
        case "kafka":
            protobuf = sink.kafka.format == spec_pb2.KafkaSink.FORMAT_PROTOBUF
            document = {"topic": sink.kafka.topic, "format": "protobuf" if protobuf else "json"}
            document |= {"message": sink.kafka.message, "cluster": sink.kafka.cluster}
            return {"kafka": {key: value for key, value in document.items() if value}}
        case _:
            return {"log": {"limit": sink.log.limit}} if sink.log.limit else "log"


def secret(reference: spec_pb2.SecretRef) -> dict[str, str] | None:
    """Where a secret is: {env: NAME} or {file: PATH}."""
    kind = reference.WhichOneof("source")
    return {kind: getattr(reference, kind)} if kind else None
