"""What the gateway makes of the control topic: the fleet, what was refused, what a projection writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from daggers.v1 import events_pb2

from eventlog import LogPosition, Record
from fleet import Applied, Fleet


@dataclass(slots=True)
class Touched:
    """What changed since it was last asked: what a projection has to write anew."""

    everything: bool = True
    daggers: set[str] = field(default_factory=set)
    clusters: set[str] = field(default_factory=set)
    streams: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)
    schemas: set[int] = field(default_factory=set)
    """Sequences of the registrations."""
    answers: set[str] = field(default_factory=set)


class Fold:
    """The fold of one gateway."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self._refused: dict[int, str] = {}
        self._touched = Touched()

    @property
    def position(self) -> LogPosition:
        """How far the log is folded, and which log it is."""
        return self.fleet.position

    def refused(self, sequence: int) -> str:
        """Why the record at `sequence` is not applied; empty when it is."""
        return self._refused.get(sequence, "")

    def take_touched(self) -> Touched:
        """What changed since the last call; everything at the first."""
        touched, self._touched = self._touched, Touched(everything=False)
        return touched

    def forget(self) -> None:
        """Nothing is known: it was of another log."""
        self.fleet = Fleet()
        self._refused.clear()

    def apply(self, record: Record) -> Applied:
        """Fold one record in. Never raises for any record that can stand in a topic."""
        applied = self.fleet.apply(record)
        if applied.refused:
            self._refused[record.sequence] = applied.refused
        if applied.answer is not None:
            self._touched.answers.add(record.id)
        if applied.changed:
            self._touch(record, applied.subject)
        return applied

    def _touch(self, record: Record, subject: str) -> None:
        match record.message:
            case events_pb2.ClusterRegistered(cluster=cluster):
                self._touched.clusters.add(cluster.name)
                # Daggers are shown with the addresses of their clusters.
                self._touched.daggers.update(self.fleet.daggers)
            case events_pb2.StreamRegistered(stream=stream):
                self._touched.streams.add(stream.name)
                # And with what their drivers do not know of their streams yet.
                self._touched.daggers.update(self.fleet.daggers)
            case events_pb2.ReferenceRegistered(reference=reference):
                self._touched.references.add(reference.name)
            case events_pb2.SchemaRegistered():
                self._touched.schemas.add(record.sequence)
            case _:
                self._touched.daggers.add(subject)  # a dagger's name, or a scheduler's id: no dagger, no row
