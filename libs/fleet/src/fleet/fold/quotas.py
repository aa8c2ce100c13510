"""Quotas of teams: what is used of them by the log, what they refuse, and what they warn of. Pure.

The fold refuses a dagger too many, wherever the record came from. A launch too many waits: the scheduler asks
`full` before each. What drivers read and write is warned of only, for nothing stops a stream that flows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from daggers.v1 import access_pb2, events_pb2, spec_pb2

from daggerspec import executors
from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB, DRIVER_OVERHEAD_MIB, MAX_SINKS
from fleet.fold.answers import Code, Refusal, about
from fleet.fold.catalogue import Catalogue
from fleet.fold.dagger import Dagger
from fleet.fold.drivers import Usage
from fleet.fold.phases import DELETED
from fleet.fold.tenancy import administrators

MAX_DRIVERS: Final = "MAX_DRIVERS"
MAX_MEMORY: Final = "MAX_MEMORY"
TEAM_QUOTA: Final = "TEAM_QUOTA"

NAMES: Final = 10_000
"""Names of deleted daggers, and destinations, that are a team's: each stays with all who fold the log."""

WORDS: Final[Mapping[str, str]] = {
    "daggers": "daggers",
    "drivers": "drivers at once",
    "memory_mib": "MiB of memory",
    "executor_cores": "cores of executors",
    "records_per_second": "records a second",
    "rows_per_minute": "rows a minute",
}
"""Measures that a team has quotas of, in the order of the message; and how a sentence counts them."""
WARNED_ONLY: Final = frozenset({"records_per_second", "rows_per_minute"})
"""Those without a hard bound."""
Uses = Mapping[str, float]
"""Amount used, by measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Room that a host has for drivers."""

    drivers: int | None = None
    """Drivers at once; None: as many as have room."""
    memory_mib: int | None = None
    """MiB that drivers may need together; None: not counted."""
    driver_memory_mib: int = DEFAULT_DRIVER_MEMORY_MIB
    """Heap of a driver whose dagger does not say."""


@dataclass(frozen=True, slots=True)
class Full:
    """Reason why nothing further may be launched now: no driver, no replay."""

    reason: str
    detail: str
    """One sentence."""
    domain: events_pb2.ErrorDomain.ValueType = events_pb2.ERROR_DOMAIN_EXTERNAL
    """Domain of who can change that."""

    @property
    def error(self) -> events_pb2.DaggerError:
        """Error of a dagger or replay that waits for room."""
        return events_pb2.DaggerError(
            domain=self.domain, reason=self.reason, detail=self.detail, retryable=True
        )


def need_mib(spec: spec_pb2.DaggerSpec, driver_memory_mib: int = DEFAULT_DRIVER_MEMORY_MIB) -> int:
    """Return the MiB that a launch counts: the heap, and what the process needs beside it."""
    return (spec.driver_memory_mib or driver_memory_mib) + DRIVER_OVERHEAD_MIB


def count_executor_cores(catalogue: Catalogue, usage: Usage) -> int:
    """Return the cores of executors that drivers count, on clusters that have executors."""
    return sum(
        drivers * _executor_cores(catalogue, cluster, spec_pb2.Executors.FromString(own))
        for (cluster, own), drivers in usage.shares.items()
    )


def _executor_cores(catalogue: Catalogue, cluster: str, own: spec_pb2.Executors) -> int:
    """Return the cores of executors that one driver counts; 0 where its cluster has none."""
    entry = catalogue.clusters.get(cluster)
    if entry is None or not executors.has_executors(entry.value):
        return 0
    return executors.resolve(own, entry.value.executors).cores_max


def of(catalogue: Catalogue, team: str, name: str) -> access_pb2.Quota:
    """Return a quota of a team; an empty one where it has none."""
    entry = catalogue.teams.get(team)
    quota: access_pb2.Quota = getattr(entry.value.quotas if entry else access_pb2.Quotas(), name)
    return quota


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse_dagger(
    catalogue: Catalogue, own: Collection[str], event: events_pb2.DaggerRequested
) -> Refusal | None:
    """Refuse a team a further dagger beyond its quota; what it has already may change.

    own: names of the team's daggers that are not deleted.
    """
    team, has = event.spec.team, len(own)
    quota = of(catalogue, team, "daggers")
    if not quota.HasField("hard") or event.name in own or has < quota.hard:
        return None
    more = f"delete one, or ask {administrators(catalogue)} for more"
    text = f"team {team} has {has:,} daggers, and its quota is {quota.hard:,}: {more}"
    metadata = {**about("team", team), "quota": "daggers", "limit": str(quota.hard), "used": str(has)}
    return Refusal(Code.RESOURCE_EXHAUSTED, TEAM_QUOTA, text, metadata)


