"""What stands in `daggers.quarantine` of one dagger, and what a replay means of it. Pure.

Records are taken in the order of their partition, to the end of the topic: what became of a record stands
behind it. Which ones are meant is a function of what was there when the replay was asked for, and of the
replays that had ended by then: every attempt of a replay means the same ones, whatever it has done so far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Final

from daggers.v1 import events_pb2, telemetry_pb2

from daggerspec.setaside import digest, id_of, set_ms

Outcome = telemetry_pb2.QuarantineOutcome
_PREFIX: Final = "QUARANTINE_OUTCOME_"
Place = tuple[int, int]
"""Partition and offset in `daggers.quarantine`."""


@dataclass(slots=True)
class Kept:
    """What is remembered of a record that was set aside: everything but what it holds."""

    id: str
    place: Place
    generation: int
    stage: str
    reason: str
    sink: str
    set_ms: int
    """When it was set aside, in ms since 1970."""
    is_open: bool = True
    is_discarded: bool = False
    """Then only a replay that writes it counts more."""
    attempts: int = 0
    """How often replays before this one failed with it."""


class History:
    """What one dagger has set aside, and what became of it."""

    def __init__(self, asked: events_pb2.QuarantineReplayRequested, sequence: int, created: int) -> None:
        """`sequence` is that of the request, `created` that of the dagger's creation."""
        self._asked, self._sequence, self._created = asked, sequence, created
        self.kept: dict[str, Kept] = {}
        """By id."""
        self.outcomes: dict[str, Outcome.ValueType] = {}
        """What this replay has said already, by id."""
        self.edits: dict[str, Place] = {}
        """Where it stands what is written in place of a record, by id."""

    def take(self, place: Place, kind: str, value: bytes, ce_id: str, kafka_ms: int) -> None:
        """Take in the next record of the dagger; `kind` is its ce_type, `kafka_ms` its Kafka timestamp.

        Raises: DecodeError.
        """
        match kind.rpartition(".")[2]:
            case "QuarantineResolved":
                self._resolved(telemetry_pb2.QuarantineResolved.FromString(value))
            case "QuarantineDiscarded":
                self._discarded(telemetry_pb2.QuarantineDiscarded.FromString(value))
            case "QuarantineEdited":
                self._edited(place, telemetry_pb2.QuarantineEdited.FromString(value))
            case "Quarantined":
                self._set_aside(place, telemetry_pb2.Quarantined.FromString(value), ce_id, kafka_ms)

    @property
    def meant(self) -> list[Kept]:
        """The records of this replay, in the order of the topic."""
        selected = _selected(self.kept.values(), self._asked.selection, self._asked.up_to)
        return sorted(selected, key=lambda record: record.place)

    def _set_aside(self, place: Place, record: telemetry_pb2.Quarantined, ce_id: str, kafka_ms: int) -> None:
        id_ = id_of(record, ce_id)
        known = self.kept.get(id_)
        is_later = known is not None and not _is_before(place, self._asked.up_to)
        if record.generation <= self._created or is_later:
            return
        stage, reason, sink = map(intern, (record.stage, record.reason, record.sink))  # few, of many
        kept = Kept(id_, place, record.generation, stage, reason, sink, set_ms(record, kafka_ms))
        if known is not None:  # it is there again, as it is listed: the last one
            kept.is_open, kept.is_discarded, kept.attempts = known.is_open, known.is_discarded, known.attempts
        self.kept[id_] = kept

    def _resolved(self, outcome: telemetry_pb2.QuarantineResolved) -> None:
        if outcome.replay_id == self._asked.replay_id:
            self.outcomes[outcome.id] = outcome.outcome
            return
        kept = self.kept.get(outcome.id)
        if kept is None or not self._created < outcome.sequence < self._sequence:
            return
        if outcome.outcome == telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED:
            kept.is_open = kept.is_discarded = False
        elif not kept.is_discarded:
            kept.is_open = True
        kept.attempts = max(kept.attempts, outcome.attempt)

    def _discarded(self, discarded: telemetry_pb2.QuarantineDiscarded) -> None:
        if self._created < discarded.sequence < self._sequence:
            for record in _selected(self.kept.values(), discarded.selection, discarded.up_to):
                record.is_discarded = record.is_discarded or record.is_open
                record.is_open = False

    def _edited(self, place: Place, edit: telemetry_pb2.QuarantineEdited) -> None:
        if edit.replay_id == self._asked.replay_id and self._asked.edits.get(edit.id) == digest(edit):
            self.edits[edit.id] = place


def name_of(outcome: Outcome.ValueType) -> str:
    """An outcome as the log counts it."""
    return Outcome.Name(outcome).removeprefix(_PREFIX)


def _selected(
    kept: Collection[Kept], selection: events_pb2.QuarantineSelection, up_to: Mapping[int, int]
) -> Iterator[Kept]:
    """Those that are meant. What is not open is meant only where it is named."""
    ids, reasons, sinks = set(selection.ids), set(selection.reasons), set(selection.sinks)
    since = selection.since.ToMilliseconds() if selection.HasField("since") else None
    until = selection.until.ToMilliseconds() if selection.HasField("until") else None
    for record in kept:
        if (
            _is_before(record.place, up_to)
            and (record.id in ids if ids else record.is_open)
            and (not reasons or record.reason in reasons)
            and (not sinks or record.sink in sinks)
            and selection.stage in ("", record.stage)
            and (since is None or record.set_ms >= since)
            and (until is None or record.set_ms < until)
        ):
            yield record


def _is_before(place: Place, up_to: Mapping[int, int]) -> bool:
    partition, offset = place
    return offset < up_to.get(partition, 0)
