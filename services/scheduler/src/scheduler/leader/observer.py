"""Observes drivers: their heartbeats, this host's process table, the files that they leave."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2

from fleet import Dagger, Fleet
from fleet.decide.drain import choose_place, takes_new
from fleet.decide.observation import Observation, Presence, ShadowObservation
from fleet.decide.placement import NO_HOST, Candidate, choose_host, explain_unfit
from fleet.fold import quotas
from fleet.fold.quotas import Full, Room
from fleet.health.degradation import Reason
from fleet.health.watch import is_late
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.process_watcher import ProcessWatcher
from scheduler.leader.occupancy import Occupancy, for_driver
from scheduler.leader.peers import Peers
from scheduler.leader.sharing import Sharing

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
        peers: Peers,
        shared: bool,
        sharing: Sharing,
    ) -> None:
        """`cutover`: whether a driver may be replaced by one that begins beside it. `overload` says in one
        clause that this host has too much to do. `shared`: whether all hosts have one checkpoint root.
        """
        self._peers, self._shared, self._sharing = peers, shared, sharing
        self._overload = overload
        self._fleet, self._drivers, self._processes = fleet, drivers, processes
        self._room, self._occupancy, self._cutover = room, occupancy, cutover
        self._now = clock
        self._listening_since = clock()
        self._heartbeats: dict[str, tuple[telemetry_pb2.Heartbeat, datetime]] = {}

    def note_heartbeat(self, heartbeat: telemetry_pb2.Heartbeat) -> bool:
        """Take in a heartbeat; tell whether it is of the newest launch that was heard of."""
        newest = self._heartbeats.get(heartbeat.dagger)
        if newest is not None and is_late(newest[0], heartbeat):
            return False
        if newest is None:
            self._forget()
        self._heartbeats[heartbeat.dagger] = heartbeat, self._now()
        self._sharing.note_heartbeat(heartbeat)
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
            agent=presence is Presence.REMOTE and self._peers.hears(self._fleet.host_of(dagger)),
            fences=registered is None or (self._shared and registered.shared_checkpoints),
            cutover=self._may_cut_over(dagger),
            shadow=self._shadow(dagger),
        )

    def _shadow(self, dagger: Dagger) -> ShadowObservation | None:
        """Observe the shadow of a dagger; None where another host's agent has it."""
        shadow = dagger.shadow
        if shadow is None:
            return None
        host = self._fleet.host_of(dagger) if shadow.driver is None else shadow.driver.host
        if self._peers.looks_after(host, shadow.generation):
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
        if not takes_new(self._fleet, dagger.driver.host):
            return False  # the new driver is launched elsewhere
        if self._sharing.shares(dagger):
            return False  # a launch joins a process at once, and a driver beside it would have its own
        host, room = dagger.driver.host, for_driver(self._room(), self._occupancy())
        if host != self._drivers.host:
            if not self._peers.takes(host):
                return False
            room = self._peers.room(host, room.driver_memory_mib)
        if explain_unfit(self._fleet, dagger, self._peers.candidate(host, room)):
            return False
        drivers = self._fleet.drivers
        of_team, there = drivers.of_team(dagger.spec.team), drivers.on(host).usage
        return quotas.full(self._fleet.catalogue, of_team, there, dagger, room) is None

    def _place(self, dagger: Dagger) -> tuple[str, Full | None]:
        """Choose the host of the next launch, or tell why none can be made; the host is empty for this one.

        Worked out where a launch may be wanted.
        """
        if (dagger.occupied and not dagger.unanswered) or dagger.desired != gateway_pb2.DESIRED_RUNNING:
            return "", None
        chosen = self._choose_place(dagger)
        if isinstance(chosen, Full):
            # A launch here fences what nobody answered, be there room or not; but not where it cannot run.
            fences = dagger.unanswered and chosen.reason != NO_HOST and self._can_run_here(dagger)
            return "", None if fences else chosen
        return "" if chosen == self._drivers.host else chosen, None

    def _can_run_here(self, dagger: Dagger) -> bool:
        """Tell whether this host has the labels that a dagger needs, be there room or not."""
        here = self._peers.candidate(self._drivers.host, for_driver(self._room(), self._occupancy()))
        chosen = choose_host(self._fleet, dagger, [here])
        return not isinstance(chosen, Full) or chosen.reason != NO_HOST

    def _choose_place(self, dagger: Dagger) -> str | Full:
        room = for_driver(self._room(), self._occupancy())
        return choose_place(
            self._fleet,
            dagger,
            self._peers.candidates(room, dagger.ran_on),
            joins=partial(self.joins, dagger),
        )

    def joins(self, dagger: Dagger, host: str) -> bool:
        """Tell whether the next launch of a dagger joins a process on a host."""
        return self._sharing.find_process(dagger, host) is not None

    def has_room(self, dagger: Dagger) -> bool:
        """Tell whether some host takes the next launch of a dagger, beside all other launches."""
        return isinstance(self._choose_place(dagger), str)

    def find_next_host(self, dagger: Dagger) -> str:
        """Find the host of a driver's successor: its own, or where that is cordoned the one that placement
        chooses.
        """
        host = self._fleet.host_of(dagger)
        if takes_new(self._fleet, host):
            return host
        chosen = self._choose_place(dagger)
        return host if isinstance(chosen, Full) else chosen

    def reaches_agent(self, host: str) -> bool:
        """Tell whether what the log says of a host's drivers is carried out."""
        return host == self._drivers.host or self._peers.hears(host)

    def list_refuges(self, host: str) -> list[Candidate]:
        """List the hosts that can go on with what runs on a host: those that reach its checkpoints."""
        return self._peers.list_refuges(for_driver(self._room(), self._occupancy()), host)
