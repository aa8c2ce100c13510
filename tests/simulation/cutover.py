"""The protocol of a cutover (decision 109), as a model whose every interleaving is walked. Pure.

Windows are numbered by the order in which they end. Two generations read the same records: `old` writes,
`new` reads beside it with its sinks off. Whoever is killed is killed between any two steps; a scheduler that
is replaced knows the log and what it observes, and that is all that a step of it looks at here.

What the log says of it the fold of fleets judges: `judged` holds its rules against those of the model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Final

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog.testing import record
from fleet import Fleet

WINDOWS: Final = 5
KILLS: Final = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What keeps a cutover safe; a test takes each away."""

    proof: bool = True
    """Nothing is handed over before the old generation is proven dead."""
    held: bool = True
    """Nothing is handed over to a generation that has let go of a window which the old one did not write."""
    fence: bool = True
    """Before another generation is launched the shadow is proven dead."""


@dataclass(frozen=True, slots=True)
class World:
    """The log, what each generation has done, and what it has seen."""

    head: int = 0
    """Windows whose records are all there."""
    decided: int | None = None
    """CutoverDecided: the boundary."""
    handed: int | None = None
    """CutoverHanded: from behind which window the new generation writes."""
    old_lives: bool = True
    old_written: int = 0
    """As its checkpoint says."""
    old_cap: int | None = None
    """The boundary, as it looked last."""
    shadow: int | None = None
    """What the shadow has let go of, the windows that it closed; None: there is none."""
    shadow_holds: bool = False
    """Whether it has read the boundary, and said so: it closes nothing behind it."""
    writer: int | None = None
    """What the new generation has written; None: it does not write yet."""
    tried: bool = False
    """Whether there was a shadow: a version has one."""
    gone: int = 0
    """Windows that the new generation can no longer write when it begins to."""
    kills: int = 0
    rows: tuple[tuple[int, str], ...] = ()
    """Windows, each with who wrote it."""


