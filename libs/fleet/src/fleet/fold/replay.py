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
    """Time of its request."""
    process: events_pb2.DriverHandle | None = None
    """Process that runs it, or, without a process id, is to run; None while none does."""
    host: str = ""
    """Host of its newest attempt, also of one that has ended; empty before the first."""
    attempt: int = 0
    """Sequence of the intent of its newest attempt; 0 before the first."""
    exits: int = 0
    """Number of its processes that ended before it had finished."""
    exit_time: datetime | None = None
    """Time of the newest of these ends; None before the first."""
    last_error: events_pb2.DaggerError | None = None
    """Error of the newest of these ends, where one was written."""
    waits: events_pb2.DaggerError | None = None
    """Error that keeps its process from being launched; None where none was written."""
    finished: events_pb2.ReplayFinished | None = None
    """Outcome; None before it has finished."""

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
    """Newest outage of a sink in which rows were set aside that are replayed automatically."""

    sink: str
    generation: int
    """The launch that it began in."""
    number: int
    """Number of the sink's outage in that launch, from 1."""
    outstanding: bool = True
    """True while a replay has still to be requested."""

    def is_before(self, other: events_pb2.SinkOutage) -> bool:
        """Tell whether the other one began later, of the same sink."""
        return (self.generation, self.number) < (other.generation, other.number)


def settle_outages(
    outages: Sequence[Outage], request: events_pb2.QuarantineReplayRequested
) -> tuple[Outage, ...]:
    """Settle the outage that this replay is for; return equal outages where none waits for it."""
    of = request.outage
    target = Outage(sink=of.sink, generation=of.generation, number=of.number)
    return tuple(replace(outage, outstanding=False) if outage == target else outage for outage in outages)


def refuse_settled(name: str, request: events_pb2.QuarantineReplayRequested) -> Refusal:
    """Refuse a replay for an outage that has had its own, or has been followed by another."""
    return Refusal(
        Code.FAILED_PRECONDITION,
        "NOT_OUTSTANDING",
        f"no replay of that outage of sink {request.outage.sink} of dagger {name} is outstanding",
        {**about("dagger", name), "sink": request.outage.sink},
    )


def refuse_concurrent(name: str, replay: Replay) -> Refusal:
    """Refuse another replay while one has not finished."""
    return Refusal(
        Code.FAILED_PRECONDITION,
        "REPLAY_RUNNING",
        f"replay {replay.id} of dagger {name} has not finished: wait until it has",
        {**about("dagger", name), "replay_id": replay.id},
    )
