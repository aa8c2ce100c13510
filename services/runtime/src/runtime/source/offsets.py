"""Offsets of a reader, which Spark keeps in its checkpoint.

The JSON form is canonical: Spark compares the texts of two offsets, so the same offsets in another order of
keys would make it run batch after batch for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


Positions = Mapping[Partition, int]


class LostRecords(NamedTuple):
    """Records of a partition, "topic/number", that Kafka had deleted before they were read.

    No record of an event time (us) from `begin` up to, not including, `end` is known to have been read.
    `records` is their count at most, `noticed` when that was noticed (ms since the epoch).
    """

    partition: str
    records: int
    begin: int
    end: int
    noticed: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """The end of one batch and the start of the next.

    `ids` names each topic's id, so that a topic that was deleted and made anew is noticed. `next` is the
    offset of the next record to read in each partition. `idle_advance` (in JSON `tick`) is the event time
    (ms) of the last idle advance, `planned` the wall-clock time (ms) at which the batch was planned,
    `complete_from` the event time (us) before which windows are partial, `closed` that (us) up to which they
    were written before an edit; each 0 where there is none yet. `lost` is what was missed since, by
    partition. `reader` names whose offsets these are: see
    `assignment`.
    """

    ids: Mapping[str, str]
    next: Positions
    idle_advance: int = 0
    planned: int = 0
    complete_from: int = 0
    closed: int = 0
    reader: str = ""
    lost: tuple[LostRecords, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, sorted."""
        return tuple(sorted(self.ids))

    def only(self, topics: Iterable[str]) -> Offsets:
        """Keep these of its topics."""
        ids = {topic: self.ids[topic] for topic in topics if topic in self.ids}
        return replace(self, ids=ids, next={p: offset for p, offset in self.next.items() if p.topic in ids})

    def move_to(self, positions: Positions, *, idle_advance: int | None = None, planned: int = 0) -> Offsets:
        """Replace the positions, and the times that are given."""
        return replace(
            self,
            next=positions,
            idle_advance=self.idle_advance if idle_advance is None else idle_advance,
            planned=planned or self.planned,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the one JSON object for these offsets: keys in order."""
        positions: dict[str, dict[str, int]] = {topic: {} for topic in sorted(self.ids)}
        for partition in sorted(self.next):
            positions[partition.topic][str(partition.number)] = self.next[partition]
        return {
            "closed": self.closed,
            "complete_from": self.complete_from,
            "ids": {topic: self.ids[topic] for topic in sorted(self.ids)},
            **({"lost": [list(lost) for lost in self.lost]} if self.lost else {}),
            "next": positions,
            "planned": self.planned,
            "reader": self.reader,
            "tick": self.idle_advance,
        }

    @staticmethod
    def from_json(form: Mapping[str, Any]) -> Offsets:
        """Read offsets from the JSON object that `as_json` returns."""
        return Offsets(
            ids=dict(form["ids"]),
            next={
                Partition(topic, int(number)): offset
                for topic, numbers in form["next"].items()
                for number, offset in numbers.items()
            },
            idle_advance=form["tick"],
            planned=form["planned"],
            complete_from=form["complete_from"],
            closed=form["closed"],
            reader=form["reader"],
            lost=tuple(LostRecords(*lost) for lost in form.get("lost", ())),
        )
