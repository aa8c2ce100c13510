"""Observes drivers: their heartbeats, this host's process table, the files that they leave."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2

from fleet import Dagger, Fleet
from fleet.decide.observation import Observation, Presence, ShadowObservation
from fleet.decide.placement import Candidate, choose_host, room_of
from fleet.fold import quotas
from fleet.fold.quotas import Full, Room
from fleet.health.degradation import Reason
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.process_watcher import ProcessWatcher
from scheduler.leader.host_watch import HostWatch
from scheduler.leader.occupancy import Occupancy, for_driver

_UNKNOWN: Final = 1_000
"""Names, beyond the number of daggers, of which heartbeats are remembered."""


class Observer:
    """Observes for one scheduler; `processes` watches the drivers that live."""

    def __init__(
        self,
        fleet: Fleet,
        drivers: Drivers,
        processes: ProcessWatcher,
        room: Callable[[], Room],
        clock: Callable[[], datetime],
        occupancy: Callable[[], Occupancy],
        *,
        cutover: bool,
        overload: Callable[[], str],
        watch: HostWatch,
        shared: bool,
    ) -> None:
        """`cutover`: whether a driver may be replaced by one that begins beside it. `overload` says in one
        clause that this host has too much to do. `shared`: whether all hosts have one checkpoint root.
        """
        self._watch, self._shared = watch, shared
        self._overload = overload
        self._fleet, self._drivers, self._processes = fleet, drivers, processes
        self._room, self._occupancy, self._cutover = room, occupancy, cutover
        self._now = clock
        self._listening_since = clock()
        self._heartbeats: dict[str, tuple[telemetry_pb2.Heartbeat, datetime]] = {}

    def note_heartbeat(self, heartbeat: telemetry_pb2.Heartbeat) -> bool:
        """Take in a heartbeat; tell whether it is of the newest launch that was heard of."""
        newest = self._heartbeats.get(heartbeat.dagger)
        if newest is not None and heartbeat.generation < newest[0].generation:
            return False
        if newest is None:
            self._forget()
        self._heartbeats[heartbeat.dagger] = heartbeat, self._now()
        return True

    @property
    def remembered(self) -> int:
        """Number of names of which heartbeats are remembered."""
        return len(self._heartbeats)

    def _forget(self) -> None:
        """Forget names of no living dagger once there are many: they come as others go, and the log may still
        tell of a few.
        """
        if len(self._heartbeats) > len(self._fleet.daggers) + _UNKNOWN:
            self._heartbeats = {
                name: entry
                for name, entry in self._heartbeats.items()
                if self._fleet.living(name) is not None
            }

    def observe(self, dagger: Dagger) -> Observation:
        """Observe the newest launch of a dagger."""
        heartbeat, heard_at = self._heartbeats.get(dagger.name, (None, self._listening_since))
        if heartbeat is not None and heartbeat.generation != dagger.generation:
            heartbeat, heard_at = None, self._listening_since
        presence, alive, left, overload, deployment = Presence.REMOTE, None, None, "", ""
        if dagger.driver is not None:
            driver = dagger.driver
            # Only its heartbeats told of it, see fleet.decide.reconcile.
            if driver.host == self._drivers.host and not driver.pid:
                alive = self._drivers.find(dagger.name, dagger.generation)
                driver = alive or self._drivers.build_lost_handle(dagger.name, dagger.generation)
            presence = self._drivers.presence(driver)
            if presence is Presence.GONE:
                left = self._drivers.exit(driver)
                deployment = self._drivers.deployment(driver)
                overload = self._overload() if Reason.START_TIMEOUT in dagger.reasons else ""
            elif presence is Presence.ALIVE:
                self._processes.watch(dagger.name, driver.pid)
        elif dagger.has_unknown_driver:
            alive = self._drivers.find(dagger.name, dagger.generation)
            if self._fleet.host_of(dagger) == self._drivers.host:
                presence = Presence.GONE if alive is None else Presence.ALIVE
        place, full = self._place(dagger)
        standing = self._fleet.standing(self._fleet.host_of(dagger))
        registered = standing.registered
        return Observation(
            presence=presence,
            quiet_since=heard_at,
            heartbeat=heartbeat,
            driver=alive,
            exit=left,
            overload=overload,
            deployment=deployment,
            full=full,
            place=place,
            host_gone=self._fleet.is_lost(dagger),
            rebooted=standing.loss is not None
            and standing.loss.event.cause == events_pb2.HOST_GONE_CAUSE_BOOT,
            agent=presence is Presence.REMOTE and self._hears(self._fleet.host_of(dagger)),
            fences=registered is None or (self._shared and registered.shared_checkpoints),
            cutover=self._may_cut_over(dagger),
            shadow=self._shadow(dagger),
        )

    def _shadow(self, dagger: Dagger) -> ShadowObservation | None:
        """Observe the shadow of a dagger."""
        shadow = dagger.shadow
        if shadow is None:
            return None
        if shadow.driver is None:
            driver = self._drivers.find(dagger.name, shadow.generation)
            return ShadowObservation(presence=Presence.ALIVE if driver else Presence.GONE, driver=driver)
        presence = self._drivers.presence(shadow.driver)
        if presence is Presence.GONE:
            return ShadowObservation(presence=presence, exit=self._drivers.exit(shadow.driver))
        if presence is Presence.REMOTE:
            return ShadowObservation(presence=presence)
        return ShadowObservation(presence=presence, state=self._drivers.shadow_state(shadow.driver))

    def _may_cut_over(self, dagger: Dagger) -> bool:
        """Tell whether another driver of it may run beside its own. Worked out where an edit waits to be
        made.
        """
        if not self._cutover or dagger.driver is None or dagger.current or dagger.shadow is not None:
            return False
        return self._lacks_room(dagger) is None

    def _hears(self, host: str) -> bool:
        """Tell whether the agent of a host is heard, and launches what a leader elsewhere intends."""
        standing = self._fleet.standing(host)
        return standing.has_agent and self._watch.hears_agent(host, standing.epoch)

    def _place(self, dagger: Dagger) -> tuple[str, Full | None]:
        """Choose the host of the next launch, or tell why none can be made; the host is empty for this one.

        Worked out where a launch may be wanted.
        """
        if (dagger.occupied and not dagger.unanswered) or dagger.desired != gateway_pb2.DESIRED_RUNNING:
            return "", None
        chosen = choose_host(self._fleet, dagger, self._candidates(dagger))
        if isinstance(chosen, Full):
            return "", None if dagger.unanswered else chosen
        return "" if chosen == self._drivers.host else chosen, None

    def _candidates(self, dagger: Dagger) -> list[Candidate]:
        """List the hosts that can launch a dagger, this one first.

        Where each host has checkpoints of its own, one that has the dagger's is the only one.
        """
        own = Candidate(host=self._drivers.host, room=for_driver(self._room(), self._occupancy()))
        others = {
            host: Candidate(host=host, room=room_of(standing, own.room.driver_memory_mib))
            for host, standing in sorted(self._fleet.standings.items())
            if host != own.host and self._hears(host)
        }
        if self._shared:
            return [own, *(others[host] for host in others if self._shares(host))]
        if dagger.ran_on in others:
            return [others[dagger.ran_on]]
        is_new = not dagger.ran_on or self._fleet.standing(dagger.ran_on).is_gone
        return [own, *others.values()] if is_new else [own]

    def _shares(self, host: str) -> bool:
        registered = self._fleet.standing(host).registered
        return registered is not None and registered.shared_checkpoints

    def _lacks_room(self, dagger: Dagger) -> Full | None:
        """Return why one driver more of it does not fit beside those that run; None where it does."""
        fleet, room = self._fleet, for_driver(self._room(), self._occupancy())
        running = (fleet.daggers[name] for name in fleet.occupied)
        return quotas.full(fleet.catalogue, running, fleet.occupied_on(self._drivers.host), dagger, room)
