"""Acts as the agent of this host: does what `fleet.decide.agent` decides while a scheduler elsewhere leads.

A scheduler that leads looks after the drivers of its host itself. Whether it leads or not, it registers its
host, and says that it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from daggers.v1 import events_pb2, telemetry_pb2

from chassis.logging import logger, note, unit_of_work
from election import Beats
from eventlog import Draft, LogUnavailable
from eventlog.fold import Step
from eventlog.follower import Follower
from fleet import ApplyResult, Dagger, Fleet
from fleet.decide.agent import Submit, next_step
from fleet.decide.observation import Policy
from fleet.decide.reconcile import Drain, Kill
from fleet.decide.shadowing import EndShadow, LaunchShadow
from fleet.fold.facts import FACTS, About
from fleet.fold.hosts import host_subject
from scheduler.drivers.heartbeat_files import HeartbeatFiles, list_launches, pack
from scheduler.drivers.process_table import Drivers
from scheduler.leader.capacity import Load
from scheduler.leader.host_watch import BEAT_EVERY, HostWatch
from scheduler.leader.inventory import Inventory
from scheduler.leader.launcher import Launcher
from scheduler.leader.observer import Observer
from scheduler.leader.replays import Replays

STEPS: Final = 16
_LOOK_S: Final = 0.5
_INVENTORY_EVERY: Final = timedelta(seconds=30)


class Agent:
    """Registers the host of one scheduler, beats for it, and acts there for a leader elsewhere."""

    def __init__(
        self,
        fleet: Fleet,
        follower: Follower[ApplyResult],
        drivers: Drivers,
        observer: Observer,
        launcher: Launcher,
        watch: HostWatch,
        beats: Beats,
        *,
        scheduler_id: str,
        source: str,
        clock: Callable[[], datetime],
        dead: Callable[[str], bool],
        appended: Callable[[str], None],
        ended: Callable[[], None],
        policy: Policy,
        tell: Callable[[Dagger], None],
        replays: Replays,
        measure: Callable[[], Load],
        inventory: Inventory,
        files: HeartbeatFiles | None = None,
    ) -> None:
        """scheduler_id: identity of this process; `dead` proves the death of another by its identity.

        source: ce_source of what this process writes. appended: is given the name of each fact; ended: is
        called when a driver has ended. tell: tells the drivers of a dagger what the log says to them.
        measure: gives what a beat says of the host. files: None where drivers send heartbeats themselves.
        """
        self._fleet, self._follower, self._drivers = fleet, follower, drivers
        self._observer, self._launcher, self._watch, self._beats = observer, launcher, watch, beats
        self._id, self._source, self._now, self._dead = scheduler_id, source, clock, dead
        self._appended, self._ended = appended, ended
        self._policy, self._tell, self._replays, self._measure = policy, tell, replays, measure
        self._inventory, self._next_inventory, self._files = inventory, clock(), files
        self._missing: list[str] = []
        """Words of what was not there, when a file system last answered."""
        self._looking: asyncio.Task[None] | None = None
        self._registered: events_pb2.HostRegistered | None = None
        self._ignored: dict[str, tuple[int, int, int, type]] = {}
        self._epoch = 0
        """Host epoch of what is being done."""

    @property
    def is_newest(self) -> bool:
        """True when this process is the agent of its host, as far as the log is read."""
        standing = self._fleet.standing(self._drivers.host)
        registered = standing.registered
        return registered is not None and registered.scheduler_id == self._id and not standing.is_gone

    async def register(self, registered: events_pb2.HostRegistered) -> None:
        """Register this host. Raises: LogUnavailable."""
        self._registered = registered
        await self._look_around()
        await self._announce(f"HostRegistered/{registered.scheduler_id}")

    async def keep_registered(self) -> None:
        """Register this host again where somebody has vouched that it is gone, and where its agent is.

        Where it lacks something else than before, say so.

        Raises: LogUnavailable.
        """
        standing = self._fleet.standing(self._drivers.host)
        if self._registered is None or standing.registered is None:
            return
        agent = standing.registered
        is_lost = agent.scheduler_id != self._id and (
            self._dead(agent.scheduler_id)
            or (agent.agent > 0 and self._watch.misses_agent(self._drivers.host))
        )
        if standing.is_gone or is_lost:
            loss = standing.loss.sequence if standing.loss is not None else 0
            await self._announce(f"HostRegistered/{self._id}/{standing.epoch}/{loss}")
        elif self.is_newest and self._lacks_otherwise(agent):
            await self._tell_lacks(standing.epoch, self._registered.lacks)

    def _lacks_otherwise(self, agent: events_pb2.HostRegistered) -> bool:
        """Tell whether this host lacks something else than the log says, as it was looked at now and then."""
        assert self._registered is not None
        if self._looking is None and self._now() >= self._next_inventory:
            self._looking = asyncio.create_task(self._look_around())
        if self._looking is None or not self._looking.done():
            return False
        self._looking.result()
        self._looking = None
        return list(agent.lacks) != list(self._registered.lacks)

    async def _tell_lacks(self, epoch: int, lacks: Sequence[str]) -> None:
        host = self._drivers.host
        changed = events_pb2.HostLacksChanged(scheduler_id=self._id, host=host, epoch=epoch, lacks=lacks)
        id_ = f"HostLacksChanged/{self._id}/{epoch}/{self._fleet.sequence}"
        await self._follower.append(Draft(id_, self._source, host_subject(host), self._now(), changed))

    async def _look_around(self) -> None:
        assert self._registered is not None
        self._next_inventory = self._now() + _INVENTORY_EVERY
        missing = await self._inventory.look_for(self._inventory.list_words())
        if missing is not None:
            self._missing = missing
        self._registered.lacks[:] = self._inventory.format_lacks(self._missing)

    async def _announce(self, id_: str) -> None:
        assert self._registered is not None
        subject = host_subject(self._drivers.host)
        await self._follower.append(Draft(id_, self._source, subject, self._now(), self._registered))

    async def keep_beating(self) -> None:
        """Say every few seconds that this host's agent is there, for ever."""
        while True:
            if self.is_newest and self._registered is not None:
                heartbeats = await self._collect()
                with suppress(LogUnavailable):  # the beat is missing, as it should be
                    for beat in pack(self._beat(self._registered), heartbeats):
                        await self._beats.append(self._draft(beat))
                await asyncio.sleep(BEAT_EVERY.total_seconds())
            else:
                await asyncio.sleep(_LOOK_S)

    async def _collect(self) -> Sequence[telemetry_pb2.Heartbeat]:
        """Collect what drivers here have said since the last beat, where it travels with that."""
        if self._files is None:
            return ()
        launches = list_launches(self._fleet, self._drivers.host)
        return await asyncio.to_thread(self._files.collect, launches)

    def _beat(self, registered: events_pb2.HostRegistered) -> telemetry_pb2.HostBeat:
        host, load = self._drivers.host, self._measure()
        return telemetry_pb2.HostBeat(
            host=host,
            epoch=self._fleet.standing(host).epoch,
            scheduler_id=self._id,
            shared_checkpoints=registered.shared_checkpoints,
            memory_mib=load.memory_mib,
            busy_cores=load.busy_cores,
        )

    def _draft(self, beat: telemetry_pb2.HostBeat) -> Draft:
        now, subject = self._now(), host_subject(beat.host)
        return Draft(f"{self._id}/host/{now.timestamp():.6f}", self._source, subject, now, beat)

    # ---- Acting --------------------------------------------------------------------------------------------

    async def look(self, names: Set[str]) -> None:
        """Do what is due of daggers that run on this host, while a scheduler elsewhere leads.

        names: of the daggers to look at, here or elsewhere. Raises: LogUnavailable.
        """
        leader, host = self._fleet.leader, self._drivers.host
        if leader is None or leader.host == host or not self.is_newest:
            return
        for name in sorted(names & self._fleet.drivers.on(host).daggers.keys()):
            if name not in self._fleet.unreadable_daggers:
                await self._attend(name)
        if self.is_newest:  # else another process of this host has taken over meanwhile
            self._epoch = self._fleet.standing(host).epoch
            await self._replays.act(self._report, since=self._epoch)

    async def _attend(self, name: str) -> None:
        for _ in range(STEPS):
            dagger, leader, host = self._fleet.daggers[name], self._fleet.leader, self._drivers.host
            if leader is None or leader.host == host or not self.is_newest:
                return
            if not dagger.occupied or self._fleet.host_of(dagger) != host:
                return
            epoch = self._epoch = self._fleet.standing(self._drivers.host).epoch
            action = next_step(
                dagger,
                observation=self._observer.observe(dagger),
                is_own=self._launcher.is_untried(dagger, since=epoch),
                now=self._now(),
                policy=self._policy,
            )
            attempt = leader.epoch, epoch, dagger.sequence, type(action)
            if action is None or self._ignored.get(name) == attempt:
                self._tell(dagger)
                return
            if isinstance(action, Drain | Kill | EndShadow):
                self._end(dagger, action)
                return
            with unit_of_work(
                "agent.act", dagger=name, generation=dagger.generation, action=type(action).__name__
            ):
                if isinstance(action, Submit):
                    await self._launcher.submit(name, self._report, since=epoch)
                elif isinstance(action, LaunchShadow):
                    await self._launcher.submit_shadow(name, self._report, since=epoch)
                else:
                    await self._report(dagger, action)
            if self._fleet.daggers[name].sequence == dagger.sequence:
                self._ignored[name] = attempt  # ignored here and now: another leader or agent may take it
                return

    def _end(self, dagger: Dagger, action: Drain | Kill | EndShadow) -> None:
        """End a driver; asked again until it is gone."""
        driver = dagger.driver
        if isinstance(action, EndShadow):
            driver = dagger.shadow.driver if dagger.shadow is not None else None
        if driver is None:
            return
        if not isinstance(action, Drain):
            self._drivers.kill(driver)
        elif not self._drivers.drain(driver):
            return
        logger().info(
            "agent.driver_ended",
            dagger=dagger.name,
            generation=dagger.generation,
            action=type(action).__name__,
        )

    async def _report(self, dagger: Dagger, fact: Any) -> Step[ApplyResult]:
        """Append what only this host knows, under the newest leader's epoch and the agent's own,
        and read it back. An agent that was replaced while it acted is ignored.

        Raises: LogUnavailable.
        """
        leader, epoch = self._fleet.leader, self._epoch
        fact.meta.epoch = leader.epoch if leader is not None else -1
        fact.meta.host_epoch = epoch
        fact.meta.name = dagger.name
        match FACTS[type(fact)].about:
            case About.SHADOW:
                fact.meta.generation = dagger.shadow.generation if dagger.shadow is not None else 0
            case about if about is not About.REPLAY:
                fact.meta.generation = dagger.generation
        id_ = f"{type(fact).__name__}/{dagger.name}/{fact.meta.epoch}/{dagger.sequence}/{epoch}"
        step = await self._follower.append(Draft(id_, self._source, dagger.name, self._now(), fact))
        self._appended(type(fact).__name__)
        note(sequence=step.record.sequence, ignored=step.applied.refused)
        if isinstance(fact, events_pb2.Exited | events_pb2.ShadowEnded):
            self._ended()
        return step
