"""Decide which launches share a driver's process: who may, which process one joins, and who moves. Pure.

Daggers share that trust each other, that are light, and whose JVM is started alike. How many a process has
room for is said by the memory that its launches are measured to take, not by a count. A launch that grows
leaves before it harms, and comes back when it has long been light.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import access_pb2, events_pb2, gateway_pb2, spec_pb2, telemetry_pb2

from daggerspec import isolation
from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB, DRIVER_OVERHEAD_MIB
from daggerspec.master import parse
from fleet.decide.requirements import takes_environment
from fleet.fold.dagger import Dagger
from fleet.fold.drivers import process_of
from fleet.fold.fact_changes import TWO_DEATHS
from fleet.fold.fleet import Fleet
from fleet.fold.phases import DEGRADED, RUNNING, STOPPING

LIGHT_RECORDS: Final = 100.0
"""Records a second that a light dagger reads at most."""
LIGHT_BACKLOG: Final = 100_000
"""Records that a light dagger has still to read at most: more, and it catches up."""
LIGHT_STATE_ROWS: Final = 50_000
"""Rows of state that a light dagger has at most."""
LIGHT_AGAIN: Final = 0.5
"""Share of each bound that it has to stay below to come back."""
LIGHT_FOR: Final = timedelta(minutes=30)
"""Time for which it has to stay below, to come back."""
MOVE_EVERY: Final = timedelta(hours=1)
"""Time between two moves of a dagger, but for those that others need."""
FULL: Final = 0.75
"""Share of the memory of a process from where on none joins it: heap, and what it needs beside it."""
CROWDED: Final = 0.9
"""Share of that memory from where on one leaves it."""
LAUNCH_MIB: Final = 32
"""Memory of a launch in a process before it is measured."""
PROCESS_MIB: Final = 620
"""Memory of a process with its first launch, before it is measured."""
_SPAN: Final = timedelta(seconds=30)
"""Least time over which records a second are counted, from a batch that has read some to another."""
_NO_BATCH: Final = timedelta(minutes=2)
"""Time over which they are counted without a further batch: records wait for one no longer."""
_SETTLED: Final = timedelta(seconds=60)
"""Time over which the least memory counts: helpers of a start end within it, and each is large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load of a launch, as its heartbeats say it."""

    generation: int
    began: datetime
    """Time of its first heartbeat."""
    since: datetime
    """Time from which its records are counted."""
    records: int
    """Records that it had read then."""
    records_per_second: float = 0.0
    backlog: int = 0
    """Records that it has still to read."""
    state_rows: int = 0
    memory_mib: int = 0
    """Its share in the memory of its process, the least of the last minute; 0: it has not run that long."""
    shares: tuple[tuple[datetime, int], ...] = ()
    """Its shares of the last minute, in MiB, by time."""
    light_since: datetime | None = None
    """Time since when it is far below all bounds; None: it is not."""


Loads: TypeAlias = Mapping[str, Load]
"""Loads by the names of daggers; nothing where a launch is not measured yet."""


def measure(before: Load | None, heartbeat: telemetry_pb2.Heartbeat, now: datetime) -> Load:
    """Return the load of a launch after a heartbeat. before: after the one before; None: it is the first."""
    if before is None or before.generation != heartbeat.generation or heartbeat.rows_in < before.records:
        before = Load(generation=heartbeat.generation, began=now, since=now, records=heartbeat.rows_in)
    span = now - before.since
    newest = (now, heartbeat.memory_bytes >> 20)
    shares = (*((time, mib) for time, mib in before.shares if now - time <= _SETTLED), newest)
    has_settled = now - before.began >= _SETTLED
    load = replace(
        before,
        backlog=sum(heartbeat.lag.values()),
        state_rows=heartbeat.state_rows,
        memory_mib=min(mib for _, mib in shares) if has_settled else 0,
        shares=shares,
    )
    if span >= (_SPAN if heartbeat.rows_in > before.records else _NO_BATCH):
        rate = (heartbeat.rows_in - before.records) / span.total_seconds()
        load = replace(load, since=now, records=heartbeat.rows_in, records_per_second=rate)
    is_light = not any(_find_excess(load, LIGHT_AGAIN))
    return replace(load, light_since=(before.light_since or now) if is_light else None)


def _find_excess(load: Load, share: float = 1.0) -> Iterator[str]:
    """Yield in which respect a load is over a share of the bounds of a light one, as clauses."""
    if load.records_per_second > LIGHT_RECORDS * share:
        yield f"it reads {load.records_per_second:,.0f} records/s, more than {LIGHT_RECORDS * share:,.0f}"
    if load.backlog > LIGHT_BACKLOG * share:
        yield f"it catches up with {load.backlog:,} records"
    if load.state_rows > LIGHT_STATE_ROWS * share:
        yield f"it has {load.state_rows:,} open groups, more than {LIGHT_STATE_ROWS * share:,.0f}"


def explain_heavy(load: Load | None) -> str:
    """Explain why a launch is not light, in one clause; empty where it is, or is not measured yet."""
    return "" if load is None else next(_find_excess(load), "")


def is_asked_to_share(fleet: Fleet, dagger: Dagger) -> bool:
    """Tell whether a dagger, or its team, says that it shares processes."""
    requested = isolation.resolve(dagger.spec, _team_of(fleet, dagger))
    return bool(requested == spec_pb2.ISOLATION_SHARED)


def _team_of(fleet: Fleet, dagger: Dagger) -> access_pb2.Team | None:
    entry = fleet.catalogue.teams.get(dagger.spec.team)
    return None if entry is None else entry.value


def explain_alone(fleet: Fleet, dagger: Dagger) -> str:
    """Explain why a dagger has a process of its own, in one clause; empty where it may share one."""
    if not is_asked_to_share(fleet, dagger):
        requested = isolation.find_requested(dagger.spec, _team_of(fleet, dagger))
        if requested == spec_pb2.ISOLATION_DEDICATED:
            return "isolation is DEDICATED"
        return "isolation is AUTO, which means a process of its own for now"
    cluster = fleet.clusters.get(dagger.spec.cluster)
    if why := isolation.explain_alone(dagger.spec, None if cluster is None else cluster.value):
        return why
    if takes_environment(fleet, dagger.spec):
        return isolation.TAKES_ENVIRONMENT
    if dagger.isolated:
        return f"{TWO_DEATHS}; edit it, and it shares again"
    return dagger.left_because


@dataclass(frozen=True, slots=True)
class Circle:
    """Daggers that may share a process: those that trust each other, with one user and one kind of JVM."""

    team: str
    """Empty: of all teams whose administrator says that they share the platform."""
    user: str
    """User that their drivers run as; empty: the scheduler's own."""
    master: str
    """URL of their Spark master."""


