"""Each row is one record of a Kafka topic, as JSON or as a Protobuf message.

A forwarding with `payload: record` writes the records themselves: value, key and headers as they were read, a
tombstone as one. Behind their headers they have one more, `daggers_id`, which is the same when a record is
written again. Records of one key stay in their order, as they go to one partition; those without a key have
none, as with any producer.

As the sink of late records (`late: {keep: NAME}`) it gets these as they were read, too: value and key, and in
place of their headers ours, which say the window that each missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields, query, topics
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.destination import Destination, servers_at
from daggerspec.keys import Key
from daggerspec.kind import ValidationContext, message_mismatches, records_only
from daggerspec.violation import Violation, unregistered_name

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.AT_LEAST_ONCE,
    because="repeats can be detected, their key, ce_id and value are the same",
    upserts=False,
    repeats_tellable=True,
    records=True,
    late=True,
    keeps_order=True,
    limits=("rows_per_second",),  # what a request is its client decides
)
TIME_SERIES: Final = False
KEYS: Final = (
    Key("topic", "The topic; the broker creates it if it may.", required=True),
    Key(
        "format",
        "How a row becomes the record's value: json or protobuf; without it json. With `payload: record` it"
        " is record: value, key and headers as they were read.",
    ),
    Key(
        "message",
        "Full name of the registered message, columns to fields by name; for the format protobuf.",
        needed_with=("format", "protobuf"),
    ),
    Key(
        "cluster", "A registered cluster whose Kafka holds the topic; without it the dagger's.", address=True
    ),
)
_JSON: Final = spec_pb2.KafkaSink.FORMAT_JSON
_PROTOBUF: Final = spec_pb2.KafkaSink.FORMAT_PROTOBUF
_RECORD: Final = spec_pb2.KafkaSink.FORMAT_RECORD


def fill(sink: spec_pb2.KafkaSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger
    sink.format = sink.format or (_RECORD if query.has_records(spec) else _JSON)
    sink.cluster = sink.cluster or spec.cluster


def resolve(path: str, resolved: spec_pb2.ResolvedSink, context: ValidationContext) -> Iterator[Violation]:
    """Take the address from its cluster."""
    sink = resolved.sink.kafka
    name = sink.cluster or context.spec.cluster
    cluster = context.catalogue.cluster(name)
    if cluster is None:
        if name != context.spec.cluster:  # which is told of by itself
            yield unregistered_name(f"{path}.cluster", "cluster", name)
    elif not cluster.kafka.bootstrap_servers:
        yield Violation(f"{path}.cluster", f"cluster {name} has no Kafka", "NO_KAFKA")
    else:
        resolved.kafka.CopyFrom(cluster.kafka)


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return its topic."""
    servers = servers_at(resolved.kafka.bootstrap_servers)
    return Destination("kafka", servers, "", resolved.sink.kafka.topic)


def overwrites(sink: spec_pb2.KafkaSink) -> bool:
    """Return whether a recomputed row takes the place of the one before: by its key, for readers."""
    del sink
    return True


def violations(path: str, sink: spec_pb2.KafkaSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of address, topic, message and key."""
    yield from fields.topic(f"{path}.topic", sink.topic)
    if topics.is_platform(sink.topic):
        text = f"topics that begin with {topics.PREFIX} are the platform's"
        yield Violation(f"{path}.topic", text, "RESERVED")
    if sink.topic in topics.INTERNAL:
        yield Violation(f"{path}.topic", f"{sink.topic} is Kafka's own", "RESERVED")
    for input_ in context.spec.streams:
        stream = context.catalogue.stream(input_.stream)
        if stream and stream.cluster == sink.cluster and sink.topic in stream.topics:
            text = f"{sink.topic} is read by this dagger: its rows would come back"
            yield Violation(f"{path}.topic", text, "LOOP")
    yield from records_only(f"{path}.format", "record", context, is_said=sink.format == _RECORD)
    if sink.format == _PROTOBUF:
        if not sink.message:
            yield Violation(f"{path}.message", "is required for the format Protobuf", "REQUIRED")
        yield from message_mismatches(f"{path}.message", sink.message, context)
    elif sink.format not in (_JSON, _RECORD):
        yield Violation(f"{path}.format", f"{sink.format} is not a format", "UNKNOWN_ENUM_VALUE")
    elif sink.message:
        yield Violation(f"{path}.message", "goes with the format Protobuf only", "UNEXPECTED")


def messages(sink: spec_pb2.KafkaSink) -> Mapping[str, str]:
    """Return the message of its records."""
    return {"message": sink.message} if sink.format == _PROTOBUF and sink.message else {}
