"""A host is lost for good in a fleet that is well otherwise: critical daggers run elsewhere in time.

The bound: two minutes of silence since its last beat, which was up to five seconds before, half a second to
look, and half a minute for a placement and a start, in whatever others start meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import Final

from daggers.v1 import gateway_pb2
from tests.simulation.hosts import Host
from tests.simulation.life import Life
from tests.simulation.people import asked
from tests.simulation.witness import Violation

BOUND_S: Final = 150.0
"""Time after the loss of a host within which its critical daggers run elsewhere."""
CRITICAL: Final = ("w", "x", "y", "z")
"""Spread over both hosts, as they are of one team."""
SLOW: Final = ("slow", "slower")
"""Those that others ask for meanwhile, whose starts take a minute."""
SLOW_S: Final = 60.0
_ASKED_S: Final = 100.0
"""Seconds after the loss at which they are asked for: they start while the host is found to be gone."""
_LOOK_S: Final = 0.5


class LostHost(Life):
    """Nothing goes wrong but that a host is lost, and at times the scheduler that leads behind it."""

    async def live(self) -> None:
        """Live all of it. Raises: Violation."""
        self.world.faulty = False
        self._set_up()
        self.people.begin()
        self.crew.keep_up()
        await self.settle()
        self._ask(CRITICAL, is_critical=True)
        await self.settle()
        lost = self.world.random.choice(self.crew.hosts)
        self.was_leading = self._leader_host() == lost.name
        since = self.loop.time()
        self._lose(lost)
        self.took_s = await self._recover(lost, since)
        await self.settle()
        self._check_replayed()

    def _set_up(self) -> None:
        """Give the fleet two hosts alike, one checkpoint root, and nobody who drains."""
        cores = self.world.random.choice([1, 2])
        starts = dict.fromkeys(SLOW, SLOW_S)
        self.crew.hosts = [Host(name, cores=cores, start_s=starts) for name in ("one", "two")]
        self.crew.shared, self.people.drains = True, False

    def _ask(self, names: tuple[str, ...], *, is_critical: bool = False) -> None:
        for name in names:
            self.people.request(name, asked(name, "run", is_critical=is_critical), name)

    def _leader_host(self) -> str:
        leader = self.world.control_witness.fleet.leader
        return leader.host if leader is not None else ""

    def _lose(self, host: Host) -> None:
        host.cut = host.gone = True
        host.cut_at = self.loop.time()
        host.end()
        for member in self.crew.serving("scheduler", host):
            member.process.alive = False

    async def _recover(self, lost: Host, since: float) -> float:
        """Wait until the critical daggers run; return the seconds since the loss. Raises: Violation."""
        fleet = self.world.control_witness.fleet
        self.critical = [name for name in CRITICAL if fleet.host_of(fleet.daggers[name]) == lost.name]
        killed_at, is_asked = since + self.world.random.uniform(0, BOUND_S), False
        while waiting := [name for name in self.critical if not self._runs_elsewhere(name, lost)]:
            now = self.loop.time()
            if now > since + BOUND_S:
                raise Violation(f"critical {waiting} do not run {BOUND_S:g} s after the loss of {lost.name}")
            if now >= since + _ASKED_S and not is_asked:
                is_asked = True
                self._ask(SLOW)
            if now >= killed_at:
                killed_at = float("inf")
                self._kill_leader()
            self.crew.keep_up()
            await asyncio.sleep(_LOOK_S)
        return self.loop.time() - since

    def _runs_elsewhere(self, name: str, lost: Host) -> bool:
        fleet = self.world.control_witness.fleet
        dagger = fleet.daggers[name]
        return dagger.phase == gateway_pb2.RUNNING and fleet.host_of(dagger) != lost.name

    def _kill_leader(self) -> None:
        """Kill who leads, where another scheduler has listened for as long."""
        leader = self.world.control_witness.fleet.leader
        serving = [member.process for member in self.crew.serving("scheduler")]
        for process in serving:
            if leader is not None and process.name == leader.scheduler_id and len(serving) > 1:
                process.alive = False
