"""A model of a spool, what a sink has not taken (`docs/freshness.md`). Every order of its steps is tried.

One sink that comes and goes, one driver at a time, a few batches of two rows: part 0 updates the row `x`
again and again (`emit: early`), part 1 writes a row of its own (a final window). A step is one thing that can
be done or left undone by a kill: one row written, appended or set aside, a marker appended, Spark's commit, a
deletion.

What the model leaves out: rows in flight while a driver loses its lease, which are as they are without a
spool; the time bound, which does what the bound of size does; several partitions, each as this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from runtime.spool.state import LogLimit, LogState, Whole, read_state

PARTS: Final = (0, 1)
END: Final = -1
"""In place of a part: the marker behind all rows of a batch."""
Entry = tuple[int, int, int]
"""Of the log: epoch of the query, batch, part."""


class BrokenError(AssertionError):
    """Raised where what has to hold does not."""


@dataclass(frozen=True)
class Rules:
    """Rules of the design, each of which can be taken away."""

    direct_when_empty: bool = True
    """A batch is written to the sink itself only while its log is empty."""
    marks_before_commit: bool = True
    """Spark commits behind the marker, never before."""
    deletes_taken: bool = True
    """The log is deleted up to a marker once the sink has all of that batch."""
    fenced: bool = True
    """Only the driver that holds the lease does anything."""
    replay_waits: bool = True
    """A replay corrects rows of a sink only while its log is empty."""
    oldest_aside: bool = True
    """Rows beyond the bound are set aside from the log's begin: the sink gets the newest."""
    host_is_no_place: bool = True
    """The log is in no host: a driver on another host reads it."""
    counts_whole: bool = True
    """Only whole batches count against the bound: what a kill left of one is in nobody's way."""


@dataclass(frozen=True)
class Driver:
    """Memory of a driver: nothing of it outlives a kill."""

    epoch: int
    batch: int | None = None
    """The batch that it works on; None between two."""
    part: int = 0
    """The next part of its batch."""
    spools: bool = False
    """True if the batch goes to the log."""
    has_marked: bool = False
    drained: frozenset[Entry] = frozenset()
    """Entries of the first batch in the log that the sink has taken, by this driver's memory."""


@dataclass(frozen=True, kw_only=True)
class SpoolWorld:
    """Everything, at one moment."""

    committed: int = 0
    log: tuple[Entry, ...] = ()
    sink: frozenset[tuple[str, float]] = frozenset()
    """Rows by key, with the batch that wrote them; a corrected row is half a batch newer."""
    is_up: bool = True
    aside: frozenset[tuple[int, int]] = frozenset()
    drivers: tuple[Driver, ...] = (Driver(0),)
    """The last holds the lease."""
    kills: int
    """Faults of each kind that may still happen."""
    outages: int
    edits: int = 1
    replays: int = 1


@dataclass(frozen=True)
class Setting:
    """One setting to try in every order of steps."""

    rules: Rules = field(default_factory=Rules)
    batches: int = 3
    bound: int = 2
    """Batches that the log may hold."""
    skips: bool = False
    """True if rows beyond the bound are set aside; else the driver waits."""
    kills: int = 1
    outages: int = 1


def explore(setting: Setting) -> int:
    """Try every order of steps; return how many worlds there are. Raises: BrokenError."""
    first = SpoolWorld(kills=setting.kills, outages=setting.outages)
    seen, open_ = {first}, [first]
    while open_:
        world = open_.pop()
        _check(world, setting)
        calm = False
        for name, after in _steps(world, setting):
            calm |= not name.startswith("fault")
            if after not in seen:
                seen.add(after)
                open_.append(after)
        if world.is_up and not calm and not _is_over(world, setting):
            raise BrokenError(f"nothing goes on: {world}")
        if _is_over(world, setting):
            _check_end(world, setting)
    return len(seen)


def _steps(world: SpoolWorld, setting: Setting) -> Iterator[tuple[str, SpoolWorld]]:
    rules = setting.rules
    acting = range(len(world.drivers)) if not rules.fenced else range(len(world.drivers))[-1:]
    for number in acting:
        for name, after, driver in _driver_steps(world, world.drivers[number], setting):
            drivers = (*world.drivers[:number], driver, *world.drivers[number + 1 :])
            yield name, replace(after, drivers=drivers)
    newest = world.drivers[-1]
    if not world.is_up:
        yield "fault: the sink is back", replace(world, is_up=True)
    elif world.outages:
        yield "fault: the sink goes", replace(world, is_up=False, outages=world.outages - 1)
    if world.kills:
        fewer = replace(world, kills=world.kills - 1)
        yield "fault: killed", replace(fewer, drivers=(*world.drivers[:-1], Driver(newest.epoch)))
        if not rules.fenced:
            yield "fault: taken for dead", replace(fewer, drivers=(newest, Driver(newest.epoch)))
        log = world.log if rules.host_is_no_place else ()
        yield "fault: moved", replace(fewer, drivers=(Driver(newest.epoch),), log=log)
    if world.edits:
        edited = replace(world, edits=world.edits - 1)
        yield "fault: edited, or cut over", replace(edited, drivers=(Driver(newest.epoch + 1),))
    if world.replays and world.committed and not (rules.replay_waits and world.log):
        batch = world.committed - 1
        if not any(row == (batch, 1) for row in world.aside):
            corrected = _put(world, f"w{batch}", batch + 0.5)
            yield "fault: replayed", replace(corrected, replays=world.replays - 1)


