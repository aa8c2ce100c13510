"""A fleet as entries, and a fleet from them: the state that a start folds on from, wherever it is stored.
Pure.

An entry is a part of the state under a key: KIND/NAME, or KIND/SEQUENCE for a block of what is remembered in
the order of the log. The entries are a function of the log: the same records give the same keys and bytes,
whether all are made at once or only those that changed. They are for the code that wrote them: whoever stores
entries stores the code's digest beside them, and reads no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Any, Final, TypeAlias, TypeVar

from daggers.v1 import events_pb2, state_pb2
from google.protobuf.message import DecodeError, Message

from eventlog import LogPosition, Record
from fleet.fold import cordons, tenancy
from fleet.fold.catalogue import REGISTRATIONS, REMOVALS, Entry
from fleet.fold.fleet import ApplyResult, Fleet, is_of_dagger
from fleet.fold.horizon import STANDARD, Horizon
from fleet.snapshot import encoding

Range: TypeAlias = tuple[str, str]
"""The keys from the first on, to before the second; in the order of their bytes."""
T = TypeVar("T")


_CATALOGUE: Final = {
    "clusters": "cluster",
    "streams": "stream",
    "references": "reference",
    "destinations": "destination",
}
_TENANCY: Final = {"teams": "team", "accounts": "account", "grants": "grant"}
_SINKS: Final = {"secrets": "secret", "sinks": "sink"}
"""Kinds that change seldom, and are written whole when they do."""


class Unusable(ValueError):  # noqa: N818 - reads as what is wrong
    """These are no entries of a state. One clause that says why."""


@dataclass(slots=True)
class ChangeSet:
    """Parts of the state that changed behind the sequence `since`; a new set: everything."""

    everything: bool = True
    since: int = -1
    daggers: set[str] = field(default_factory=set)
    clusters: set[str] = field(default_factory=set)
    streams: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)
    destinations: set[str] = field(default_factory=set)
    schemas: bool = False
    tenancy: bool = False
    sinks: bool = False
    """Registered sinks, and secrets."""
    removed: bool = False
    claims: bool = False
    hosts: bool = False

    def add(self, record: Record, applied: ApplyResult) -> None:
        """Add what a record changed."""
        if not applied.changed:
            return
        kind = type(record.message)
        # A registration may take up a name that was removed.
        self.removed |= kind in _OF_CATALOGUE
        if isinstance(record.message, events_pb2.DaggerRequested):
            self.destinations.update(record.message.destinations)
        self.hosts |= kind in cordons.MOVES
        part = _PARTS.get(kind, "daggers")
        if part in _BY_NAME:
            getattr(self, part).add(applied.subject)
        else:
            setattr(self, part, True)


_BY_NAME: Final = frozenset({"daggers", *_CATALOGUE})
"""Parts of a change set that name which of them changed."""
_OF_CATALOGUE: Final = frozenset({*REGISTRATIONS, *REMOVALS, *tenancy.CHANGES})
_PARTS: Final[Mapping[type[Any], str]] = {
    **dict.fromkeys(tenancy.CHANGES, "tenancy"),
    events_pb2.DestinationGiven: "destinations",
    events_pb2.DestinationReleased: "destinations",
    events_pb2.TeamRemoved: "tenancy",
    events_pb2.ServiceAccountRevoked: "tenancy",
    events_pb2.ClusterRegistered: "clusters",
    events_pb2.ClusterRemoved: "clusters",
    events_pb2.StreamRegistered: "streams",
    events_pb2.StreamRemoved: "streams",
    events_pb2.ReferenceRegistered: "references",
    events_pb2.ReferenceRemoved: "references",
    events_pb2.SchemaRegistered: "schemas",
    events_pb2.SchemaRemoved: "schemas",
    events_pb2.SecretRegistered: "sinks",
    events_pb2.SecretRemoved: "sinks",
    events_pb2.SinkRegistered: "sinks",
    events_pb2.SinkRemoved: "sinks",
    events_pb2.SchedulerStarted: "claims",
    events_pb2.HostServing: "hosts",
    events_pb2.HostRegistered: "hosts",
    events_pb2.HostLacksChanged: "hosts",
    events_pb2.HostGone: "hosts",
    **dict.fromkeys(cordons.CHANGES, "hosts"),
}
"""Part that each event changes; any other event changes a dagger."""


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """Changes that turn the entries of an earlier state into those of a later one."""

    everything: bool
    """True when no other entry stays."""
    gone: tuple[Range, ...]
    """Ranges of keys to remove, before `entries` are put."""
    entries: encoding.Entries
    """Entries to put."""


def encode_changes(fleet: Fleet, changes: ChangeSet) -> EntryChanges:
    """Encode the parts in a change set, as the fleet has them now."""
    every, since = changes.everything, -1 if changes.everything else changes.since
    entries: encoding.Entries = {}
    gone = list(forgotten_blocks(fleet, since, "answers", "facts"))
    for name in sorted(fleet.daggers if every else changes.daggers & fleet.daggers.keys()):
        entries[f"daggers/{name}"] = encoding.to_bytes(encoding.dagger_state(fleet.daggers[name]))
    for kind, value in _CATALOGUE.items():
        values: Mapping[str, Entry[Any]] = fleet.catalogue.entries(value)
        for name in sorted(values if every else getattr(changes, kind)):
            key = f"{kind}/{name}"
            if name not in values:
                gone.append((key, f"{key} "))  # no name goes on with a space, or with what sorts before it
                continue
            joined = fleet.joined.get(name, {}) if kind == "streams" else {}
            writers = fleet.catalogue.writers.get(name, ()) if kind == "destinations" else ()
            entries[key] = encoding.to_bytes(encoding.entry_state(value, values[name], joined, writers))
    if every or changes.schemas:
        gone.append(("schemas/", "schemas0"))  # 0 comes behind /
        entries |= encoding.schemas(fleet)
    for kinds, are_changed in ((_TENANCY, changes.tenancy), (_SINKS, changes.sinks)):
        if every or are_changed:
            gone += [(f"{kind}/", f"{kind}0") for kind in kinds]
            for kind, value in kinds.items():
                values = fleet.catalogue.entries(value)
                entries |= {
                    f"{kind}/{name}": encoding.to_bytes(encoding.entry_state(value, values[name], {}))
                    for name in sorted(values)
                }
    if every or changes.removed:
        gone.append(("removed/", "removed0"))
        entries |= encoding.encode_removed(fleet)
    if every or changes.claims:
        entries["claims/"] = encoding.to_bytes(encoding.claims(fleet))
    if every or changes.hosts:
        entries["hosts/"] = encoding.to_bytes(encoding.hosts(fleet))
    answers = (
        (answer.sequence, encoding.answer_state(id_, answer))
        for id_, answer in reversed(fleet.answers.items())
    )
    unreadable = (
        (record.sequence, encoding.unreadable_state(record)) for record in reversed(fleet.unreadable)
    )
    facts = ((sequence, (sequence, id_)) for id_, sequence in reversed(fleet.facts.items()))
    entries |= blocks(fleet, since, "answers", answers, lambda some: state_pb2.Answers(answers=some))
    entries |= blocks(fleet, since, "facts", facts, encoding.texts)
    entries |= blocks(
        fleet, since, "unreadable", unreadable, lambda some: state_pb2.UnreadableRecords(records=some)
    )
    return EntryChanges(every, tuple(gone), entries)


def restore_fleet(position: LogPosition, entries: Mapping[str, bytes], horizon: Horizon = STANDARD) -> Fleet:
    """Restore the fleet of these entries, at the position they were made at. Raises: Unusable.

    encoding.Entries of other kinds are left alone: whoever keeps more than a fleet has kinds of its own.
    """
    fleet = Fleet(horizon)
    fleet.sequence, fleet.history = position.sequence, position.history
    for key in sorted(entries):
        reader = encoding.READERS.get(key.partition("/")[0])
        if reader is not None:
            try:
                reader(fleet, entries[key])
            except (DecodeError, ValueError, AttributeError) as error:
                raise Unusable(f"its entry {key} cannot be read") from error
    fleet.leader = fleet.claims[max(fleet.claims)] if fleet.claims else None
    fleet.unreadable_daggers = {
        record.subject for record in fleet.unreadable if record.subject and is_of_dagger(record.type)
    }
    return fleet


# ---- What is remembered in the order of the log: by blocks -------------------------------------------------


def blocks(
    fleet: Fleet,
    since: int,
    kind: str,
    newest_first: Iterable[tuple[int, T]],
    message: Callable[[list[T]], Message],
) -> encoding.Entries:
    """Return the blocks that changed behind the sequence `since`. newest_first: records with their
    sequences.
    """
    block_of = fleet.horizon.block_of
    first = block_of(since + 1)
    newest = list(takewhile(lambda record: record[0] >= first, newest_first))[::-1]
    return {
        encoding.block_key(kind, start): encoding.to_bytes(message([record for _, record in some]))
        for start, some in groupby(newest, lambda record: block_of(record[0]))
    }


def forgotten_blocks(fleet: Fleet, since: int, *kinds: str) -> tuple[Range, ...]:
    """Return the ranges of blocks that are behind the horizon now, and were not at `since`."""
    before = fleet.horizon.since(fleet.sequence)
    if before == fleet.horizon.since(since):
        return ()
    return tuple((f"{kind}/", encoding.block_key(kind, before)) for kind in kinds)