def steps(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Everything that may happen next, each with its name."""
    yield from _drivers(world)
    yield from _scheduler(world, rules)
    if world.head < WINDOWS:
        yield "records", replace(world, head=world.head + 1)
    if world.kills < KILLS:
        kills = world.kills + 1
        if world.old_lives:
            yield "kill old", replace(world, old_lives=False, kills=kills)
        if world.shadow is not None:
            yield "kill shadow", replace(world, shadow=None, shadow_holds=False, kills=kills)


def _drivers(world: World) -> Iterator[tuple[str, World]]:
    """What it wrote last may be by what it looked at long before: a batch is written after the look at it."""
    if world.old_lives:
        if world.old_cap != world.decided:
            yield "old looks", replace(world, old_cap=world.decided)
        if world.old_written < world.head and (world.old_cap is None or world.old_written < world.old_cap):
            wrote = world.old_written + 1
            yield "old writes", replace(world, old_written=wrote, rows=(*world.rows, (wrote, "old")))
        if world.old_cap is not None and world.old_written >= world.old_cap:
            yield "old ends", replace(world, old_lives=False)
    if world.shadow is not None and world.handed is None:
        if world.decided is not None and not world.shadow_holds:
            yield "shadow holds", replace(world, shadow_holds=True)
        bound = world.head if not world.shadow_holds else min(world.head, world.decided or 0)
        if world.shadow < bound:
            yield "shadow closes", replace(world, shadow=world.shadow + 1)
    if world.writer is not None and world.writer < world.head:
        wrote = world.writer + 1
        told = world.rows if wrote <= world.gone else (*world.rows, (wrote, "new"))
        yield "new writes", replace(world, writer=wrote, rows=told)


def _scheduler(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    if world.writer is not None:
        return
    if not world.tried and world.old_lives:
        # From the beginning of the windows that are open: it has let go of no other.
        yield "ShadowIntended", replace(world, shadow=world.old_written, tried=True)
    if world.shadow is not None and world.decided is None and world.old_lives:
        # What is heard of both is old: the boundary may lie behind either when they read it.
        for boundary in range(1, WINDOWS + 1):
            yield "CutoverDecided", replace(world, decided=boundary)
    dead = not world.old_lives
    whole = world.shadow is not None and world.shadow <= world.old_written
    if (
        world.shadow is not None
        and world.shadow_holds
        and (dead or not rules.proof)
        and (whole or not rules.held)
    ):
        written = world.old_written
        handed = replace(world, handed=written, writer=written, gone=max(world.shadow, written))
        yield "CutoverHanded", replace(handed, shadow=None)
    if dead:  # an edit as ever: from the checkpoint of the old one
        if world.shadow is None:
            yield "LaunchIntended", replace(world, writer=world.old_written, gone=world.old_written)
        elif rules.fence:
            yield "shadow is fenced", replace(world, shadow=None, shadow_holds=False)
        else:
            # What the shadow held comes when it reads that nobody holds it any more.
            late = tuple((each, "shadow") for each in range(world.shadow + 1, world.head + 1))
            launched = replace(world, writer=world.old_written, gone=world.old_written, shadow=None)
            yield "LaunchIntended", replace(launched, rows=(*world.rows, *late))


def violation(world: World, rules: Rules) -> str:
    """What is wrong with a state; empty when nothing is. Where nothing can happen any more all is written."""
    written = [window for window, _ in world.rows]
    if len(written) != len(set(written)):
        return "a window is written by two generations"
    if not any(steps(world, rules)) and set(written) != set(range(1, WINDOWS + 1)):
        return "a window is missing in the end"
    return ""


_Ways = dict[World, tuple[World, str] | None]


def walk(rules: Rules) -> tuple[Set[World], list[str]]:
    """The states there are, and the shortest way to one that is wrong; no way when none is."""
    ways, wrong = _walk_orders(rules)
    if wrong is None:
        return ways.keys(), []
    return ways.keys(), [*(step for _, step in _way(ways, wrong)), violation(wrong, rules)]


def _walk_orders(rules: Rules) -> tuple[_Ways, World | None]:
    """How each state was come to, and the first one that is wrong."""
    first = World()
    ways: _Ways = {first: None}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        if violation(world, rules):
            return ways, world
        for step, after in steps(world, rules):
            if after not in ways:
                ways[after] = world, step
                queue.append(after)
    return ways, None


def _way(ways: _Ways, world: World) -> list[tuple[World, str]]:
    """The steps to a state, each with the state that it was taken in."""
    way: list[tuple[World, str]] = []
    while (came := ways[world]) is not None:
        way.append(came)
        world = came[0]
    return way[::-1]


# ---- What the log says of it, and the fold of it -----------------------------------------------------------

_OLD: Final = 2
_NAME: Final = "d"


def judged() -> Iterator[tuple[str, bool, bool]]:
    """Of every fact that anybody may write in every state there is: the step, whether the model has it, and
    whether the fold takes it.
    """
    ways, _ = _walk_orders(Rules())
    for world in ways:
        allowed = dict(steps(world, Rules()))
        hasty = {**dict(steps(world, Rules(proof=False, held=False, fence=False))), **allowed}
        for step, after in hasty.items():
            log = [message for before, each in _way(ways, world) for message in _facts(each, before, world)]
            if messages := _facts(step, world, after):
                fleet = _fold_records(log)
                changed = [
                    fleet.apply(record(_describe(message, fleet), sequence=fleet.sequence + 1)).changed
                    for message in messages
                ]
                yield step, step in allowed, all(changed)


def _fold_records(log: list[Message]) -> Fleet:
    """A dagger that runs and was edited, and what was said since."""
    meta = events_pb2.FactMeta(name=_NAME)
    running: list[Message] = [
        events_pb2.SchedulerStarted(scheduler_id="s"),
        events_pb2.DaggerRequested(name=_NAME, spec=spec_pb2.DaggerSpec(sql="one")),
        events_pb2.LaunchIntended(meta=meta, version=1),
        events_pb2.Launched(meta=meta, driver={"host": "h", "pid": 7}),
        events_pb2.Running(meta=meta),
        events_pb2.DaggerRequested(name=_NAME, spec=spec_pb2.DaggerSpec(sql="two")),
    ]
    fleet = Fleet()
    for sequence, message in enumerate([*running, *log]):
        fleet.apply(record(_describe(message, fleet), sequence=sequence))
    return fleet


def _describe(message: Message, fleet: Fleet) -> Message:
    """Of the launch, or of the shadow, that there is."""
    dagger = fleet.daggers.get(_NAME)
    match message:
        case events_pb2.Launched() | events_pb2.Running() | events_pb2.Exited():
            message.meta.generation = _OLD
        case (
            events_pb2.ShadowLaunched()
            | events_pb2.ShadowEnded()
            | events_pb2.CutoverDecided()
            | events_pb2.CutoverHanded()
        ):
            message.meta.generation = dagger.shadow.generation if dagger and dagger.shadow else 0
    return message


def _facts(step: str, before: World, later: World) -> list[Message]:
    """What the leading scheduler writes of a step; a window ends with each minute. `later`: any state behind
    it.
    """
    meta = events_pb2.FactMeta(name=_NAME)
    match step:
        case "ShadowIntended":
            launched = events_pb2.ShadowLaunched(meta=meta, driver={"host": "h", "pid": 8})
            return [events_pb2.ShadowIntended(meta=meta, version=2), launched]
        case "CutoverDecided":
            return [events_pb2.CutoverDecided(meta=meta, boundary={"seconds": 60 * (later.decided or 0)})]
        case "CutoverHanded":
            written, closed = 60 * before.old_written, 60 * (before.shadow or 0)
            return [
                events_pb2.CutoverHanded(meta=meta, written={"seconds": written}, closed={"seconds": closed})
            ]
        case "LaunchIntended":
            return [events_pb2.LaunchIntended(meta=meta, version=2)]
        case "old ends" | "kill old":
            return [events_pb2.Exited(meta=meta, code=0 if step == "old ends" else -9)]
        case "shadow is fenced" | "kill shadow":
            return [events_pb2.ShadowEnded(meta=meta, code=-9)]
    return []
