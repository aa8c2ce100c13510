"""The catalogue: clusters, schemas, streams and reference tables, each whole and with its version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeAlias, TypeVar, get_args

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message

from fleet.answers import Refusal, version_mismatch

Registration: TypeAlias = (
    events_pb2.ClusterRegistered
    | events_pb2.SchemaRegistered
    | events_pb2.StreamRegistered
    | events_pb2.ReferenceRegistered
)
REGISTRATIONS: Final[tuple[type[Message], ...]] = get_args(Registration)
T = TypeVar("T", spec_pb2.Cluster, spec_pb2.Stream, spec_pb2.Schema, spec_pb2.ReferenceTable)


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One registered thing as it is now. The value must not be changed."""

    value: T
    version: int
    """Number of accepted registrations."""
    sequence: int
    """Sequence of the newest of them."""
    since: int = -1
    """Sequence of the registration that gave it this value: the same value again changes nothing."""


class Catalogue:
    """Clusters, streams and reference tables by name, schemas by the full name of each message."""

    def __init__(self) -> None:
        self.clusters: dict[str, Entry[spec_pb2.Cluster]] = {}
        self.streams: dict[str, Entry[spec_pb2.Stream]] = {}
        self.messages: dict[str, Entry[spec_pb2.Schema]] = {}
        self.references: dict[str, Entry[spec_pb2.ReferenceTable]] = {}
        self.joined: dict[str, dict[str, datetime]] = {}
        """When each topic came into a stream, by stream."""

    def register(self, event: Registration, sequence: int, time: datetime) -> int | Refusal:
        """Take in what an event registers at `time`; answers its version."""
        match event:
            case events_pb2.ClusterRegistered(cluster=cluster, meta=meta):
                return _put(self.clusters, "cluster", cluster.name, cluster, meta, sequence)
            case events_pb2.ReferenceRegistered(reference=table, meta=meta):
                return _put(self.references, "reference", table.name, table, meta, sequence)
            case events_pb2.StreamRegistered():
                return self._register_stream(event, sequence, time)
            case events_pb2.SchemaRegistered():
                return self._register_schema(event, sequence)

    def _register_stream(
        self, event: events_pb2.StreamRegistered, sequence: int, time: datetime
    ) -> int | Refusal:
        name = event.stream.name
        answer = _put(self.streams, "stream", name, event.stream, event.meta, sequence)
        if not isinstance(answer, Refusal):
            before = self.joined.get(name, {})
            self.joined[name] = {topic: before.get(topic, time) for topic in event.stream.topics}
        return answer

    def _register_schema(self, event: events_pb2.SchemaRegistered, sequence: int) -> int | Refusal:
        """Under every message that it defines, all or none; answers the highest version."""
        names = list(event.schema.messages)
        if event.meta.HasField("expected_version"):
            for name in names:
                refusal = version_mismatch(
                    "message", name, event.meta.expected_version, _version(self.messages, name)
                )
                if refusal is not None:
                    return refusal
        newest = 0
        for name in names:
            version = _version(self.messages, name) + 1
            self.messages[name] = Entry(event.schema, version, sequence)
            newest = max(newest, version)
        return newest


def registered(event: Registration) -> str | None:
    """Name of what an event registers: of a schema its first message; None when it has none."""
    match event:
        case events_pb2.ClusterRegistered(cluster=cluster):
            return cluster.name
        case events_pb2.ReferenceRegistered(reference=table):
            return table.name
        case events_pb2.StreamRegistered(stream=stream):
            return stream.name
        case events_pb2.SchemaRegistered(schema=schema):
            return next(iter(schema.messages), None)


def closure(files: FileDescriptorSet, roots: Iterable[str]) -> list[FileDescriptorProto]:
    """The files named by `roots` and all they import, each after what it imports.

    A file that is imported but not in the set is left out: the one who builds the descriptors says so.
    """
    by_name = {file.name: file for file in files.file}
    ordered: dict[str, FileDescriptorProto] = {}
    pending = [(name, False) for name in reversed(list(roots))]
    while pending:
        name, imports_done = pending.pop()
        if name in ordered or name not in by_name:
            continue
        if imports_done:
            ordered[name] = by_name[name]
        else:
            pending.append((name, True))
            pending.extend((needed, False) for needed in reversed(by_name[name].dependency))
    return list(ordered.values())


def defining_file(files: FileDescriptorSet, message: str) -> str | None:
    """Name of the file that defines a message (fully-qualified, nested ones too); None when none does."""
    for file in files.file:
        prefix = f"{file.package}." if file.package else ""
        if not message.startswith(prefix):
            continue
        types = file.message_type
        definition = None
        for part in message[len(prefix) :].split("."):
            definition = next((each for each in types if each.name == part), None)
            if definition is None:
                break
            types = definition.nested_type
        if definition is not None:
            return file.name
    return None


def _version(entries: dict[str, Entry[T]], name: str) -> int:
    entry = entries.get(name)
    return entry.version if entry else 0


def _put(
    entries: dict[str, Entry[T]], kind: str, name: str, value: T, meta: events_pb2.RequestMeta, sequence: int
) -> int | Refusal:
    version = _version(entries, name)
    if meta.HasField("expected_version"):
        refusal = version_mismatch(kind, name, meta.expected_version, version)
        if refusal is not None:
            return refusal
    before = entries.get(name)
    since = before.since if before and before.value == value else sequence
    entries[name] = Entry(value, version + 1, sequence, since)
    return version + 1
