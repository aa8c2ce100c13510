"""Decisions about removals of what is registered, and about daggers that name what was removed. Pure.

A specification names a cluster, a stream, a message or a team in a field of that name, wherever it stands; so
does every kind of sink. Secrets and registered sinks are named in the fields that `_FIELDS` says. Reference
tables stand in queries, as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from daggers.v1 import events_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from daggerspec import query
from daggerspec.protobuf import is_map
from fleet.fold.answers import Code, Refusal, about, describe_object, missing, some, version_mismatch
from fleet.fold.catalogue import REMOVALS, Catalogue, Removal
from fleet.fold.dagger import Dagger
from fleet.fold.phases import DELETED

_SHOWN = 10
_NAMED = ("cluster", "stream", "message", "sink", "secret")
"""Kinds of what a request with `all_registered` names; refused in this order."""
_USERS: Final = ("stream", "dagger", "account", "cluster", "sink", "secret", "destination")
"""Kinds that can use what is to be removed; listed in this order."""
_FIELDS: Final = {
    "daggers.v1.SecretRef.name": "secret",
    "daggers.v1.Sink.registered": "sink",
    "daggers.v1.RegisteredSink.teams": "team",
    "daggers.v1.GrpcSink.response": "message",
}
"""The fields that name what they are not called after."""


def decide(catalogue: Catalogue, daggers: Mapping[str, Dagger], event: Removal) -> Refusal | None:
    """Refuse a removal of what is missing, changed or in use; return None to accept it."""
    kind, name, meta = REMOVALS[type(event)], event.name, event.meta
    version = catalogue.version(kind, name)
    if not version or not name:  # what has no name is the platform, which stays
        return missing(kind, name)
    if meta.HasField("expected_version"):
        refusal = version_mismatch(kind, name, meta.expected_version, version)
        if refusal is not None:
            return refusal
    using = {user: sorted(_using(catalogue, daggers, user, kind, name)) for user in _USERS if user != kind}
    users = [f"{user} {name}" for user, names in using.items() for name in names]
    if not users:
        return None
    return Refusal(
        Code.FAILED_PRECONDITION,
        "IN_USE",
        f"{describe_object(kind, name)} is used by {some(users, _SHOWN)}:"
        " delete or change what uses it first",
        # The fold keeps it: as much as a person reads, and no list of a thousand names.
        {
            **about(kind, name),
            "count": str(len(users)),
            **{f"{user}s": ",".join(names[:_SHOWN]) for user, names in using.items() if names},
        },
    )


def _using(
    catalogue: Catalogue, daggers: Mapping[str, Dagger], user: str, kind: str, name: str
) -> Iterator[str]:
    """Yield the names of those of a kind, `user`, that use what is to be removed."""
    if user == "dagger":
        yield from (dagger.name for dagger in naming(daggers, kind, name))
        return
    entries = catalogue.entries(user).items()
    yield from (user for user, entry in entries if name in names_of(entry.value, kind))


def naming(daggers: Mapping[str, Dagger], kind: str, name: str) -> Iterator[Dagger]:
    """Yield the daggers, stopped ones too, that name something registered."""
    return (dagger for dagger in daggers.values() if dagger.phase != DELETED and _uses(dagger, kind, name))


def refuse_unregistered(catalogue: Catalogue, event: events_pb2.DaggerRequested) -> Refusal | None:
    """Refuse a dagger that names something which was removed after the gateway had validated the request.

    Of a request that does not say that all of it was registered nothing is known: it may be an old one.
    """
    if not event.all_registered:
        return None
    gone = [name for name in _find_names(event.spec, _NAMED) if not catalogue.version(*name)]
    if not gone:
        return None
    kind, name = min(gone, key=lambda reference: _NAMED.index(reference[0]))
    text = f"{describe_object(kind, name)} was removed a moment ago: register it, or name another"
    return Refusal(Code.FAILED_PRECONDITION, f"UNKNOWN_{kind.upper()}", text, about(kind, name))


def names_of(message: Message, kind: str) -> Iterator[str]:
    """Yield the names of a kind that stand in a message, and in its submessages."""
    return (name for _, name in _find_names(message, (kind,)))


def _find_names(message: Message, kinds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Kind and name of what is named, of these kinds, in a message and in those it holds."""
    leading = _leading(message.DESCRIPTOR, kinds)
    for field, value in message.ListFields():
        kind = leading.get(field.number)
        if kind is not None:
            values = value.values() if _is_map(field) else value if field.is_repeated else (value,)
            for entry in values:
                if kind:
                    yield kind, entry
                else:
                    yield from _find_names(entry, kinds)


@cache  # the fold asks at every request
def _leading(message: Descriptor, kinds: tuple[str, ...]) -> Mapping[int, str]:
    """Return the fields of a message that name one of these kinds, and which, by number; and those that lead
    to one that does, with an empty kind.
    """
    return {
        field.number: "" if field.message_type else _kind(field)
        for field in message.fields
        if _leads(field, kinds, ())
    }


def _leads(field: FieldDescriptor, kinds: tuple[str, ...], above: tuple[Descriptor, ...]) -> bool:
    submessage = field.message_type
    if submessage is None:
        return field.type == FieldDescriptor.TYPE_STRING and _kind(field) in kinds
    if submessage in above:
        return False
    return any(_leads(field_, kinds, (*above, submessage)) for field_ in submessage.fields)


_is_map: Final = cache(is_map)  # options are read from bytes each time


def _kind(field: FieldDescriptor) -> str:
    """Return the kind that a field names."""
    return _FIELDS.get(field.full_name, field.name)


def _uses(dagger: Dagger, kind: str, name: str) -> bool:
    if kind == "reference":
        return name in query.find_tables(dagger.spec, [name])
    if kind == "destination":
        return name in dagger.destinations
    return name in names_of(dagger.spec, kind)
