"""Decides which launch takes the spare, and when one is kept (ADR 89). Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import spec_pb2

from daggerspec.master import parse
from daggerspec.rundir import DriverIdentity
from fleet import Fleet
from fleet.decide.backoff import delay
from fleet.decide.drain import takes_new
from fleet.fold import quotas
from fleet.fold.drivers import HostDrivers
from fleet.fold.phases import STARTING
from fleet.fold.quotas import Room
from scheduler.drivers.command import has_both_compilers, secret_variables

READY_WITHIN: Final = timedelta(minutes=5)
"""A spare that has not warmed up by then hangs."""
_FIRST_DELAY: Final = timedelta(seconds=10)
_LONGEST_DELAY: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """A driver that was started and has no launch."""

    identity: DriverIdentity
    master: str
    """Spark master that it was started for."""
    since: datetime
    alive: bool = True
    ready: bool = False
    """True once it has warmed up."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Spares that ended before they were ready, one after another."""

    count: int = 0
    last: datetime | None = None

    def over(self, now: datetime) -> bool:
        """Tell whether another may be tried."""
        if self.last is None:
            return True
        return now - self.last >= delay("spare", self.count, base=_FIRST_DELAY, cap=_LONGEST_DELAY)


@dataclass(frozen=True, slots=True)
class Start:
    """Start a spare for this Spark master."""

    master: str


@dataclass(frozen=True, slots=True)
class End:
    """End the spare that there is."""

    failed: bool = False
    """True when it should have become ready."""


Step: TypeAlias = Start | End


def cold(
    job: spec_pb2.JobSpec,
    master: str,
    spare: Spare | None,
    driver_memory_mib: int,
    *,
    as_another: bool = False,
) -> str:
    """Return why a launch does not take the spare, in a few words; empty when it does.

    All that a driver was started with has to be what this launch would be started with; `as_another`: whether
    that would run as another user than the scheduler.
    """
    if spare is None:
        return "there was no spare"
    if not (spare.alive and spare.ready):
        return "the spare was not ready"
    if master != spare.master:
        return "another Spark master"
    if job.spec.driver_memory_mib != driver_memory_mib:
        return "a driver_memory of its own"
    if secret_variables(job):
        return "a secret of the environment"
    if as_another:
        return "a user of its team's own"
    if has_both_compilers(job.spec):
        return "a forwarding, whose JVM has both compilers"
    return ""


def next_step(
    fleet: Fleet, spare: Spare | None, room: Room, failures: Failures, now: datetime
) -> Step | None:
    """Decide what to do about the spare now; None: nothing.

    It fits beside every driver that runs on the leader's host into `room`, what others leave it, or it is not
    there. None is there while the host is cordoned. None warms up while a dagger starts: it would take the
    processor from that.
    """
    running = fleet.drivers.on(fleet.leader.host) if fleet.leader else HostDrivers()
    master = wanted_master(fleet)
    is_open = fleet.leader is None or takes_new(fleet, fleet.leader.host)
    wanted = is_open and bool(master) and quotas.host_full(running.usage, need_mib(room), room) is None
    starting = any(dagger.phase == STARTING for dagger in running.daggers.values())
    if spare is None:
        return Start(master) if wanted and not starting and failures.over(now) else None
    if not spare.alive or not (spare.ready or now - spare.since < READY_WITHIN):
        return End(failed=True)
    return None if wanted and spare.master == master and (spare.ready or not starting) else End()


def need_mib(room: Room) -> int:
    """Return MiB that a spare needs: it has the heap of a driver whose dagger does not say."""
    return quotas.need_mib(spec_pb2.DaggerSpec(), room.driver_memory_mib)


def wanted_master(fleet: Fleet) -> str:
    """Return the local Spark master of most drivers that run, else the first of a cluster's; empty without
    any.
    """
    masters = {name: cluster.value.spark_master for name, cluster in sorted(fleet.clusters.items())}
    masters = {name: url for name, url in masters.items() if (parsed := parse(url)) and parsed.is_local}
    running = Counter(masters.get(fleet.daggers[name].spec.cluster, "") for name in fleet.occupied)
    return max(sorted(set(masters.values())), key=lambda url: running[url], default="")
