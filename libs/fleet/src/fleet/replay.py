"""A replay of what a dagger has set aside, from its request to its end. Pure.

A dagger has one at a time, and knows of its newest. What becomes of each record stands in
`daggers.quarantine`, not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from daggers.v1 import events_pb2

from fleet.answers import Code, Refusal, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The newest replay of a dagger. Its messages must not be changed."""

    sequence: int
    """Sequence of its request."""
    request: events_pb2.QuarantineReplayRequested
    time: datetime
    """When it was requested."""
    process: events_pb2.DriverHandle | None = None
    """Where it runs; None while it does not."""
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


def running(name: str, replay: Replay) -> Refusal:
    """Another replay is refused while one has not finished."""
    return Refusal(
        Code.FAILED_PRECONDITION,
        "REPLAY_RUNNING",
        f"replay {replay.id} of dagger {name} has not finished: wait until it has",
        {**about("dagger", name), "replay_id": replay.id},
    )