UserOf: TypeAlias = Callable[[str], str]
"""Returns the user of a host that a team's drivers run as."""


def circle_of(fleet: Fleet, dagger: Dagger, user_of: UserOf) -> Circle | None:
    """Return with whom a dagger may share; None where it has a process of its own."""
    if explain_alone(fleet, dagger):
        return None
    cluster = fleet.clusters.get(dagger.spec.cluster)
    master = parse(cluster.value.spark_master) if cluster is not None else None
    if master is None or not master.is_local:
        return None
    return Circle(_trusts(fleet, dagger), user_of(dagger.spec.team), master.url)


def choose_process(
    fleet: Fleet,
    dagger: Dagger,
    host: str,
    loads: Loads,
    driver_memory_mib: int,
    user_of: UserOf,
    lives: Callable[[events_pb2.DriverHandle], bool] = lambda _: True,
) -> events_pb2.DriverHandle | None:
    """Return the driver whose process the next launch of a dagger joins on a host; None: none.

    driver_memory_mib: heap in MiB of a driver whose dagger does not say. lives: tells whether the process of
    a driver takes launches, as far as that is known. The one with most daggers of its topics is the best, and
    among these the fullest.
    """
    circle = circle_of(fleet, dagger, user_of)
    if circle is None or explain_heavy(loads.get(dagger.name)):
        return None
    streams = {read.stream for read in dagger.spec.streams}
    best: tuple[tuple[int, int], events_pb2.DriverHandle] | None = None
    for members in list_processes(fleet, host):
        others = [member for member in members if member.name != dagger.name]
        if not _may_be_joined(fleet, others, circle, loads, user_of):
            continue
        if estimate_mib(others, loads) + LAUNCH_MIB > FULL * _bound_mib(driver_memory_mib):
            continue
        together = sum(any(read.stream in streams for read in member.spec.streams) for member in others)
        driver = others[0].driver
        is_best = best is None or (together, len(others)) > best[0]
        if driver is not None and is_best and lives(driver):
            best = (together, len(others)), driver
    return best[1] if best is not None else None