class SpentNames:
    """Refuses a team a new name where it spent all that are remembered for one: of a dagger, or of what one
    writes to. What has a name already may change.

    For who writes the log: the fold takes what stands there, as it did before there was a bound. Names are
    counted again only where the bound may have been reached since: with ten thousand daggers a count takes
    more than all else of a request.
    """

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], tuple[int, int]] = {}
        """Number, and the sequence of the fold then, by team and measure."""

    def refusal(
        self,
        catalogue: Catalogue,
        daggers: Mapping[str, Dagger],
        event: events_pb2.DaggerRequested,
        sequence: int,
    ) -> Refusal | None:
        """Refuse a request a new name where its team has spent its own. sequence: of the newest record
        folded.
        """
        team, owned = event.spec.team, catalogue.destinations
        if event.name not in daggers and len(daggers) >= NAMES:

            def count_deleted() -> int:
                return sum(
                    dagger.phase == DELETED and dagger.spec.team == team for dagger in daggers.values()
                )

            # A record deletes one dagger at most.
            left = self._most(team, "names of deleted daggers", count_deleted, sequence, by_record=1)
            if left >= NAMES:
                return _refuse_name(team, "names of deleted daggers", "create one under such a name", left)
        if len(owned) >= NAMES and any(text not in owned for text in event.destinations):

            def count_owned() -> int:
                return sum(entry.value.team == team for entry in owned.values())

            # A record adds those of one dagger's sinks at most.
            has = self._most(team, "destinations", count_owned, sequence, by_record=MAX_SINKS)
            if has >= NAMES:
                return _refuse_name(team, "destinations", "release some (`daggers team release`)", has)
        return None

    def _most(
        self, team: str, measure: str, count: Callable[[], int], sequence: int, *, by_record: int
    ) -> int:
        """Return how many names there are at most, and from the bound on exactly."""
        number, since = self._counted.get((team, measure), (NAMES, sequence))
        most = number + (sequence - since) * by_record
        if most < NAMES:
            return most
        number = count()
        self._counted[team, measure] = number, sequence
        return number


def _refuse_name(team: str, measure: str, instead: str, used: int) -> Refusal:
    text = f"team {team} has {used:,} {measure}, and no more than {NAMES:,} are remembered for one: {instead}"
    metadata = {**about("team", team), "quota": "names", "limit": str(NAMES), "used": str(used)}
    return Refusal(Code.RESOURCE_EXHAUSTED, TEAM_QUOTA, text, metadata)


def full(catalogue: Catalogue, own: Usage, here: Usage, dagger: Dagger, room: Room) -> Full | None:
    """Return why this dagger gets no driver now, the host's reasons first; None where there is room.

    own: what its team uses already. here: what is used of the host that has this room.
    """
    need = need_mib(dagger.spec, room.driver_memory_mib)
    if (why := host_full(here, need, room, lower="lower its driver_memory, ")) is not None:
        return why
    team = dagger.spec.team
    counts: dict[str, Callable[[], tuple[int, int]]] = {
        "drivers": lambda: (own.drivers, 1),
        "memory_mib": lambda: (own.memory_mib(room.driver_memory_mib), need),
        "executor_cores": lambda: (
            count_executor_cores(catalogue, own),
            _executor_cores(catalogue, dagger.spec.cluster, dagger.spec.executors),
        ),
    }
    for name, count in counts.items():
        quota = of(catalogue, team, name)
        if not quota.HasField("hard"):  # as most teams; a count takes longer than all else of a placement
            continue
        has, more = count()
        if more and has + more > quota.hard:
            text = (
                f"team {team} has {has:,} {WORDS[name]}, this would be {more:,} more, and its quota is"
                f" {quota.hard:,}: stop another of its daggers, or ask {administrators(catalogue)} for more"
            )
            return Full(TEAM_QUOTA, text, events_pb2.ERROR_DOMAIN_USER)
    return None


