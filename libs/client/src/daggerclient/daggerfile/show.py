"""A DaggerSpec as a dagger file writes it: the inverse of `parse`."""

from typing import Any

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile import sinks
from daggerclient.times import duration, iso


def to_document(spec: spec_pb2.DaggerSpec) -> dict[str, Any]:
    """The specification under the keys of a dagger file, without the name."""
    document: dict[str, Any] = {
        "team": spec.team,
        "cluster": spec.cluster,
        "streams": [_stream(stream) for stream in spec.streams],
        "sql": spec.sql,
        "sinks": [sinks.show(sink) for sink in spec.sinks],
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
