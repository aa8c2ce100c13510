"""Convert the fold to rows. Pure and deterministic: the same log gives the same bytes, in whatever steps it
is read.
"""

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
from fleet.snapshot.entries import ChangeSet, EntryChanges

Row: TypeAlias = dict[str, Any]
"""Values by column. No objects of the tables' classes: building one costs more than writing the row."""


@dataclass(frozen=True, slots=True)
class Change:
    """Rows to write in one transaction."""

    applied: LogPosition
    """Position of the log that the tables hold afterwards."""
    anchors: tuple[LogPosition, ...]
    """Anchors of the fold: see `Fold.anchors`."""
    snapshot: EntryChanges
    """Entries of the snapshot to write and to remove, and whether they replace all others."""
    daggers: list[Row]
    """New rows of the daggers' table, by name."""
    deleted: list[str]
    """Names of daggers whose rows are to be removed."""


def build_change(fold: Fold, changes: ChangeSet) -> Change:
    """Build the rows of all changed daggers at the fold's present state."""
    fleet, every = fold.fleet, changes.everything
    # A dagger's row has the addresses of its clusters and registered sinks, and the versions of streams
    # that its drivers do not use yet: a change of any of these may change any row.
    catalogue = changes.clusters or changes.streams or changes.sinks
    affected = fleet.daggers if every or catalogue else changes.daggers
    daggers = [name for name in sorted(affected) if name in fleet.daggers]
    living = [name for name in daggers if fleet.daggers[name].phase != DELETED]

    deleted = [name for name in daggers if fleet.daggers[name].phase == DELETED]
    rows = [_dagger_row(fleet, name) for name in living]
    return Change(fleet.position, fold.anchors, fold.list_changes(changes), rows, deleted)


def _dagger_row(fleet: Fleet, name: str) -> Row:
    dagger = fleet.daggers[name]
    message = view.to_proto(dagger, fleet)
    return {
        "name": name,
        "team": dagger.spec.team,
        "cluster": dagger.spec.cluster,
        "phase": gateway_pb2.Phase.Name(message.phase),
        "text": " ".join(_search_texts(dagger, fleet)).lower(),
        "version": dagger.version,
        "sequence": dagger.sequence,
        "data": _bytes(message),
    }


def _search_texts(dagger: Dagger, fleet: Fleet) -> Iterator[str]:
    """Yield the texts that people search a dagger by: its authors, streams, topics and sinks."""
    yield from (dagger.creator, dagger.updater)
    for read in dagger.spec.streams:
        yield read.stream
        if (entry := fleet.streams.get(read.stream)) is not None:
            yield from entry.value.topics
    for sink in dagger.spec.sinks:
        yield sink.WhichOneof("kind") or ""
        yield from _strings(sink)


def _strings(message: Message) -> Iterator[str]:
    """Yield the texts in a message, except references to secrets, and maps, which have constant values of
    rows.
    """
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
