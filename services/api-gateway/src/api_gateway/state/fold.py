"""What the gateway makes of the control topic: the fleet, what was refused, what a projection writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from google.protobuf.message import DecodeError

from api_gateway.state.verdicts import Verdict, Verdicts, judged
from eventlog import LogPosition, Record, extend_history
from fleet import Applied, Fleet
from fleet.fold.horizon import STANDARD, Horizon
from fleet.snapshot import entries
from fleet.snapshot.encoding import texts
from fleet.snapshot.entries import Changed, ChangeSet

_EVERY: Final = 1_000
_KIND: Final = "verdicts"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state that was kept, and of which log."""

    position: LogPosition
    """What it is of."""
    anchors: tuple[LogPosition, ...]
    """Earlier positions: the records behind the first are read again, to know the log by."""
    entries: Mapping[str, bytes]
    """As `Fold.changed` made them."""


class Fold:
    """The fold of one gateway.

    One that was restored reads the last records of its snapshot again before it goes on: until then its
    position is theirs, and a follower finds out whether the log is the one that the snapshot is of.
    """

    def __init__(self, horizon: Horizon = STANDARD) -> None:
        self.fleet = Fleet(horizon)
        self.anchors: tuple[LogPosition, ...] = (LogPosition(),)
        """A position at least a thousand records back, where there is one, and one behind it."""
        self.known = True
        """False when it turned out that what was folded is another log's."""
        self._verdicts = Verdicts()
        self._changes = ChangeSet()
        self._reread: LogPosition | None = None

    @classmethod
    def restored(cls, held: Snapshot, horizon: Horizon = STANDARD) -> Self:
        """A fold that goes on from a snapshot. Raises: fleet.snapshot.entries.Unusable."""
        fold = cls(horizon)
        fold.fleet = entries.restored(held.position, held.entries, horizon)
        fold.anchors, fold._reread = held.anchors[:1], held.anchors[0]
        for key in sorted(held.entries):
            if key.startswith(f"{_KIND}/"):
                try:
                    fold._verdicts.read(held.entries[key])
                except (DecodeError, ValueError) as error:
                    raise entries.Unusable(f"its entry {key} cannot be read") from error
        return fold

    @property
    def position(self) -> LogPosition:
        """How far the log is folded, or read again, and which log it is."""
        return self.fleet.position if self._reread is None else self._reread

    def verdict(self, sequence: int) -> Verdict:
        """What was made of the record at `sequence`."""
        return self._verdicts.of(sequence)

    def take_changes(self) -> ChangeSet:
        """What changed since the last call; everything at the first."""
        taken, self._changes = self._changes, ChangeSet(everything=False, since=self.fleet.sequence)
        return taken

    def changed(self, changes: ChangeSet) -> Changed:
        """What a keeper of this fold's entries has to do, so that they are those of its state now."""
        fleet, since = self.fleet, -1 if changes.everything else changes.since
        changed = entries.changed(fleet, changes)
        verdicts = self._verdicts.newest_first(fleet.horizon.block_of(since + 1))
        blocks = entries.blocks(fleet, since, _KIND, verdicts, texts)
        return Changed(changed.everything, changed.gone, changed.entries | blocks)

    def forget(self) -> None:
        """Nothing is known: it was of another log. What was restored is not, and stays."""
        if self._reread is None:
            self.known, self.fleet = False, Fleet(self.fleet.horizon)
            self._verdicts.clear()

    def apply(self, record: Record) -> Applied:
        """Fold one record in. Never raises for any record that can stand in a topic."""
        if self._reread is not None and record.sequence <= self.fleet.sequence:
            self._reread = LogPosition(record.sequence, extend_history(self._reread.history, record))
            self._anchor(self._reread)
            return Applied(record.subject, changed=False, refused=self.verdict(record.sequence).refused)
        self._reread = None
        applied = self.fleet.apply(record)
        self._verdicts.add(record.sequence, judged(applied))
        self._changes.add(record, applied)
        self._anchor(self.fleet.position)
        return applied

    def _anchor(self, position: LogPosition) -> None:
        if position.sequence % _EVERY == 0:
            self.anchors = (*self.anchors[-1:], position)
