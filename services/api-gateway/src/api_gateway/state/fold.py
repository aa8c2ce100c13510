"""Fold the control topic: the fleet, the verdict on each record, and the changes for a projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from google.protobuf.message import DecodeError

from api_gateway.state.verdicts import RecordVerdict, Verdicts, verdict_of
from eventlog import LogPosition, Record, extend_history
from fleet import ApplyResult, Fleet
from fleet.fold.horizon import STANDARD, Horizon
from fleet.snapshot import entries
from fleet.snapshot.encoding import texts
from fleet.snapshot.entries import ChangeSet, EntryChanges

_ANCHOR_EVERY: Final = 1_000
_VERDICTS_KIND: Final = "verdicts"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A saved state of the fold."""

    position: LogPosition
    """Position of the log up to which it is folded."""
    anchors: tuple[LogPosition, ...]
    """Earlier positions. The records after the first are read again, to check that the log is the same one.
    """
    entries: Mapping[str, bytes]
    """Serialised parts of the state by key, as `Fold.list_changes` returns them."""


class Fold:
    """The fold of one gateway.

    A restored fold first reads the last records of its snapshot again: until then its position is theirs, and
    a follower finds out whether the snapshot is of this log.
    """

    def __init__(self, horizon: Horizon = STANDARD) -> None:
        self.fleet = Fleet(horizon)
        self.anchors: tuple[LogPosition, ...] = (LogPosition(),)
        """A position at least `_EVERY` records back, where there is one, and the newest such position."""
        self.is_of_this_log = True
        """False once the folded records proved to be another log's."""
        self._verdicts = Verdicts()
        self._changes = ChangeSet()
        self._reread: LogPosition | None = None

    @classmethod
    def restore(cls, snapshot: Snapshot, horizon: Horizon = STANDARD) -> Self:
        """Build a fold that continues from a snapshot. Raises: fleet.snapshot.entries.Unusable."""
        fold = cls(horizon)
        fold.fleet = entries.restore_fleet(snapshot.position, snapshot.entries, horizon)
        fold.anchors, fold._reread = snapshot.anchors[:1], snapshot.anchors[0]
        fold._changes = ChangeSet(everything=False, since=snapshot.position.sequence)
        for key in sorted(snapshot.entries):
            if key.startswith(f"{_VERDICTS_KIND}/"):
                try:
                    fold._verdicts.read(snapshot.entries[key])
                except (DecodeError, ValueError) as error:
                    raise entries.Unusable(f"its entry {key} cannot be read") from error
        return fold

    @property
    def position(self) -> LogPosition:
        """Return the position up to which the log is folded, or read again."""
        return self.fleet.position if self._reread is None else self._reread

    def verdict(self, sequence: int) -> RecordVerdict:
        """Return the verdict on the record at `sequence`."""
        return self._verdicts.of(sequence)

    def take_changes(self) -> ChangeSet:
        """Return the changes since the last call; at the first call those since the snapshot, or
        everything.
        """
        changes, self._changes = self._changes, ChangeSet(everything=False, since=self.fleet.sequence)
        return changes

    def list_changes(self, changes: ChangeSet) -> EntryChanges:
        """Return the entries to write and to remove so that a copy of the state, older by `changes`, is
        current.
        """
        fleet, since = self.fleet, -1 if changes.everything else changes.since
        changed = entries.encode_changes(fleet, changes)
        verdicts = self._verdicts.newest_first(fleet.horizon.block_of(since + 1))
        blocks = entries.blocks(fleet, since, _VERDICTS_KIND, verdicts, texts)
        return EntryChanges(changed.everything, changed.gone, changed.entries | blocks)

    def forget(self) -> None:
        """Drop the state where it proved to be another log's. A restored state that is read again stays."""
        if self._reread is None:
            self.is_of_this_log, self.fleet = False, Fleet(self.fleet.horizon)
            self._verdicts.clear()

    def apply(self, record: Record) -> ApplyResult:
        """Fold a record in. Raises nothing for any record that a topic may contain."""
        if self._reread is not None and record.sequence <= self.fleet.sequence:
            self._reread = LogPosition(record.sequence, extend_history(self._reread.history, record))
            self._anchor(self._reread)
            return ApplyResult(record.subject, changed=False, refused=self.verdict(record.sequence).refused)
        self._reread = None
        applied = self.fleet.apply(record)
        self._verdicts.add(record.sequence, verdict_of(applied))
        self._changes.add(record, applied)
        self._anchor(self.fleet.position)
        return applied

    def _anchor(self, position: LogPosition) -> None:
        if position.sequence % _ANCHOR_EVERY == 0:
            self.anchors = (*self.anchors[-1:], position)
