"""Has launches join the processes of others, and moves them, as `fleet.decide.packing` decides.

A launch joins on its own host, whoever leads. A move is written by the leader, and is a stop: the launch that
follows goes where it belongs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2

from chassis.logging import note
from eventlog.fold import Step
from fleet import ApplyResult, Dagger, Fleet
from fleet.decide.packing import (
    HasRoom,
    Load,
    choose_process,
    circle_of,
    is_asked_to_share,
    measure,
    next_move,
)
from scheduler.drivers.process_table import Drivers
from scheduler.threads import to_its_end

_LOOK_EVERY: Final = timedelta(seconds=5)


class Sharing:
    """Shared processes, for one scheduler. driver_memory_mib: heap of a driver whose dagger does not say."""

    def __init__(
        self, fleet: Fleet, drivers: Drivers, driver_memory_mib: int, clock: Callable[[], datetime]
    ) -> None:
        self._fleet, self._drivers, self._now = fleet, drivers, clock
        self._driver_memory_mib = driver_memory_mib
        self._loads: dict[str, Load] = {}
        self._next_look = clock()

    def note_heartbeat(self, heartbeat: telemetry_pb2.Heartbeat) -> None:
        """Measure a launch by its heartbeat, where its dagger shares processes."""
        name = heartbeat.dagger
        dagger = self._fleet.living(name)
        if dagger is None or not is_asked_to_share(self._fleet, dagger):
            self._loads.pop(name, None)
            return
        before = self._loads.get(name)
        if before is None or heartbeat.generation >= before.generation:
            self._loads[name] = measure(before, heartbeat, self._now())
        if len(self._loads) > 2 * len(self._fleet.daggers) + 1_000:
            living = self._fleet.occupied
            self._loads = {name: load for name, load in self._loads.items() if name in living}

    def shares(self, dagger: Dagger) -> bool:
        """Tell whether a dagger may share a process."""
        return circle_of(self._fleet, dagger, self._drivers.user_of) is not None

    def find_process(self, dagger: Dagger, host: str) -> events_pb2.DriverHandle | None:
        """Find the driver whose process the next launch of a dagger joins on a host."""
        return choose_process(
            self._fleet,
            dagger,
            host,
            self._loads,
            self._driver_memory_mib,
            self._drivers.user_of,
            lambda driver: driver.host != self._drivers.host or self._drivers.takes_launches(driver),
        )

    async def join(self, dagger: Dagger, job: spec_pb2.JobSpec) -> events_pb2.DriverHandle | None:
        """Have a launch join a process of this host; None where none takes it. Raises: OSError,
        UnresolvedName.
        """
        process = self.find_process(dagger, self._drivers.host)
        if process is None:
            return None
        joined = await to_its_end(partial(self._drivers.join, process, job))
        note(joined=joined is not None)
        return joined

    async def look(
        self, write: Callable[[Dagger, Any], Awaitable[Step[ApplyResult]]], has_room: HasRoom
    ) -> None:
        """Move the next launch of each host, as the leader. write: appends a fact about a dagger and reads it
        back; raises LeadershipLost. has_room: tells whether some host takes a launch.
        """
        if (now := self._now()) < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY
        for host in sorted(self._fleet.drivers.hosts):
            move = next_move(
                self._fleet,
                host,
                self._loads,
                self._driver_memory_mib,
                now,
                has_room=has_room,
                find_process=self.find_process,
            )
            if move is not None and move.dagger.name not in self._fleet.unreadable_daggers:
                await write(move.dagger, move.as_fact())
