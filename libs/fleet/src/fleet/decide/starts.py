"""Decide which launch begins next on a host: as many at once as it has cores, critical daggers first. Pure.

A start takes a core for about as long as it lasts. Thirty at once on two cores take longer than thirty one
after another, and run into every timeout there is. A start is over when its dagger runs, ends, or is
DEGRADED; one that takes longer than `LONGEST_START` waits for something else than a core, and no other waits
for it. A driver that is to be started anew runs until that start has its turn.

A critical dagger waits for no start but those of critical ones: it is to run within its bound after the loss
of a host, whatever else starts meanwhile (ADR 282).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from zlib import crc32

from daggers.v1 import gateway_pb2

from daggerspec.priority import is_critical
from fleet.fold.dagger import Dagger
from fleet.fold.fleet import Fleet
from fleet.fold.phases import BACKING_OFF, PENDING, STARTING, STOPPING

LONGEST_START: Final = timedelta(seconds=90)
"""Time for which a start takes a core of its host at most."""
PATIENCE: Final = timedelta(minutes=10)
"""Time after which a dagger that waits for its start goes before all that wait for less long."""

Order = tuple[int, datetime, int, str]
"""Place of a dagger in the queue of a host; the smallest is next."""


@dataclass(frozen=True, slots=True)
class StartCounts:
    """Numbers of the starts that take a core now, or will as soon as a driver has ended, by host."""

    all: Counter[str] = field(default_factory=Counter)
    critical: Counter[str] = field(default_factory=Counter)
    """Those of critical daggers among them."""


def count_starts(fleet: Fleet, now: datetime) -> StartCounts:
    """Count the starts of each host."""
    counts = StartCounts()
    for dagger in fleet.drivers.starting.values():
        if takes_core(dagger, now):
            host = fleet.host_of(dagger)
            counts.all[host] += 1
            counts.critical[host] += is_critical(dagger.spec)
    return counts


def takes_core(dagger: Dagger, now: datetime) -> bool:
    """Tell whether a dagger starts: its driver, that driver's successor, or a shadow beside it."""
    shadow = dagger.shadow
    if shadow is not None:
        return shadow.boundary is None and now - shadow.time < LONGEST_START
    is_replaced = dagger.phase == STOPPING and dagger.desired == gateway_pb2.DESIRED_RUNNING
    return (dagger.phase == STARTING or is_replaced) and now - dagger.phase_time < LONGEST_START


def has_free_core(fleet: Fleet, host: str, starts: StartCounts, *, critical: bool) -> bool:
    """Tell whether a start may begin on a host now: of a critical dagger, or of another one.

    A host that has not registered how many cores it has is never full.
    """
    registered = fleet.standing(host).registered
    if registered is None or not registered.cores:
        return True
    return (starts.critical if critical else starts.all)[host] < registered.cores


def wants_launch(dagger: Dagger) -> bool:
    """Tell whether a dagger is to run and has no driver."""
    return dagger.desired == gateway_pb2.DESIRED_RUNNING and not dagger.occupied


def wants_replacement(dagger: Dagger) -> bool:
    """Tell whether a driver runs that is to be started anew, by an edit or a restart."""
    return (
        dagger.desired == gateway_pb2.DESIRED_RUNNING
        and dagger.driver is not None
        and dagger.shadow is None
        and dagger.phase != STOPPING
        and not dagger.current
    )


def may_wait(dagger: Dagger, now: datetime) -> bool:
    """Tell whether a start has its turn behind those of daggers that do not run: it was asked for lately."""
    return wants_replacement(dagger) and now - dagger.update_time < PATIENCE


def place_in_queue(dagger: Dagger, now: datetime) -> Order:
    """Return where a dagger stands among those that wait for a start.

    First those that are critical, then those that ran until they were stopped to be started anew, or that
    have waited for long, each by their age; of both kinds first those whose driver has ended since, for its
    end was the begin of this start. Then all others by the hash of their names: each start falls on any
    instant of the expected total, so that daggers of one team, or of one topic, do not all start together.
    """
    first = datetime.min.replace(tzinfo=now.tzinfo)
    since = dagger.update_time if wants_replacement(dagger) else dagger.not_before or dagger.phase_time
    if dagger.phase == STOPPING and not dagger.occupied:
        since = first
    if is_critical(dagger.spec):
        return 0, since, 0, dagger.name
    if dagger.phase == STOPPING or now - since >= PATIENCE:
        return 1, since, 0, dagger.name
    return 2, first, crc32(dagger.name.encode()), dagger.name


def describe_waits(fleet: Fleet, now: datetime) -> dict[str, str]:
    """Describe of each launch that waits for its turn why it does, as a clause, by the name of its dagger.

    By the log alone: the host is where the dagger last ran, if launches may be placed there, else any. Who
    leads may know more (`fleet.decide.placement`).
    """
    hosts = [
        host
        for host, standing in fleet.standings.items()
        if standing.registered is not None and standing.cordon is None and not standing.is_gone
    ]
    starts = count_starts(fleet, now)
    busy = {
        critical: {host for host in hosts if not has_free_core(fleet, host, starts, critical=critical)}
        for critical in (False, True)
    }
    waits: dict[str, str] = {}
    if not busy[False]:
        return waits
    due = [dagger for dagger in fleet.daggers.values() if _is_due(dagger, now)]
    for dagger in sorted(due, key=lambda dagger: place_in_queue(dagger, now)):
        possible = [dagger.ran_on] if dagger.ran_on in hosts else hosts
        if busy[is_critical(dagger.spec)].issuperset(possible):
            where = f"host {possible[0]} starts" if len(possible) == 1 else f"all {len(possible)} hosts start"
            before = f"; ahead of it in the queue: {len(waits):,}" if waits else ""
            waits[dagger.name] = f"{where} as many daggers as there are cores{before}"
    return waits


def _is_due(dagger: Dagger, now: datetime) -> bool:
    """Tell whether nothing but its turn keeps a dagger from being launched, as far as the log says."""
    return (
        wants_launch(dagger)
        and dagger.phase in (PENDING, STOPPING, BACKING_OFF)
        and (dagger.not_before is None or dagger.not_before <= now)
        and not (dagger.phase == PENDING and dagger.last_error is not None)
    )
