"""The catalogue: clusters, schemas, streams, reference tables, secrets, sinks; teams, service accounts, and
who may read a stream. Each whole and with its version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar, get_args

from daggers.v1 import access_pb2, events_pb2, spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message

from fleet.fold.answers import Refusal, version_mismatch

Registration: TypeAlias = (
    events_pb2.ClusterRegistered
    | events_pb2.SchemaRegistered
    | events_pb2.StreamRegistered
    | events_pb2.ReferenceRegistered
    | events_pb2.SecretRegistered
    | events_pb2.SinkRegistered
)
REGISTRATIONS: Final[tuple[type[Message], ...]] = get_args(Registration)
Removal: TypeAlias = (
    events_pb2.ClusterRemoved
    | events_pb2.SchemaRemoved
    | events_pb2.StreamRemoved
    | events_pb2.ReferenceRemoved
    | events_pb2.TeamRemoved
    | events_pb2.ServiceAccountRevoked
    | events_pb2.SecretRemoved
    | events_pb2.SinkRemoved
    | events_pb2.DestinationReleased
)
REMOVALS: Final[Mapping[type[Message], str]] = {
    events_pb2.ClusterRemoved: "cluster",
    events_pb2.SchemaRemoved: "message",
    events_pb2.StreamRemoved: "stream",
    events_pb2.ReferenceRemoved: "reference",
    events_pb2.TeamRemoved: "team",
    events_pb2.ServiceAccountRevoked: "account",
    events_pb2.SecretRemoved: "secret",
    events_pb2.SinkRemoved: "sink",
    events_pb2.DestinationReleased: "destination",
}
"""Kind that each of them removes."""
T = TypeVar(
    "T",
    spec_pb2.Cluster,
    spec_pb2.Stream,
    spec_pb2.Schema,
    spec_pb2.ReferenceTable,
    spec_pb2.Secret,
    spec_pb2.RegisteredSink,
    access_pb2.Team,
    access_pb2.ServiceAccount,
    access_pb2.StreamGrant,
    access_pb2.Destination,
)


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """Registered object as it is now. The value must not be changed."""

    value: T
    version: int
    """Number of accepted registrations."""
    sequence: int
    """Sequence of the newest of them."""
    since: int = -1
    """Sequence of the registration that gave it this value: the same value again changes nothing."""


class Catalogue:
    """Registered objects by kind and name: schemas by the full name of each message, grants by that of the
    stream.
    """

    def __init__(self) -> None:
        self.clusters: dict[str, Entry[spec_pb2.Cluster]] = {}
        self.streams: dict[str, Entry[spec_pb2.Stream]] = {}
        self.messages: dict[str, Entry[spec_pb2.Schema]] = {}
        self.references: dict[str, Entry[spec_pb2.ReferenceTable]] = {}
        self.secrets: dict[str, Entry[spec_pb2.Secret]] = {}
        self.sinks: dict[str, Entry[spec_pb2.RegisteredSink]] = {}
        self.teams: dict[str, Entry[access_pb2.Team]] = {}
        """The platform's administrators are the members of the one without a name."""
        self.accounts: dict[str, Entry[access_pb2.ServiceAccount]] = {}
        self.grants: dict[str, Entry[access_pb2.StreamGrant]] = {}
        """They outlive their stream: one that is registered anew is as restricted as the one before."""
        self.destinations: dict[str, Entry[access_pb2.Destination]] = {}
        """Destinations that have an owner (`fleet.fold.ownership`)."""
        self.writers: dict[str, tuple[int, ...]] = {}
        """Sequences of the requests whose rows may be in a destination, the oldest first; ELSEWHERE in front
        where there were more.
        """
        self.joined: dict[str, dict[str, datetime]] = {}
        """Time when each topic joined a stream, by stream."""
        self.removed: dict[str, dict[str, int]] = {kind: {} for kind in REMOVALS.values()}
        """The version that each free name had when it was removed, by kind."""

    def entries(self, kind: str) -> dict[str, Entry[Any]]:
        """Return the registered objects of a kind by name."""
        by_kind: dict[str, dict[str, Entry[Any]]] = {
            "cluster": self.clusters,
            "message": self.messages,
            "stream": self.streams,
            "reference": self.references,
            "secret": self.secrets,
            "sink": self.sinks,
            "team": self.teams,
            "account": self.accounts,
            "grant": self.grants,
            "destination": self.destinations,
        }
        return by_kind[kind]

    def register(self, event: Registration, sequence: int, time: datetime) -> int | Refusal:
        """Apply a registration at `time`; return its version, or why it is refused."""
        match event:
            case events_pb2.ClusterRegistered(cluster=cluster, meta=meta):
                return self._put("cluster", cluster.name, cluster, meta, sequence)
            case events_pb2.ReferenceRegistered(reference=table, meta=meta):
                return self._put("reference", table.name, table, meta, sequence)
            case events_pb2.SecretRegistered(secret=secret, meta=meta):
                return self._put("secret", secret.name, secret, meta, sequence)
            case events_pb2.SinkRegistered(sink=sink, meta=meta):
                return self._put("sink", sink.name, sink, meta, sequence)
            case events_pb2.StreamRegistered():
                return self._register_stream(event, sequence, time)
            case events_pb2.SchemaRegistered():
                return self._register_schema(event, sequence)

    def _register_stream(
        self, event: events_pb2.StreamRegistered, sequence: int, time: datetime
    ) -> int | Refusal:
        name = event.stream.name
        answer = self._put("stream", name, event.stream, event.meta, sequence)
        if not isinstance(answer, Refusal):
            before = self.joined.get(name, {})
            self.joined[name] = {topic: before.get(topic, time) for topic in event.stream.topics}
        return answer

    def _register_schema(self, event: events_pb2.SchemaRegistered, sequence: int) -> int | Refusal:
        """Register a schema under every message that it defines, all or none; return the highest version."""
        names = list(event.schema.messages)
        if event.meta.HasField("expected_version"):
            for name in names:
                refusal = version_mismatch(
                    "message", name, event.meta.expected_version, self.version("message", name)
                )
                if refusal is not None:
                    return refusal
        newest = 0
        for name in names:
            version = self._next("message", name)
            self.messages[name] = Entry(event.schema, version, sequence)
            newest = max(newest, version)
        return newest

    def version(self, kind: str, name: str) -> int:
        """Return the version of a registered object; 0 for what is not registered."""
        entry = self.entries(kind).get(name)
        return entry.version if entry else 0

    def remove(self, kind: str, name: str, sequence: int) -> int:
        """Remove a registered object, an account also from teams and grants; return the version it had."""
        version = self.entries(kind).pop(name).version
        self.removed[kind][name] = version
        if kind == "stream":
            self.joined.pop(name, None)
        if kind == "destination":
            self.writers.pop(name, None)
        if kind == "account":
            self._remove_principal(f"account:{name}", sequence)
        return version

    def _remove_principal(self, principal: str, sequence: int) -> None:
        """Remove a principal from all teams, and from those who may read sensitive fields."""
        for name, entry in list(self.teams.items()):
            stay = [member for member in entry.value.members if member.principal != principal]
            if len(stay) != len(entry.value.members):
                team = access_pb2.Team()
                team.CopyFrom(entry.value)
                del team.members[:]
                team.members.extend(stay)
                self.put("team", name, team, sequence)
        for name, granted in list(self.grants.items()):
            if principal in granted.value.read_sensitive:
                grant = access_pb2.StreamGrant()
                grant.CopyFrom(granted.value)
                grant.read_sensitive.remove(principal)
                self.put("grant", name, grant, sequence)

    def _next(self, kind: str, name: str) -> int:
        """Return the version of the next registration. A removed name counts on: no old version comes
        again.
        """
        free = self.removed.get(kind, {})
        return (self.version(kind, name) or free.pop(name, 0)) + 1

    def _put(
        self, kind: str, name: str, value: Any, meta: events_pb2.RequestMeta, sequence: int
    ) -> int | Refusal:
        if meta.HasField("expected_version"):
            refusal = version_mismatch(kind, name, meta.expected_version, self.version(kind, name))
            if refusal is not None:
                return refusal
        return self.put(kind, name, value, sequence)

    def put(self, kind: str, name: str, value: Any, sequence: int) -> int:
        """Register a value under a name; return its version."""
        before = self.entries(kind).get(name)
        since = before.since if before and before.value == value else sequence
        version = self._next(kind, name)
        self.entries(kind)[name] = Entry(value, version, sequence, since)
        return version


def registered_name(event: Registration) -> str | None:
    """Return the name of what an event registers: of a schema its first message; None when it has none."""
    match event:
        case events_pb2.ClusterRegistered(cluster=cluster):
            return cluster.name
        case events_pb2.ReferenceRegistered(reference=table):
            return table.name
        case events_pb2.StreamRegistered(stream=stream):
            return stream.name
        case events_pb2.SecretRegistered(secret=secret):
            return secret.name
        case events_pb2.SinkRegistered(sink=sink):
            return sink.name
        case events_pb2.SchemaRegistered(schema=schema):
            return next(iter(schema.messages), None)


def closure(files: FileDescriptorSet, roots: Iterable[str]) -> list[FileDescriptorProto]:
    """Return the files named by `roots` and all they import, each after what it imports.

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
    """Return the name of the file that defines a message (fully-qualified, nested ones too); None when none
    does.
    """
    for file in files.file:
        prefix = f"{file.package}." if file.package else ""
        if not message.startswith(prefix):
            continue
        types = file.message_type
        definition = None
        for part in message[len(prefix) :].split("."):
            definition = next((type_ for type_ in types if type_.name == part), None)
            if definition is None:
                break
            types = definition.nested_type
        if definition is not None:
            return file.name
    return None