def _driver_steps(
    world: SpoolWorld, driver: Driver, setting: Setting
) -> Iterator[tuple[str, SpoolWorld, Driver]]:
    yield from _batch_steps(world, driver, setting)
    yield from _drain_steps(world, driver, setting)


def _batch_steps(
    world: SpoolWorld, driver: Driver, setting: Setting
) -> Iterator[tuple[str, SpoolWorld, Driver]]:
    """Yield the next steps of the batch after the committed ones."""
    rules, batch = setting.rules, driver.batch
    if batch is None:
        if world.committed < setting.batches:
            spools = not _log_state(world).is_empty and rules.direct_when_empty
            yield "begins", world, replace(driver, batch=world.committed, spools=spools)
        return
    if driver.part not in PARTS:
        if driver.spools and not driver.has_marked and rules.marks_before_commit:
            log = (*world.log, (driver.epoch, batch, END))
            yield "marks", replace(world, log=log), replace(driver, has_marked=True)
        else:
            committed = max(world.committed, batch + 1)
            yield "commits", replace(world, committed=committed), Driver(driver.epoch, drained=driver.drained)
        return
    further = replace(driver, part=driver.part + 1)
    if not driver.spools:
        if world.is_up:
            yield "writes", _write(world, batch, driver.part), further
        else:
            yield "gives up", world, replace(driver, spools=True)
        return
    if driver.part > 0 or not _is_full(world, setting):
        yield "appends", replace(world, log=(*world.log, (driver.epoch, batch, driver.part))), further
    elif setting.skips and not rules.oldest_aside:
        yield "sets aside", replace(world, aside=world.aside | {(batch, driver.part)}), further


def _drain_steps(
    world: SpoolWorld, driver: Driver, setting: Setting
) -> Iterator[tuple[str, SpoolWorld, Driver]]:
    """Yield the steps with the first whole batch of the log; rows without a marker were never committed."""
    state = _log_state(world)
    if (first := state.first) is None:
        return
    marker = first.content
    rows = [entry for entry in world.log[: first.end - 1] if entry[:2] == marker[:2]]
    left = [entry for entry in rows if entry not in driver.drained]
    log = world.log[state.delete_first().begin :]
    behind, forgets = replace(world, log=log), replace(driver, drained=frozenset())
    if not setting.rules.deletes_taken and left:
        yield "deletes early", behind, forgets
    if left and world.is_up:
        _, batch, part = left[0]
        yield "drains", _write(world, batch, part), replace(driver, drained=driver.drained | {left[0]})
    elif not left:
        yield "deletes", behind, forgets
    if left and setting.skips and setting.rules.oldest_aside and _is_full(world, setting):
        aside = world.aside | {(batch, part) for _, batch, part in rows}
        yield "sets the oldest aside", replace(behind, aside=aside), forgets


def _log_state(world: SpoolWorld) -> LogState[Entry]:
    """Build what the driver knows of the log: what it decides by it, is decided by the driver's own code."""
    markers = [Whole(place + 1, 1, 0.0, entry) for place, entry in enumerate(world.log) if entry[2] == END]
    return read_state(0, len(world.log), markers)


def _is_full(world: SpoolWorld, setting: Setting) -> bool:
    """Tell whether no further batch may be appended."""
    if setting.rules.counts_whole:
        return _log_state(world).is_full(LogLimit(setting.bound, timedelta(days=1)), now=0.0)
    return len(world.log) >= setting.bound * len(PARTS)


def _write(world: SpoolWorld, batch: int, part: int) -> SpoolWorld:
    return _put(world, "x" if part == 0 else f"w{batch}", batch)


def _put(world: SpoolWorld, key: str, version: float) -> SpoolWorld:
    """Put a row into the sink. Raises: BrokenError for one that takes the place of a newer one."""
    rows = dict(world.sink)
    if rows.get(key, version) > version:
        raise BrokenError(f"{key} of {version} takes the place of {rows[key]}")
    return replace(world, sink=frozenset({**rows, key: version}.items()))


def _check(world: SpoolWorld, setting: Setting) -> None:
    """Check that nothing committed is lost, and the log is bounded. Raises: BrokenError."""
    rows = dict(world.sink)
    spooled = {entry[1:] for entry in world.log}
    for batch in range(world.committed):
        in_sink = rows.get("x", -1) >= batch, f"w{batch}" in rows
        for part in PARTS:
            if not (in_sink[part] or (batch, part) in spooled or (batch, part) in world.aside):
                raise BrokenError(f"part {part} of batch {batch} is nowhere: {world}")
    # what kills and edits left of a batch, at most all of it each time, is there as well
    if len(world.log) > (len(PARTS) + 1) * (setting.bound + setting.kills + SpoolWorld.edits):
        raise BrokenError(f"the log grows: {world}")


def _is_over(world: SpoolWorld, setting: Setting) -> bool:
    whole = _log_state(world).first
    return world.committed == setting.batches and whole is None and world.drivers[-1].batch is None


def _check_end(world: SpoolWorld, setting: Setting) -> None:
    """Check that the sink is as a recount, but for what is set aside; of updates it has the newest."""
    rows, last = dict(world.sink), setting.batches - 1
    for batch in range(setting.batches):
        if f"w{batch}" not in rows and (batch, 1) not in world.aside:
            raise BrokenError(f"w{batch} is missing: {world}")
    if rows.get("x") != last:
        raise BrokenError(f"x is not the newest: {world}")
