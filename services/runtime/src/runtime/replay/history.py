"""Fold one dagger's events in `daggers.quarantine`, and select the records of a replay. Pure.

Events are applied in the order of their partition, to the end of the topic: a record's outcome stands behind
it. The selection depends only on what the topic had when the replay was requested, and on replays requested
before: so every attempt of a replay selects the same records, whatever the attempts before it have done.
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
class QuarantineEntry:
    """One quarantined record without its content, which is read again when the record is tried."""

    id: str
    place: Place
    generation: int
    stage: str
    reason: str
    sink: str
    set_ms: int
    """Time of its quarantine, in ms since 1970."""
    is_open: bool = True
    is_discarded: bool = False
    """Of later outcomes only REPLAYED changes a discarded record: it is then no longer discarded."""
    attempts: int = 0
    """Count of replays before this one failed with it."""


class History:
    """The quarantine of one dagger as one replay sees it: entries, edits, and its own outcomes so far."""

    def __init__(self, request: events_pb2.QuarantineReplayRequested, sequence: int, created: int) -> None:
        """Begin an empty fold. sequence: of the request; created: sequence of the dagger's creation."""
        self._request, self._sequence, self._created = request, sequence, created
        self.entries: dict[str, QuarantineEntry] = {}
        """By id of the record."""
        self.outcomes: dict[str, Outcome.ValueType] = {}
        """Outcomes that earlier attempts of this replay have written, by id of the record."""
        self.edits: dict[str, Place] = {}
        """Where the edit of a record stands, by its id. Only edits whose digest the request has are in it."""

    def apply(self, place: Place, kind: str, value: bytes, ce_id: str, kafka_ms: int) -> None:
        """Apply the dagger's next event. `kind` is its ce_type, `kafka_ms` its Kafka timestamp.

        Other kinds are ignored. Raises: DecodeError.
        """
        match kind.rpartition(".")[2]:
            case "QuarantineResolved":
                self._apply_resolved(telemetry_pb2.QuarantineResolved.FromString(value))
            case "QuarantineDiscarded":
                self._apply_discarded(telemetry_pb2.QuarantineDiscarded.FromString(value))
            case "QuarantineEdited":
                self._apply_edited(place, telemetry_pb2.QuarantineEdited.FromString(value))
            case "Quarantined":
                self._apply_quarantined(place, telemetry_pb2.Quarantined.FromString(value), ce_id, kafka_ms)

    @property
    def selected(self) -> list[QuarantineEntry]:
        """The records that this replay has to give an outcome, in the order of the topic."""
        entries = _select(self.entries.values(), self._request.selection, self._request.up_to)
        return sorted(entries, key=lambda record: record.place)

    def _apply_quarantined(
        self, place: Place, record: telemetry_pb2.Quarantined, ce_id: str, kafka_ms: int
    ) -> None:
        id_ = id_of(record, ce_id)
        earlier = self.entries.get(id_)
        is_later = earlier is not None and not _is_before(place, self._request.up_to)
        if record.generation <= self._created or is_later:
            return
        # interned: many entries share few different strings
        stage, reason, sink = map(intern, (record.stage, record.reason, record.sink))
        entry = QuarantineEntry(id_, place, record.generation, stage, reason, sink, set_ms(record, kafka_ms))
        if (
            earlier is not None
        ):  # a driver repeated its batch: the last record is listed, with the state so far
            entry.is_open, entry.is_discarded, entry.attempts = (
                earlier.is_open,
                earlier.is_discarded,
                earlier.attempts,
            )
        self.entries[id_] = entry

    def _apply_resolved(self, outcome: telemetry_pb2.QuarantineResolved) -> None:
        if outcome.replay_id == self._request.replay_id:
            self.outcomes[outcome.id] = outcome.outcome
            return
        entry = self.entries.get(outcome.id)
        if entry is None or not self._created < outcome.sequence < self._sequence:
            return
        if outcome.outcome == telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED:
            entry.is_open = entry.is_discarded = False
        elif not entry.is_discarded:
            entry.is_open = True
        entry.attempts = max(entry.attempts, outcome.attempt)

    def _apply_discarded(self, discarded: telemetry_pb2.QuarantineDiscarded) -> None:
        if self._created < discarded.sequence < self._sequence:
            for record in _select(self.entries.values(), discarded.selection, discarded.up_to):
                record.is_discarded = record.is_discarded or record.is_open
                record.is_open = False

    def _apply_edited(self, place: Place, edit: telemetry_pb2.QuarantineEdited) -> None:
        if edit.replay_id == self._request.replay_id and self._request.edits.get(edit.id) == digest(edit):
            self.edits[edit.id] = place


def name_of(outcome: Outcome.ValueType) -> str:
    """Return the short name of an outcome, as logs and `outcomes.json` have it: `REPLAYED`."""
    return Outcome.Name(outcome).removeprefix(_PREFIX)


def _select(
    entries: Collection[QuarantineEntry], selection: events_pb2.QuarantineSelection, up_to: Mapping[int, int]
) -> Iterator[QuarantineEntry]:
    """Yield the entries that meet all conditions. An entry that is not open is selected only by its id."""
    ids, reasons, sinks = set(selection.ids), set(selection.reasons), set(selection.sinks)
    since = selection.since.ToMilliseconds() if selection.HasField("since") else None
    until = selection.until.ToMilliseconds() if selection.HasField("until") else None
    for record in entries:
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
