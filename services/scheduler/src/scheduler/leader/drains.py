"""Moves, for the leader, the daggers of hosts that are drained, as `fleet.decide.drain` decides.

All it writes is that a driver is to stop. What follows is any other stop and launch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from daggers.v1 import events_pb2

from eventlog.fold import Step
from fleet import ApplyResult, Dagger, Fleet
from fleet.decide.drain import next_move
from scheduler.leader.observer import Observer


class Drains:
    """Tells the next driver of each host that is drained to stop."""

    def __init__(
        self,
        fleet: Fleet,
        observer: Observer,
        write: Callable[[Dagger, Any], Awaitable[Step[ApplyResult]]],
    ) -> None:
        """write: appends a fact about a dagger and reads it back; raises LeadershipLost."""
        self._fleet, self._observer, self._write = fleet, observer, write
        self._tried: dict[str, int] = {}
        """Newest record of each dagger when its driver was told, for each host."""

    async def look(self) -> None:
        """Move the next dagger of each host that is drained. Raises: LeadershipLost, LogUnavailable."""
        draining = [host for host, standing in self._fleet.standings.items() if standing.is_draining]
        for host in sorted(draining):
            if not self._observer.reaches_agent(host):
                continue  # nobody there carries out a stop
            dagger = next_move(self._fleet, host, self._observer.list_refuges(host), self._observer.joins)
            if dagger is None or dagger.name in self._fleet.unreadable_daggers:
                continue
            if self._tried.get(dagger.name) == dagger.sequence:
                continue  # ignored here and now: saying it again would not help
            self._tried[dagger.name] = dagger.sequence
            await self._write(dagger, events_pb2.StopIssued(mode=events_pb2.STOP_MODE_DRAIN, move=True))
