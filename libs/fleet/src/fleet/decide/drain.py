"""Decide where a launch may go beside cordoned hosts, and which dagger a drain moves next. Pure.

A drain moves one dagger after another, critical ones last: the next one is told to stop when the one before
runs elsewhere, has failed, or is not wanted any more. It is launched as any other dagger is, by placement. A
dagger that comes back to the host is left there: another attempt would silence it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from daggers.v1 import gateway_pb2

from daggerspec.priority import is_critical
from fleet.decide.packing import LAUNCH_MIB
from fleet.decide.placement import Candidate, choose_host, joins_none
from fleet.fold.dagger import Dagger
from fleet.fold.fleet import Fleet
from fleet.fold.phases import DEGRADED, FAILED, RUNNING, STARTING
from fleet.fold.quotas import Full, Room, need_mib

HOST_CORDONED: Final = "HOST_CORDONED"
"""Reason of a launch, a replay or a preview that every host which could run it takes no more: cordoned."""
NO_OTHER_HOST: Final = "NO_OTHER_HOST"
"""Reason of a dagger that no drain can move, because no other host is heard that reaches its checkpoint."""
CAME_BACK: Final = "CAME_BACK"
"""Reason of a dagger that a drain has stopped, and that no other host has taken."""
NOT_SETTLED: Final = "NOT_SETTLED"
"""Reason of a dagger that a drain leaves alone until something else about it is done."""
_MOVABLE: Final = (STARTING, RUNNING, DEGRADED)


def choose_place(
    fleet: Fleet,
    dagger: Dagger,
    candidates: Sequence[Candidate],
    *,
    joins: Callable[[str], bool] = joins_none,
) -> str | Full:
    """Return the host of the dagger's next launch, or why none has room.

    candidates, joins: as of `choose_host`. A cordoned one is left out; but when no other takes the dagger, it
    goes on where it ran last, or where its unanswered intent is: a cordon stops nothing.
    """
    free = [candidate for candidate in candidates if takes_new(fleet, candidate.host)]
    chosen = (
        choose_host(fleet, dagger, free, beside=len(free) < len(candidates), joins=joins)
        if free
        else build_cordoned(candidate.host for candidate in candidates)
    )
    if isinstance(chosen, Full) and len(free) < len(candidates):
        own = {dagger.ran_on, fleet.host_of(dagger) if dagger.unanswered else ""}
        back = [candidate for candidate in candidates if candidate not in free and candidate.host in own]
        again = choose_host(fleet, dagger, back, beside=True, joins=joins) if back else chosen
        return chosen if isinstance(again, Full) else again
    return chosen


def takes_new(fleet: Fleet, host: str) -> bool:
    """Tell whether launches may be placed on a host, as far as people have asked."""
    return fleet.standing(host).cordon is None


Joins: TypeAlias = Callable[[Dagger, str], bool]
"""Tells whether the next launch of a dagger joins a process on a host."""


def next_move(
    fleet: Fleet, host: str, candidates: Sequence[Candidate], joins: Joins = joins_none
) -> Dagger | None:
    """Return the dagger that a drain of a host stops now; None: none, or the one before is on its way.

    candidates: hosts that can launch what runs there, the leader's own first; that host may be one of them.
    """
    if find_mover(fleet, host) is not None:
        return None
    others = _list_others(fleet, host, candidates)
    for dagger in _order(fleet, host):
        has_obstacle = _find_obstacle(fleet, host, dagger) is not None
        if not has_obstacle and isinstance(_place(fleet, dagger, others, joins), str):
            return dagger
    return None


def find_mover(fleet: Fleet, host: str) -> Dagger | None:
    """Return the dagger that a drain of a host has stopped and that is to run again; None where none is."""
    cordon = fleet.standing(host).cordon
    for move in cordon.moves if cordon is not None else ():
        dagger = fleet.living(move.dagger)
        if (
            dagger is not None
            and not move.HasField("first_commit")
            and dagger.desired == gateway_pb2.DESIRED_RUNNING
            and dagger.phase != FAILED
        ):
            return dagger
    return None


def list_stays(
    fleet: Fleet, host: str, candidates: Sequence[Candidate], joins: Joins = joins_none
) -> Iterator[tuple[Dagger, Full]]:
    """Yield each dagger that a drain of a host would not move now, and why, in the order of moves.

    candidates: as in `next_move`. What moves takes room from what would move later.
    """
    others, mover = _list_others(fleet, host, candidates), find_mover(fleet, host)
    for dagger in _order(fleet, host):
        if dagger is mover:
            continue
        obstacle = _find_obstacle(fleet, host, dagger)
        place = obstacle or _place(fleet, dagger, others, joins)
        if isinstance(place, Full):
            yield dagger, place
        else:
            has_joined = joins(dagger, place)
            others = [
                _take(other, dagger, has_joined=has_joined) if other.host == place else other
                for other in others
            ]


def _order(fleet: Fleet, host: str) -> list[Dagger]:
    return sorted(fleet.occupied_on(host), key=lambda dagger: (is_critical(dagger.spec), dagger.name))


def _list_others(fleet: Fleet, host: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    return [other for other in candidates if other.host != host and takes_new(fleet, other.host)]


def _place(fleet: Fleet, dagger: Dagger, others: Sequence[Candidate], joins: Joins) -> str | Full:
    if others:
        chosen = choose_host(fleet, dagger, others, beside=True, joins=partial(joins, dagger))
        if isinstance(chosen, str):
            return chosen
        return replace(chosen, detail=f"no other host takes it; of host {others[0].host}: {chosen.detail}")
    return Full(
        NO_OTHER_HOST,
        "no other host is heard that takes launches and has the same checkpoint root"
        " (DAGGERS_SCHEDULER_CHECKPOINT_ROOT)",
    )


def _find_obstacle(fleet: Fleet, host: str, dagger: Dagger) -> Full | None:
    """Return why a dagger is left alone whatever room there is elsewhere; None: nothing speaks against it."""
    cordon = fleet.standing(host).cordon
    for move in cordon.moves if cordon is not None else ():
        if move.dagger == dagger.name and move.to_host == host:
            return Full(CAME_BACK, "it was stopped once, and no other host took it: drain again to try again")
    if dagger.shadow is not None:
        return Full(NOT_SETTLED, "an edit of it is being made beside its driver")
    if dagger.driver is None or dagger.phase not in _MOVABLE:
        phase = gateway_pb2.Phase.Name(dagger.phase)
        return Full(NOT_SETTLED, f"it is {phase}: there is no driver that could be told to finish its batch")
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return Full(NOT_SETTLED, "it is asked to stop")
    return None


def _take(candidate: Candidate, dagger: Dagger, *, has_joined: bool) -> Candidate:
    """Return a host with the room that is left beside one dagger more. has_joined: in a process of others."""
    room = candidate.room
    need = LAUNCH_MIB if has_joined else need_mib(dagger.spec, room.driver_memory_mib)
    left = Room(
        drivers=None if room.drivers is None else room.drivers - (not has_joined),
        memory_mib=None if room.memory_mib is None else room.memory_mib - need,
        driver_memory_mib=room.driver_memory_mib,
    )
    return replace(candidate, room=left)


def build_cordoned(hosts: Iterable[str]) -> Full:
    """Build the reason of what only these hosts could run, all of them cordoned."""
    return Full(
        HOST_CORDONED,
        f"every host that could run it is cordoned ({', '.join(hosts)}): uncordon one"
        " (`daggers host uncordon`), or add a host",
    )
