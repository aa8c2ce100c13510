"""What there is to know of drivers: their heartbeats, this host's process table, what they left behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2

from fleet import Dagger, Fleet
from fleet.decide.drain import choose_place, takes_new
from fleet.decide.observation import Observation, Presence, ShadowObservation
from fleet.decide.placement import Candidate, room_of
from fleet.fold import quotas
from fleet.fold.quotas import Full, Room
from fleet.health.degradation import Reason
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.process_watcher import ProcessWatcher
from scheduler.leader.host_watch import HostWatch
from scheduler.leader.occupancy import Occupancy, for_driver

_UNKNOWN: Final = 1_000
"""So many names more than there are daggers may be heard of."""


class Observer:
    """Observes for one scheduler; `processes` watches the drivers that live."""

    def __init__(
        self,
        fleet: Fleet,
        drivers: Drivers,
        processes: ProcessWatcher,
        room: Callable[[], Room],
        clock: Callable[[], datetime],
        taken: Callable[[], Occupancy],
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
        self._room, self._taken, self._cutover = room, taken, cutover
        self._now = clock
        self._listening_since = clock()
        self._heard: dict[str, tuple[telemetry_pb2.Heartbeat, datetime]] = {}

    def heard(self, heartbeat: telemetry_pb2.Heartbeat) -> bool:
        """A heartbeat came; whether it is of the newest launch that was heard of."""
        known = self._heard.get(heartbeat.dagger)
        if known is not None and heartbeat.generation < known[0].generation:
            return False
        if known is None:
            self._forget()
        self._heard[heartbeat.dagger] = heartbeat, self._now()
        return True

    @property
    def remembered(self) -> int:
        """Of how many names heartbeats are remembered."""
        return len(self._heard)

    def _forget(self) -> None:
        """Names come as others go, and some are of no dagger: they are no more than there are daggers, and a
        few that the log may still tell of.
        """
        if len(self._heard) > len(self._fleet.daggers) + _UNKNOWN:
            self._heard = {
                name: heard for name, heard in self._heard.items() if self._fleet.living(name) is not None
            }

    def observe(self, dagger: Dagger) -> Observation:
        """What there is to know about the newest launch of a dagger."""
        heartbeat, heard_at = self._heard.get(dagger.name, (None, self._listening_since))
        if heartbeat is not None and heartbeat.generation != dagger.generation:
            heartbeat, heard_at = None, self._listening_since
        presence, alive, left, overload, deployment = Presence.REMOTE, None, None, "", ""
        if dagger.driver is not None:
            driver = dagger.driver
            # Only its heartbeats told of it, see fleet.decide.reconcile.
            if driver.host == self._drivers.host and not driver.pid:
                alive = self._drivers.find(dagger.name, dagger.generation)
                driver = alive or self._drivers.lost(dagger.name, dagger.generation)
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
        """What there is to know about the shadow of a dagger."""
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
        """Whether another driver of it may run beside its own. Worked out where an edit waits to be made."""
        if not self._cutover or dagger.driver is None or dagger.current or dagger.shadow is not None:
            return False
        if not takes_new(self._fleet, self._drivers.host):
            return False  # the new driver is launched elsewhere
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
        chosen = choose_place(self._fleet, dagger, self._candidates(dagger))
        if isinstance(chosen, Full):
            return "", None if dagger.unanswered else chosen
        return "" if chosen == self._drivers.host else chosen, None

    def _candidates(self, dagger: Dagger) -> list[Candidate]:
        """List the hosts that can launch a dagger, this one first.

        Where each host has checkpoints of its own, one that has the dagger's is the only one.
        """
        own, others = self._list_hosts()
        if self._shared:
            return [own, *(others[host] for host in others if self._shares(host))]
        if dagger.ran_on in others:
            return [others[dagger.ran_on]]
        is_new = not dagger.ran_on or self._fleet.standing(dagger.ran_on).is_gone
        return [own, *others.values()] if is_new else [own]

    def _list_hosts(self) -> tuple[Candidate, dict[str, Candidate]]:
        """List this host, and all others that can launch, by name."""
        own = Candidate(host=self._drivers.host, room=for_driver(self._room(), self._taken()))
        others = {
            host: Candidate(host=host, room=room_of(standing, own.room.driver_memory_mib))
            for host, standing in sorted(self._fleet.standings.items())
            if host != own.host and self._hears(host)
        }
        return own, others

    def reaches_agent(self, host: str) -> bool:
        """Tell whether what the log says of a host's drivers is carried out."""
        return host == self._drivers.host or self._hears(host)

    def list_refuges(self, host: str) -> list[Candidate]:
        """List the hosts that can go on with what runs on a host: those that reach its checkpoints."""
        own, others = self._list_hosts()
        if not self._shared or not (host == own.host or self._shares(host)):
            return []
        return [own, *(others[other] for other in others if self._shares(other))]

    def _shares(self, host: str) -> bool:
        registered = self._fleet.standing(host).registered
        return registered is not None and registered.shared_checkpoints

    def _lacks_room(self, dagger: Dagger) -> Full | None:
        """Why one driver more of it does not fit beside those that run."""
        fleet, room = self._fleet, for_driver(self._room(), self._taken())
        running = (fleet.daggers[name] for name in fleet.occupied)
        return quotas.full(fleet.catalogue, running, fleet.occupied_on(self._drivers.host), dagger, room)
