"""The fold as rows. Pure and deterministic: the same log gives the same bytes, however it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from daggers.v1 import gateway_pb2
from google.protobuf.message import Message
from sqlmodel import SQLModel

from api_gateway.fold import Touched
from api_gateway.tables import (
    AnswerRow,
    ClusterRow,
    DaggerRow,
    MessageRow,
    ReferenceRow,
    SchemaRow,
    StreamRow,
)
from fleet import Fleet, view
from fleet.phases import DELETED

Row: TypeAlias = dict[str, Any]
"""Values by column. Not the tables' own objects: making one of those costs more than writing the row."""


@dataclass(frozen=True, slots=True)
class Change:
    """What to write, in one transaction."""

    everything: bool
    """Whether the tables hold nothing else afterwards."""
    rows: Mapping[type[SQLModel], list[Row]]
    """New content, for each table, by key."""
    gone: tuple[str, ...]
    """Daggers that are no more."""


def change(fleet: Fleet, touched: Touched) -> Change:
    """The rows of everything touched, as the fold has them now."""
    if touched.everything:
        touched = Touched(
            everything=True,
            daggers=set(fleet.daggers),
            clusters=set(fleet.clusters),
            streams=set(fleet.streams),
            references=set(fleet.references),
            schemas={entry.sequence for entry in fleet.messages.values()},
            answers=set(fleet.answers),
        )
    daggers = [name for name in sorted(touched.daggers) if name in fleet.daggers]
    gone = tuple(name for name in daggers if fleet.daggers[name].phase == DELETED)
    rows: dict[type[SQLModel], list[Row]] = {
        DaggerRow: [_dagger(fleet, name) for name in daggers if name not in gone],
        ClusterRow: [_cluster(fleet, name) for name in sorted(touched.clusters)],
        StreamRow: [_stream(fleet, name) for name in sorted(touched.streams)],
        ReferenceRow: [_reference(fleet, name) for name in sorted(touched.references)],
        AnswerRow: [_answer(fleet, request_id) for request_id in sorted(touched.answers)],
        **_schemas(fleet, touched.schemas),
    }
    return Change(touched.everything, rows, gone)


def _dagger(fleet: Fleet, name: str) -> Row:
    dagger = fleet.daggers[name]
    shown = view.to_proto(dagger, fleet)
    return {
        "name": name,
        "team": dagger.spec.team,
        "cluster": dagger.spec.cluster,
        "phase": gateway_pb2.Phase.Name(shown.phase),
        "version": dagger.version,
        "sequence": dagger.sequence,
        "data": _bytes(shown),
    }


def _cluster(fleet: Fleet, name: str) -> Row:
    entry = fleet.clusters[name]
    return {"name": name, "version": entry.version, "sequence": entry.sequence, "data": _bytes(entry.value)}


def _stream(fleet: Fleet, name: str) -> Row:
    entry = fleet.streams[name]
    return {
        "name": name,
        "message": entry.value.message,
        "version": entry.version,
        "sequence": entry.sequence,
        "data": _bytes(entry.value),
    }


def _reference(fleet: Fleet, name: str) -> Row:
    entry = fleet.references[name]
    return {"name": name, "version": entry.version, "sequence": entry.sequence, "data": _bytes(entry.value)}


def _schemas(fleet: Fleet, sequences: Iterable[int]) -> dict[type[SQLModel], list[Row]]:
    wanted = set(sequences)
    names = (name for name, entry in fleet.messages.items() if entry.sequence in wanted)
    found = {name: fleet.messages[name] for name in sorted(names)}
    files = {entry.sequence: entry.value for entry in found.values()}
    return {
        MessageRow: [
            {"name": name, "version": entry.version, "sequence": entry.sequence}
            for name, entry in found.items()
        ],
        SchemaRow: [{"sequence": at, "data": _bytes(schema)} for at, schema in sorted(files.items())],
    }


def _answer(fleet: Fleet, request_id: str) -> Row:
    answer = fleet.answers[request_id]
    refusal = answer.refusal
    return {
        "request_id": request_id,
        "sequence": answer.sequence,
        "digest": answer.digest,
        "version": answer.version,
        "code": refusal.code if refusal else "",
        "reason": refusal.reason if refusal else "",
        "detail": refusal.detail if refusal else "",
    }


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)
