"""The fold as rows. Pure and deterministic: the same log gives the same bytes, however it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf.message import Message

from api_gateway.state.fold import Fold
from daggerspec.protobuf import is_map
from eventlog import LogPosition
from fleet import Dagger, Fleet
from fleet.fold import view
from fleet.fold.phases import DELETED
from fleet.snapshot.entries import Changed, ChangeSet

Row: TypeAlias = dict[str, Any]
"""Values by column. Not the tables' own objects: making one of those costs more than writing the row."""


@dataclass(frozen=True, slots=True)
class Change:
    """What to write, in one transaction."""

    applied: LogPosition
    """What the tables hold afterwards."""
    anchors: tuple[LogPosition, ...]
    """As the fold has them."""
    snapshot: Changed
    """What changes of the snapshot, and whether the tables hold nothing else afterwards."""
    daggers: list[Row]
    """New content of their table, by name."""
    deleted: list[str]
    """Names of those that are no more."""


def change(fold: Fold, changes: ChangeSet) -> Change:
    """The rows of every dagger that changed, as the fold has it now."""
    fleet, every = fold.fleet, changes.everything
    # Daggers are shown with the addresses of their clusters and registered sinks, and with what their drivers
    # do not know of their streams yet.
    catalogue = changes.clusters or changes.streams or changes.sinks
    shown = fleet.daggers if every or catalogue else changes.daggers
    daggers = [name for name in sorted(shown) if name in fleet.daggers]
    living = [name for name in daggers if fleet.daggers[name].phase != DELETED]

    deleted = [name for name in daggers if fleet.daggers[name].phase == DELETED]
    rows = [_dagger(fleet, name) for name in living]
    return Change(fleet.position, fold.anchors, fold.changed(changes), rows, deleted)


def _dagger(fleet: Fleet, name: str) -> Row:
    dagger = fleet.daggers[name]
    shown = view.to_proto(dagger, fleet)
    return {
        "name": name,
        "team": dagger.spec.team,
        "cluster": dagger.spec.cluster,
        "phase": gateway_pb2.Phase.Name(shown.phase),
        "text": " ".join(_words(dagger, fleet)).lower(),
        "version": dagger.version,
        "sequence": dagger.sequence,
        "data": _bytes(shown),
    }


def _words(dagger: Dagger, fleet: Fleet) -> Iterator[str]:
    """Who made it, what it reads, where it writes."""
    yield from (dagger.creator, dagger.updater)
    for read in dagger.spec.streams:
        yield read.stream
        if (entry := fleet.streams.get(read.stream)) is not None:
            yield from entry.value.topics
    for sink in dagger.spec.sinks:
        yield sink.WhichOneof("kind") or ""
        yield from _strings(sink)


def _strings(message: Message) -> Iterator[str]:
    """The texts in a message; none of where a secret is, nor of maps, which have what is sent."""
    for field, value in message.ListFields():
        if is_map(field) or field.message_type is spec_pb2.SecretRef.DESCRIPTOR:
            continue
        for part in value if field.is_repeated else (value,):
            if isinstance(part, str):
                yield part
            elif isinstance(part, Message):
                yield from _strings(part)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)
