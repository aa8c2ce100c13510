"""What a page tells of a dagger's past: who changed it last, and when its driver ended. Pure.

It is folded from the control topic from its first record on, so it is the same after every start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from daggers.v1 import alerts_pb2, events_pb2

from daggerspec.exits import NOT_THE_DRIVERS
from eventlog import Record
from fleet import Dagger
from fleet.fold.dagger import DECISIONS
from fleet.fold.phases import BACKING_OFF

_ENDS: Final = 100
# What is done with records that were set aside changes nothing of how a dagger runs.
_CHANGES: Final = DECISIONS.keys() - {
    events_pb2.QuarantineReplayRequested,
    events_pb2.QuarantineDiscardRequested,
    events_pb2.AllowRefusalsRequested,
}


@dataclass(frozen=True, slots=True)
class History:
    """Of one dagger, since it was created."""

    change: alerts_pb2.LastChange | None = None
    """The newest request about it."""
    ends: tuple[datetime, ...] = ()
    """When launches ended that nobody had asked to end, by themselves, the newest hundred."""
    error: events_pb2.DaggerError | None = None
    """Why the newest of them did."""


def after(history: History, record: Record, dagger: Dagger) -> History:
    """The history after a record that changed the dagger, which is as the record left it."""
    if dagger.create_sequence == record.sequence:
        history = History()
    message = record.message
    if type(message) in _CHANGES:
        change = alerts_pb2.LastChange(revision=dagger.version, actor=message.meta.actor)  # type: ignore[union-attr]  # of requests
        change.time.FromDatetime(record.time)
        return replace(history, change=change)
    if isinstance(message, events_pb2.Exited | events_pb2.LaunchFailed) and dagger.phase == BACKING_OFF:
        error = message.error if message.HasField("error") else None
        if error is not None and error.reason in NOT_THE_DRIVERS:
            return history
        return replace(history, ends=(*history.ends, record.time)[-_ENDS:], error=error)
    return history