def host_full(running: Usage, need: int, room: Room, *, lower: str = "") -> Full | None:
    """Return why a host has no room for `need` MiB beside the drivers that run; None where it has. lower:
    text that says how the dagger can need less, for the start of the advice.
    """
    used, drivers = running.memory_mib(room.driver_memory_mib), running.drivers
    if room.drivers is not None and drivers >= room.drivers:
        return Full(
            MAX_DRIVERS,
            f"{drivers} drivers run, this host takes {room.drivers}: it starts when one ends."
            " Stop another dagger, or raise DAGGERS_SCHEDULER_MAX_DRIVERS",
        )
    if room.memory_mib is not None and used + need > room.memory_mib:
        return Full(
            MAX_MEMORY,
            f"it needs {need:,} MiB, and {drivers} drivers that run need {used:,} of the"
            f" {room.memory_mib:,} that this host has for them: {lower}stop another dagger,"
            " or raise DAGGERS_SCHEDULER_MEMORY_MIB",
        )
    return None


def mib_left(running: Usage, room: Room) -> int | None:
    """Return MiB that a host has beside the drivers that run there; None: nobody counts."""
    if room.memory_mib is None:
        return None
    return room.memory_mib - running.memory_mib(room.driver_memory_mib)


def room_left(running: Usage, room: Room) -> int | None:
    """Return how many drivers of the usual size a host takes beside those that run; None: nobody counts."""
    bounds = []
    if room.drivers is not None:
        bounds.append(room.drivers - running.drivers)
    if (left := mib_left(running, room)) is not None:
        bounds.append(left // need_mib(spec_pb2.DaggerSpec(), room.driver_memory_mib))
    return max(0, min(bounds)) if bounds else None


def count_alike(running: Usage, room: Room) -> int | None:
    """Return how many more daggers like those that run fit beside them, of the usual size where none runs;
    None: nobody counts.
    """
    bounds, drivers = [], running.drivers
    if room.drivers is not None:
        bounds.append(room.drivers - drivers)
    if room.memory_mib is not None:
        used = running.memory_mib(room.driver_memory_mib)
        mib_of_one = used / drivers if drivers else need_mib(spec_pb2.DaggerSpec(), room.driver_memory_mib)
        bounds.append(int((room.memory_mib - used) // mib_of_one))
    return max(0, min(bounds)) if bounds else None


# ---- What is used, and warned of ---------------------------------------------------------------------------


def uses(
    catalogue: Catalogue, own: Collection[Dagger], rates: Callable[[Dagger], tuple[float, float]]
) -> dict[str, float]:
    """Return what a team uses now, by measure. own: its daggers that are not deleted. rates: returns records
    a second and rows a minute of a dagger.
    """
    running, flows = Usage.of(dagger for dagger in own if dagger.occupied), [rates(dagger) for dagger in own]
    return {
        "daggers": len(own),
        "drivers": running.drivers,
        "memory_mib": running.memory_mib(Room().driver_memory_mib),
        "executor_cores": count_executor_cores(catalogue, running),
        "records_per_second": sum(records for records, _ in flows),
        "rows_per_minute": sum(rows for _, rows in flows),
    }


def has_warning(catalogue: Catalogue, team: str) -> bool:
    """Tell whether a team has a quota that warns."""
    entry = catalogue.teams.get(team)
    fields = entry.value.quotas.ListFields() if entry is not None else ()
    return any(field.name in WORDS and quota.HasField("soft") for field, quota in fields)


def find_exceeded(catalogue: Catalogue, team: str, used: Uses) -> Iterator[tuple[str, int]]:
    """Yield name and bound of each quota of which more is used than where it warns."""
    for name in WORDS:
        quota = of(catalogue, team, name)
        if quota.HasField("soft") and used[name] > quota.soft:
            yield name, quota.soft


def describe_exceeded(catalogue: Catalogue, team: str, used: Uses) -> Iterator[str]:
    """Yield a sentence for each exceeded quota, without a number that changes: an alert has the same text
    while it lasts.
    """
    for name, soft in find_exceeded(catalogue, team, used):
        yield f"team {team} has more than {soft:,} {WORDS[name]}, from where on its quota warns"
