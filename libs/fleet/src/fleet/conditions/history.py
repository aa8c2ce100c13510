"""The past of a dagger that a page shows: its last change, and when its driver ended. Pure.

It is folded from the whole control topic, so that it is the same after every start of a monitor.
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
# Requests about quarantined records do not change how a dagger runs, so they explain no alert.
_CHANGES: Final = DECISIONS.keys() - {
    events_pb2.QuarantineReplayRequested,
    events_pb2.QuarantineDiscardRequested,
    events_pb2.AllowRefusalsRequested,
    events_pb2.SinkPauseRequested,
}


@dataclass(frozen=True, slots=True)
class History:
    """Last change and unexpected ends of one dagger since it was created."""

    change: alerts_pb2.LastChange | None = None
    """The newest request that changed the dagger."""
    ends: tuple[datetime, ...] = ()
    """Times at which launches ended unasked; the newest _ENDS, oldest first."""
    error: events_pb2.DaggerError | None = None
    """Error of the newest of `ends`; None where it left none."""


def after(history: History, record: Record, dagger: Dagger) -> History:
    """Fold a record into the history. `dagger`: after this record."""
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
