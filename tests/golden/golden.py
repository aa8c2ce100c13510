"""Reads the golden history: records, and what they fold to, as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from daggers.v1 import gateway_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError, Message

from eventlog import Record
from eventlog.record import MESSAGES
from fleet import ApplyResult, Fleet
from fleet.fold.view import to_proto

FOLDER = Path(__file__).parent
HISTORY = FOLDER / "history.json"
STATE = FOLDER / "state.json"


def history(file: Path = HISTORY) -> list[dict[str, Any]]:
    """The records as they stand in the file."""
    entries: list[dict[str, Any]] = json.loads(file.read_text())
    return entries


def message_of(entry: dict[str, Any]) -> Message | None:
    """The message an entry holds for people; None for one that nobody can read."""
    kind = MESSAGES.get(entry["type"])
    return None if kind is None or entry["message"] is None else ParseDict(entry["message"], kind())


def decoded(entry: dict[str, Any]) -> Message | None:
    """The message that an entry's bytes decode to today."""
    kind = MESSAGES.get(entry["type"])
    if kind is None:
        return None
    try:
        return kind.FromString(bytes.fromhex(entry["value"]))
    except DecodeError:
        return None


def records(entries: list[dict[str, Any]]) -> Iterator[Record]:
    """The records of a topic that holds these entries."""
    for sequence, entry in enumerate(entries):
        yield Record(
            sequence=sequence,
            id=entry["id"],
            source="/golden",
            subject=entry["subject"],
            time=datetime.fromisoformat(entry["time"]),
            type=entry["type"],
            message=decoded(entry),
            value=bytes.fromhex(entry["value"]),
        )


def said(fleet: Fleet, applied: ApplyResult) -> dict[str, Any]:
    """What the fold said of a record, as `then`."""
    if applied.refused:
        refusal = applied.answer.refusal if applied.answer else None
        return {"refused": applied.refused} | (
            {"code": f"{refusal.code}/{refusal.reason}"} if refusal else {}
        )
    dagger = fleet.daggers.get(applied.subject)
    if dagger is None:
        if applied.answer:
            return {"version": applied.answer.version}
        return {"epoch": fleet.sequence} if fleet.sequence in fleet.claims else {"hosts": sorted(fleet.hosts)}
    then = {
        "phase": gateway_pb2.Phase.Name(dagger.phase),
        "desired": gateway_pb2.Desired.Name(dagger.desired),
        "version": dagger.version,
        "generation": dagger.generation,
        "observed": [dagger.observed_version, dagger.observed_generation],
        "attempt": dagger.attempt,
        "driver": dagger.driver is not None,
    }
    return then | ({"error": dagger.last_error.reason} if dagger.last_error else {})


def state(fleet: Fleet) -> dict[str, Any]:
    """The whole state of a fold as plain JSON."""
    shown = {name: MessageToDict(to_proto(dagger, fleet)) for name, dagger in sorted(fleet.daggers.items())}
    catalogue = {
        kind: {name: [entry.version, entry.sequence] for name, entry in sorted(entries.items())}
        for kind, entries in (
            ("clusters", fleet.clusters),
            ("streams", fleet.streams),
            ("messages", fleet.messages),
            ("references", fleet.references),
            ("secrets", fleet.catalogue.secrets),
            ("sinks", fleet.catalogue.sinks),
            ("teams", fleet.catalogue.teams),
            ("accounts", fleet.catalogue.accounts),
            ("grants", fleet.catalogue.grants),
        )
    }
    catalogue["removed"] = {kind: names for kind, names in sorted(fleet.catalogue.removed.items()) if names}
    answers = {
        id_: f"{answer.refusal.code}/{answer.refusal.reason}" if answer.refusal else answer.version
        for id_, answer in fleet.answers.items()
    }
    leader = fleet.leader
    return {
        "sequence": fleet.sequence,
        "leader": None if leader is None else [leader.epoch, leader.scheduler_id, leader.host],
        "hosts": {
            host: [[endpoint.address, endpoint.tls, endpoint.scheduler_id] for endpoint in endpoints]
            for host, endpoints in sorted(fleet.hosts.items())
        },
        "standings": {
            host: [standing.epoch, standing.loss.sequence if standing.loss else None, standing.is_gone]
            for host, standing in sorted(fleet.standings.items())
        },
        "daggers": shown,
        "catalogue": catalogue,
        "answers": answers,
        "unreadable": [[record.sequence, record.subject, record.digest.hex()] for record in fleet.unreadable],
        "unreadable_daggers": sorted(fleet.unreadable_daggers),
    }