def list_processes(fleet: Fleet, host: str) -> Iterator[list[Dagger]]:
    """Yield the daggers of each process of a host that is known, in the order of their launches."""
    listed = set()
    for dagger in fleet.drivers.on(host).daggers.values():
        process = process_of(dagger.driver)
        if process is not None and process not in listed:
            listed.add(process)
            yield fleet.drivers.in_process(dagger.driver)


def _may_be_joined(
    fleet: Fleet, members: list[Dagger], circle: Circle, loads: Loads, user_of: UserOf
) -> bool:
    """Tell whether launches let one of a circle into their process: some share it and go on, and none is
    heavy. One that is to leave, for an edit of it says so, is trusted as long as it is there.
    """
    stays = any(
        member.phase != STOPPING
        and member.desired == gateway_pb2.DESIRED_RUNNING
        and circle_of(fleet, member, user_of) == circle
        for member in members
    )
    return stays and not any(
        explain_heavy(loads.get(member.name)) or _trusts(fleet, member) != circle.team for member in members
    )


def _trusts(fleet: Fleet, dagger: Dagger) -> str:
    """Return the team whose daggers a dagger may share with; empty: all that share the platform."""
    team = _team_of(fleet, dagger)
    return "" if team is not None and team.shares_platform else dagger.spec.team


def estimate_mib(members: list[Dagger], loads: Loads) -> int:
    """Estimate the MiB that a process takes with these launches: what those that are measured have of it, and
    what others will.
    """
    measured = [_find_measured(member, loads) for member in members]
    shares = [load.memory_mib for load in measured if load is not None]
    return (sum(shares) if shares else PROCESS_MIB) + (len(members) - len(shares)) * LAUNCH_MIB


def _find_measured(member: Dagger, loads: Loads) -> Load | None:
    """Return the load of the newest launch of a dagger; None until its memory is measured."""
    load = loads.get(member.name)
    is_measured = load is not None and load.generation == member.generation and load.memory_mib
    return load if is_measured else None


def _bound_mib(driver_memory_mib: int) -> int:
    return driver_memory_mib + DRIVER_OVERHEAD_MIB


@dataclass(frozen=True, slots=True)
class Move:
    """A launch that goes on in another process of its host, from its checkpoint."""

    dagger: Dagger
    leaves: str = ""
    """Reason why it goes on in a process of its own, a clause; empty: it returns to others."""

    def as_fact(self) -> events_pb2.StopIssued:
        """Build the fact that makes it stop: its next launch goes where it belongs."""
        return events_pb2.StopIssued(
            mode=events_pb2.STOP_MODE_DRAIN, leaves=self.leaves, returns=not self.leaves
        )


HasRoom: TypeAlias = Callable[[Dagger], bool]
"""Tells of a dagger as it will be launched whether some host takes that."""
FindProcess: TypeAlias = Callable[[Dagger, str], events_pb2.DriverHandle | None]
"""Finds the driver whose process the next launch of a dagger joins on a host, as `choose_process` does."""


