"""A replay of what a dagger has set aside, from its request to its end; and outages that wait for one. Pure.

A dagger has one at a time, and knows of its newest. What becomes of each record stands in
`daggers.quarantine`, not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from daggers.v1 import events_pb2

from fleet.fold.answers import Code, Refusal, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The newest replay of a dagger. Its messages must not be changed."""

    sequence: int
    """Sequence of its request."""
    request: events_pb2.QuarantineReplayRequested
    time: datetime
    """When it was requested."""
    process: events_pb2.DriverHandle | None = None
    """Where it runs, or, without a process id, is to run; None while it does not."""
    attempt: int = 0
    """Sequence of the intent of its newest attempt; 0 before the first."""
    exits: int = 0
    """How often its process was gone before it had finished."""
    exit_time: datetime | None = None
    """When its process was last gone; None where it never was."""
    last_error: events_pb2.DaggerError | None = None
    """Why, where anything was said."""
    waits: events_pb2.DaggerError | None = None
    """What it waits for before its process is launched; None: nothing that anybody said."""
    finished: events_pb2.ReplayFinished | None = None
    """How it has finished; None before."""

    @property
    def id(self) -> str:
        """Its identity."""
        return self.request.replay_id

    @property
    def unanswered(self) -> bool:
        """True when an attempt was intended and nobody has said yet what became of it."""
        return self.finished is None and self.process is not None and not self.process.pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The newest outage of a sink in which rows were set aside that are to be replayed by themselves."""

    sink: str
    generation: int
    """The launch that it began in."""
    number: int
    """Which one of the sink it was in that launch, from 1."""
    outstanding: bool = True
    """Whether a replay has still to be asked for."""

    def is_before(self, other: events_pb2.SinkOutage) -> bool:
        """Whether the other one began later, of the same sink."""
        return (self.generation, self.number) < (other.generation, other.number)


def settled(outages: Sequence[Outage], request: events_pb2.QuarantineReplayRequested) -> tuple[Outage, ...]:
    """The outages once this replay was asked for; the same where it makes none good that waits for one."""
    of = request.outage
    meant = Outage(sink=of.sink, generation=of.generation, number=of.number)
    return tuple(replace(outage, outstanding=False) if outage == meant else outage for outage in outages)


def not_outstanding(name: str, request: events_pb2.QuarantineReplayRequested) -> Refusal:
    """A replay for an outage that has had its own, or has been followed by another, is refused."""
    return Refusal(
        Code.FAILED_PRECONDITION,
        "NOT_OUTSTANDING",
        f"no replay of that outage of sink {request.outage.sink} of dagger {name} is outstanding",
        {**about("dagger", name), "sink": request.outage.sink},
    )


def running(name: str, replay: Replay) -> Refusal:
    """Another replay is refused while one has not finished."""
    return Refusal(
        Code.FAILED_PRECONDITION,
        "REPLAY_RUNNING",
        f"replay {replay.id} of dagger {name} has not finished: wait until it has",
        {**about("dagger", name), "replay_id": replay.id},
    )
