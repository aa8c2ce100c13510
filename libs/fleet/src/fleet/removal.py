"""Whether something registered may be removed: it is there, and nothing uses it; who names it later. Pure.

A specification names a cluster, a stream, a message or a team in a field of that name, wherever it stands; so
does every kind of sink. Reference tables stand in queries, as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from daggers.v1 import events_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from fleet.answers import Code, Refusal, about, missing, version_mismatch, worded
from fleet.catalogue import REMOVALS, Catalogue, Removal
from fleet.dagger import Dagger
from fleet.phases import DELETED

_SHOWN = 10
_NAMED = ("cluster", "stream", "message")
"""What a request that says so names of what is registered; told of in this order."""


def decide(catalogue: Catalogue, daggers: Mapping[str, Dagger], event: Removal) -> Refusal | None:
    """Why something is not removed; None when it may be."""
    kind, name, meta = REMOVALS[type(event)], event.name, event.meta
    version = catalogue.version(kind, name)
    if not version or not name:  # what has no name is the platform, which stays
        return missing(kind, name)
    if meta.HasField("expected_version"):
        refusal = version_mismatch(kind, name, meta.expected_version, version)
        if refusal is not None:
            return refusal
    streams = sorted(each for each, entry in catalogue.streams.items() if name in names_of(entry.value, kind))
    living = sorted(
        each for each, dagger in daggers.items() if dagger.phase != DELETED and _uses(dagger, kind, name)
    )
    accounts = sorted(
        each for each, entry in catalogue.accounts.items() if name in names_of(entry.value, kind)
    )
    users = [
        *(f"stream {each}" for each in streams),
        *(f"dagger {each}" for each in living),
        *(f"account {each}" for each in accounts),
    ]
    if not users:
        return None
    users_of = {
        "streams": ",".join(streams[:_SHOWN]),
        "daggers": ",".join(living[:_SHOWN]),
        "accounts": ",".join(accounts[:_SHOWN]),
    }
    return Refusal(
        Code.FAILED_PRECONDITION,
        "IN_USE",
        f"{worded(kind, name)} is used by {_list(users)}: delete or change what uses it first",
        # The fold keeps it: as much as a person reads, and no list of a thousand names.
        {
            **about(kind, name),
            "count": str(len(users)),
            **{key: each for key, each in users_of.items() if each},
        },
    )


def unregistered(catalogue: Catalogue, event: events_pb2.DaggerRequested) -> Refusal | None:
    """Why a dagger is not to be what it asks for: something that it names was removed a moment before.

    Of a request that does not say that all of it was registered nothing is known: it may be an old one.
    """
    if not event.all_registered:
        return None
    gone = [each for each in _named(event.spec, _NAMED) if not catalogue.version(*each)]
    if not gone:
        return None
    kind, name = min(gone, key=lambda each: _NAMED.index(each[0]))
    text = f"{worded(kind, name)} was removed a moment ago: register it, or name another"
    return Refusal(Code.FAILED_PRECONDITION, f"UNKNOWN_{kind.upper()}", text, about(kind, name))


def names_of(message: Message, kind: str) -> Iterator[str]:
    """The texts of fields with this name, in a message and in those it holds."""
    return (name for _, name in _named(message, (kind,)))


def _named(message: Message, kinds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Name and text of each field with one of these names, in a message and in those it holds."""
    leading = _leading(message.DESCRIPTOR, kinds)
    for field, value in message.ListFields():
        if field.number in leading:
            for each in value if field.is_repeated else (value,):
                if isinstance(each, str):
                    yield field.name, each
                else:
                    yield from _named(each, kinds)


@cache  # the fold asks at every request
def _leading(message: Descriptor, kinds: tuple[str, ...]) -> frozenset[int]:
    """The numbers of a message's fields that have one of these names, or lead to one that has."""
    return frozenset(field.number for field in message.fields if _leads(field, kinds, ()))


def _leads(field: FieldDescriptor, kinds: tuple[str, ...], above: tuple[Descriptor, ...]) -> bool:
    held = field.message_type
    if held is None:
        return field.type == FieldDescriptor.TYPE_STRING and field.name in kinds
    if held.GetOptions().map_entry or held in above:
        return False
    return any(_leads(each, kinds, (*above, held)) for each in held.fields)


def _uses(dagger: Dagger, kind: str, name: str) -> bool:
    if kind == "reference":
        # As a launch takes tables: whatever text of the query may be one.
        return f"'{name}'" in dagger.spec.sql
    return name in names_of(dagger.spec, kind)


def _list(users: list[str]) -> str:
    more = len(users) - _SHOWN
    return ", ".join(users[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