def next_move(
    fleet: Fleet,
    host: str,
    loads: Loads,
    driver_memory_mib: int,
    now: datetime,
    *,
    has_room: HasRoom,
    find_process: FindProcess,
) -> Move | None:
    """Return the launch of a host that moves next; None: none does, or one is on its way.

    One that is not light leaves its process at once, and of a process that is full the heaviest one, where
    there is room for a process of its own. One that has left returns after it was far below all bounds for
    `LIGHT_FOR`, `MOVE_EVERY` after it left at the soonest, where a process takes it.
    """
    movers = [dagger for dagger in fleet.drivers.on(host).daggers.values() if _is_moving(dagger, now)]
    if movers:
        return None
    for members in list_processes(fleet, host):
        leaver = _find_leaver(members, loads, driver_memory_mib, has_room) if len(members) > 1 else None
        if leaver is not None:
            return leaver
    for dagger in fleet.drivers.on(host).daggers.values():
        is_due = _may_return(dagger, loads.get(dagger.name), now)
        if is_due and find_process(dagger.but(left_because=""), host) is not None:
            return Move(dagger)
    return None


def _is_moving(dagger: Dagger, now: datetime) -> bool:
    """Tell whether a dagger is on its way between two processes."""
    is_recent = dagger.left_time is not None and now - dagger.left_time < timedelta(minutes=2)
    return is_recent and dagger.phase not in (RUNNING, DEGRADED)


def _find_leaver(
    members: list[Dagger], loads: Loads, driver_memory_mib: int, has_room: HasRoom
) -> Move | None:
    movable = [member for member in members if member.phase in (RUNNING, DEGRADED) and member.current]
    for member in movable:
        load = loads.get(member.name)
        is_measured = load is not None and load.generation == member.generation
        if is_measured and (why := explain_heavy(load)) and has_room(member.but(left_because=why)):
            return Move(member, why)
    # Shares of before the newest one joined add up to more than the process takes.
    is_measured = all(_find_measured(member, loads) is not None for member in members)
    if movable and is_measured and estimate_mib(members, loads) > CROWDED * _bound_mib(driver_memory_mib):
        heaviest = max(movable, key=lambda member: _weigh(loads.get(member.name)))
        why = "its process had no memory left, and it has most open groups there"
        return Move(heaviest, why) if has_room(heaviest.but(left_because=why)) else None
    return None


def _weigh(load: Load | None) -> tuple[int, float]:
    return (load.state_rows, load.records_per_second) if load is not None else (0, 0.0)


def _may_return(dagger: Dagger, load: Load | None, now: datetime) -> bool:
    return (
        bool(dagger.left_because)
        and dagger.phase == RUNNING
        and dagger.current
        and dagger.left_time is not None
        and now - dagger.left_time >= MOVE_EVERY
        and load is not None
        and load.light_since is not None
        and now - load.light_since >= LIGHT_FOR
    )


def describe_company(fleet: Fleet, dagger: Dagger) -> gateway_pb2.Company | None:
    """Describe with whom a dagger's driver shares its process, and why not with others; None without one."""
    if dagger.driver is None:
        return None
    others = sorted(one.name for one in fleet.drivers.in_process(dagger.driver) if one.name != dagger.name)
    return gateway_pb2.Company(daggers=others, alone_because=explain_alone(fleet, dagger))


def foresee_process(fleet: Fleet, dagger: Dagger, host: str) -> events_pb2.DriverHandle | None:
    """Foresee the driver whose process the next launch of a dagger would join on a host, as far as the log
    says: loads and users a scheduler knows.
    """
    return choose_process(fleet, dagger, host, {}, DEFAULT_DRIVER_MEMORY_MIB, lambda _: "")


def foresee_company(fleet: Fleet, dagger: Dagger) -> gateway_pb2.Company | None:
    """Foresee with whom the next launch of a dagger would share a process on the host where it runs, and why
    with none, as far as the log says; None where nobody asks for that.
    """
    if not is_asked_to_share(fleet, dagger):
        return None
    why = explain_alone(fleet, dagger)
    host = fleet.host_of(dagger) or (fleet.leader.host if fleet.leader is not None else "")
    process = foresee_process(fleet, dagger, host)
    others = [one.name for one in fleet.drivers.in_process(process) if one.name != dagger.name]
    return gateway_pb2.Company(daggers=sorted(others), alone_because=why)
