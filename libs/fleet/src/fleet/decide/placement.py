"""Choose the host of a launch: by what it has, by the room that drivers leave, by its neighbours. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from daggers.v1 import events_pb2

from daggerspec.priority import is_critical
from fleet.decide.packing import LAUNCH_MIB
from fleet.decide.requirements import READER, find_unmet, needs_user
from fleet.fold import quotas
from fleet.fold.dagger import Dagger
from fleet.fold.drivers import HostDrivers
from fleet.fold.fleet import Fleet
from fleet.fold.hosts import Standing
from fleet.fold.quotas import Full, Room

AGENT_TOO_OLD: Final = "AGENT_TOO_OLD"
"""Reason of an agent that does not launch what says more than its version knows."""
HOST_LACKS: Final = "HOST_LACKS"
"""Reason of an agent whose host has not what a launch needs."""
NO_HOST: Final = "NO_HOST"
"""Reason of a launch that no host can take, whatever room it has."""
_BUSY: Final = 1.0
"""Load from where on a host is passed over while another one has room: as many busy processors as it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Host that can launch."""

    host: str
    room: Room
    """Room that it has for all its drivers."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that its administrator gave it."""
    lacks: frozenset[str] = frozenset()
    """Needs that it says it cannot meet, in the words of `fleet.decide.requirements`."""
    load: float = 0.0
    """Busy processors for each that it has; 0 where nobody measures it."""


def room_of(standing: Standing, driver_memory_mib: int, measured_mib: int = 0) -> Room:
    """Return what another host has for drivers: as it measured last, else as it registered.

    driver_memory_mib: heap in MiB of a driver whose dagger does not say. measured_mib: 0 where unknown.
    """
    registered = standing.registered
    if registered is None:
        return Room(driver_memory_mib=driver_memory_mib)
    return Room(
        drivers=registered.max_drivers or None,
        memory_mib=measured_mib or registered.memory_mib or None,
        driver_memory_mib=driver_memory_mib,
    )


def describe_candidate(host: str, standing: Standing, room: Room, busy_cores: float = 0.0) -> Candidate:
    """Describe a host with so much room as it registered it. busy_cores: 0 where nobody measures it."""
    registered = standing.registered
    if registered is None:
        return Candidate(host=host, room=room)
    return Candidate(
        host=host,
        room=room,
        labels=registered.labels,
        lacks=frozenset(registered.lacks),
        load=busy_cores / registered.cores if registered.cores else 0.0,
    )


def joins_none(*_: object) -> bool:
    """Tell of each host that a launch joins no process there."""
    return False


def choose_host(
    fleet: Fleet,
    dagger: Dagger,
    candidates: Sequence[Candidate],
    *,
    beside: bool = False,
    joins: Callable[[str], bool] = joins_none,
) -> str | Full:
    """Return the host of the dagger's next launch, or why there is none.

    candidates: hosts that can launch it, at least one, the leader's own first. beside: whether there are
    hosts that were left out. joins: tells of a host whether the launch joins a process there, which counts
    already. What a host without others lacks is no reason: the launch says it in its own
    words.
    """
    scope: Sequence[Candidate] = () if beside else candidates
    user = needs_user(fleet, dagger.spec.team)
    unfit = {
        one.host: why for one in candidates if (why := _explain_unfit(fleet, dagger, one, scope, user=user))
    }
    able = [one for one in candidates if one.host not in unfit]
    if not able:
        hosts = "; ".join(f"{host} has no {why}" for host, why in unfit.items())
        return Full(NO_HOST, f"no host can run it: {hosts}", events_pb2.ERROR_DOMAIN_USER)
    of_team = fleet.drivers.of_team(dagger.spec.team, beside=dagger.name)
    there = {one.host: fleet.drivers.on(one.host, beside=dagger.name) for one in able}
    joined = {one.host for one in able if joins(one.host)}
    fits: list[Candidate] = []
    reasons: list[Full] = []
    for one in able:
        usage = there[one.host].usage
        if one.host in joined:
            full = quotas.host_full(usage, LAUNCH_MIB, replace(one.room, drivers=None))
        else:
            full = quotas.full(fleet.catalogue, of_team, usage, dagger, one.room)
        if full is not None:
            reasons.append(full)
        elif not _has_refused(dagger, one.host):
            fits.append(one)
    if not fits:
        error = dagger.last_error
        if beside and not reasons and error is not None:
            return Full(error.reason, error.detail)  # each has refused it, and there are others
        return reasons[0] if reasons else able[0].host
    # the first one is the leader's own, unless that was left out
    own = fleet.leader.host if beside and fleet.leader is not None else candidates[0].host
    return min(fits, key=lambda one: _rank(dagger, one, there[one.host], own, joins=one.host in joined)).host


def explain_unfit(fleet: Fleet, dagger: Dagger, candidate: Candidate) -> str:
    """Explain what a host has not that the dagger needs, as the rest of "it has no …"; empty: it has all."""
    return _explain_unfit(fleet, dagger, candidate, (), user=needs_user(fleet, dagger.spec.team))


def _explain_unfit(
    fleet: Fleet, dagger: Dagger, candidate: Candidate, candidates: Sequence[Candidate], *, user: bool
) -> str:
    """Explain it. candidates: all hosts in question; of a single one only labels count. user: whether the
    dagger's team needs one of its own.
    """
    lacks = candidate.lacks if len(candidates) != 1 else frozenset()
    unmet = find_unmet(fleet, dagger, labels=candidate.labels, lacks=lacks, needs_user=user)
    return ", ".join(unmet)


def _rank(
    dagger: Dagger, candidate: Candidate, there: HostDrivers, own: str, *, joins: bool
) -> tuple[float, ...]:
    """Return what makes a host that has room the better the less it is, what counts most first.

    Where the dagger last ran it runs again, else where it joins a process. A busy host is passed over.
    Critical daggers of a team are spread, daggers of one stream are together. The leader's own host has the
    spare, which starts at once.
    """
    is_beside = any(there.streams[read.stream] for read in dagger.spec.streams)
    left = quotas.mib_left(there.usage, candidate.room)
    return (
        candidate.host != dagger.ran_on,
        not joins,
        candidate.load >= _BUSY,
        there.critical[dagger.spec.team] if is_critical(dagger.spec) else 0,
        not is_beside,
        candidate.host != own,
        READER in candidate.lacks,
        -(math.inf if left is None else left),
    )


def _has_refused(dagger: Dagger, host: str) -> bool:
    """Tell whether a host was the last that could not launch the dagger: its agent is too old, or it lacks
    something that it has not registered yet.
    """
    error = dagger.last_error
    return error is not None and error.reason in (AGENT_TOO_OLD, HOST_LACKS) and dagger.host == host
