"""Refuses a host that shares no checkpoint root with another one that is there.

Of two hosts the one that registered last is refused: the other one was there before.
"""

from __future__ import annotations

import asyncio
from typing import Final

from daggers.v1 import telemetry_pb2

from fleet import Fleet
from scheduler.leader.host_watch import BEAT_EVERY

_BEATS: Final = 2


class NoSharedCheckpoints(Exception):  # noqa: N818 - reads as what is wrong
    """Says that another host is there, and the two have no checkpoint root in common. One sentence."""


class Neighbours:
    """Judges other hosts by their beats, for one scheduler. `local`: some may have no root in common."""

    def __init__(self, fleet: Fleet, *, host: str, scheduler_id: str, shared: bool, local: bool) -> None:
        self._fleet, self._host, self._id = fleet, host, scheduler_id
        self._shared, self._local = shared, local
        self._is_waiting = False

    async def wait(self) -> None:
        """Listen before this host registers, where the log knows an agent that shares no root with it: so
        long as two of its beats take.
        """
        others = (
            standing.shares_checkpoints
            for host, standing in self._fleet.standings.items()
            if host != self._host and standing.has_agent
        )
        if not self._local and not all(self._shared and shares for shares in others):
            self._is_waiting = True
            await asyncio.sleep(_BEATS * BEAT_EVERY.total_seconds())
            self._is_waiting = False

    def note(self, beat: telemetry_pb2.HostBeat) -> None:
        """Take in the beat of a host's agent. Raises: NoSharedCheckpoints."""
        if beat.host == self._host or self._local or (self._shared and beat.shared_checkpoints):
            return
        own = self._fleet.standing(self._host)
        is_registered = own.registered is not None and own.registered.scheduler_id == self._id
        if self._is_waiting or (is_registered and own.epoch > beat.epoch):
            whose = "this host" if not self._shared else f"host {beat.host}"
            raise NoSharedCheckpoints(
                f"host {beat.host} is there, and {whose} has its checkpoints on its own disk: set"
                " DAGGERS_SCHEDULER_CHECKPOINT_ROOT to the same place on all hosts, or start each with"
                " --local-checkpoints (a host that is lost then loses what its daggers have counted)"
            )
