"""What happens to a dagger: one row for each fact that the leading scheduler, or a host's agent, writes.

A row says all there is to know of its fact: the fold, `evolve` and `words` derive from it. A test checks that
each message of events.proto with a `FactMeta` has one. Pure, and nothing here raises for any fact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any, Final, Protocol

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

from fleet.fold import cutover, fact_changes, fact_text
from fleet.fold.dagger import Dagger
from fleet.fold.fact_changes import Changes, Ignored
from fleet.fold.phases import (
    BACKING_OFF,
    DEGRADED,
    DELETED,
    FAILED,
    PENDING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNREACHABLE,
    Phases,
)


class Fact(Protocol):
    """Any message of a row."""

    @property
    def meta(self) -> events_pb2.FactMeta:
        """Whose word it is, and which launch it speaks of."""


class About(Enum):
    """Which launch a fact speaks of."""

    NEW = "new"
    """It begins one: its own sequence is the generation."""
    NEWEST = "newest"
    """The newest; of an older one it is ignored."""
    BESIDE = "beside"
    """It begins a shadow of the newest: its own sequence is the shadow's generation."""
    SHADOW = "shadow"
    """The shadow that there is; of another one it is ignored."""
    ORPHAN = "orphan"
    """One that nobody asks for: it changes nothing."""
    REPLAY = "replay"
    """None: it speaks of the dagger's replay."""


class Driver(Enum):
    """What a fact needs of the launch's driver."""

    KNOWN = "known"
    """It runs somewhere: before Launched, and after Exited, nobody can know of such a thing."""
    NONE = "none"
    """None runs."""
    ANY = "any"


def _no_detail(_: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of fact."""

    phases: Phases
    """The phases it applies in, and the one that follows each. In any other it changes nothing."""
    about: About = About.NEWEST
    driver: Driver = Driver.ANY
    changes: Callable[[Dagger, Any, datetime], Changes] = fact_changes.nothing
    """What it changes of a dagger beside its phase, as of its time."""
    what: Callable[[Any], str] | None = None
    """What happened, in words; None: the phase that follows, which is the same in all."""
    detail: Callable[[Any], str] = _no_detail
    """The rest of what it says, in words."""


_ANY_PHASE: Final = {type_: type_ for type_ in gateway_pb2.Phase.values() if type_ not in (0, DELETED)}

# ---- The rows ----------------------------------------------------------------------------------------------

FACTS: Final[Mapping[type[Message], Row]] = {
    events_pb2.LaunchIntended: Row(
        # STARTING again: a new intent fences one that nobody answered. STOPPING: its driver is gone.
        phases=dict.fromkeys((PENDING, BACKING_OFF, STARTING, STOPPING), STARTING),
        about=About.NEW,
        driver=Driver.NONE,
        changes=fact_changes.intended,
        detail=fact_text.describe_intent,
    ),
    events_pb2.Launched: Row(
        phases={type_: type_ for type_ in (STARTING, RUNNING, DEGRADED, UNREACHABLE, STOPPING)},
        changes=lambda _, fact, __: {
            "driver": fact.driver,
            "host": fact.driver.host,
            "epoch": fact.meta.epoch,
        },
        what=lambda fact: "driver adopted" if fact.adopted else "driver launched",
        detail=fact_text.where,
    ),
    events_pb2.LaunchFailed: Row(
        # In STARTING a submission failed. Elsewhere none was made, and the error says what it waits for.
        phases={STARTING: BACKING_OFF, PENDING: PENDING, BACKING_OFF: PENDING, STOPPING: PENDING},
        driver=Driver.NONE,
        changes=fact_changes.failed,
        what=lambda _: "launch failed",
        detail=fact_text.why,
    ),
    events_pb2.Running: Row(
        phases=dict.fromkeys((STARTING, DEGRADED, UNREACHABLE), RUNNING),
        driver=Driver.KNOWN,
        changes=fact_changes.runs,
    ),
    events_pb2.Degraded: Row(
        phases=dict.fromkeys((STARTING, RUNNING, DEGRADED, UNREACHABLE), DEGRADED),
        driver=Driver.KNOWN,
        changes=lambda _, fact, __: {"reasons": tuple(fact.reasons)},
        detail=lambda fact: ", ".join(fact.reasons),
    ),
    events_pb2.Recovered: Row(
        phases=dict.fromkeys((DEGRADED, UNREACHABLE), RUNNING),
        driver=Driver.KNOWN,
        changes=fact_changes.runs,
        detail=lambda _: "makes progress again",
    ),
    events_pb2.Unreachable: Row(
        phases=dict.fromkeys((STARTING, RUNNING, DEGRADED, STOPPING), UNREACHABLE),
    ),
    events_pb2.Exited: Row(
        # Next comes, from BACKING_OFF, RelaunchScheduled or Failed; from STOPPING, what is asked.
        phases=dict.fromkeys((STARTING, RUNNING, DEGRADED, UNREACHABLE), BACKING_OFF) | {STOPPING: STOPPING},
        changes=fact_changes.exited,
        what=lambda fact: (
            f"driver exited with code {fact.code}" if fact.HasField("code") else "driver exited"
        ),
        detail=fact_text.why,
    ),
    events_pb2.RelaunchScheduled: Row(
        phases={BACKING_OFF: BACKING_OFF},
        changes=fact_changes.relaunch_scheduled,
        detail=fact_text.next_attempt,
    ),
    events_pb2.Failed: Row(
        phases=dict.fromkeys((PENDING, BACKING_OFF, STOPPING), FAILED),
        driver=Driver.NONE,
        changes=fact_changes.failed,
        detail=fact_text.why,
    ),
    events_pb2.StopIssued: Row(
        phases=dict.fromkeys((STARTING, RUNNING, DEGRADED, UNREACHABLE, STOPPING), STOPPING),
        driver=Driver.KNOWN,
        changes=lambda _, fact, __: {"stop_issued": fact.mode},
        detail=fact_text.how,
    ),
    events_pb2.Stopped: Row(
        phases=dict.fromkeys((PENDING, BACKING_OFF, FAILED, STOPPING), STOPPED),
        driver=Driver.NONE,
        changes=fact_changes.at_rest(gateway_pb2.DESIRED_STOPPED),
    ),
    events_pb2.Deleted: Row(
        phases=dict.fromkeys((PENDING, BACKING_OFF, FAILED, STOPPING, STOPPED), DELETED),
        driver=Driver.NONE,
        changes=fact_changes.at_rest(gateway_pb2.DESIRED_DELETED),
    ),
    events_pb2.Settled: Row(
        phases={RUNNING: RUNNING, DEGRADED: DEGRADED},
        driver=Driver.KNOWN,
        changes=lambda *_: {"attempt": 0},
        what=lambda _: "healthy for long enough, attempts count anew",
    ),
    events_pb2.ReferencesLoaded: Row(
        phases={RUNNING: RUNNING, DEGRADED: DEGRADED},
        driver=Driver.KNOWN,
        changes=lambda _, fact, __: {"references": tuple(sorted(fact.versions.items()))},
        what=lambda _: "reference tables loaded",
        detail=lambda fact: ", ".join(
            f"{table} {version}" for table, version in sorted(fact.versions.items())
        ),
    ),
    events_pb2.SinkSkipped: Row(
        phases=_ANY_PHASE,
        changes=fact_changes.skipped,
        what=lambda fact: f"rows of sink {fact.outage.sink or '?'} are quarantined",
        detail=lambda _: "it does not answer; they are replayed when it takes rows again",
    ),
    events_pb2.ReplayStarted: Row(
        phases=_ANY_PHASE,
        about=About.REPLAY,
        changes=fact_changes.replay_started,
        what=lambda fact: f"replay {fact.replay_id} {'adopted' if fact.adopted else 'launched'}",
        detail=lambda fact: f"on {fact.process.host or '?'}, pid {fact.process.pid or '?'}",
    ),
    events_pb2.ReplayExited: Row(
        phases=_ANY_PHASE,
        about=About.REPLAY,
        changes=fact_changes.replay_exited,
        what=lambda fact: (
            f"replay {fact.replay_id} ended unfinished"
            + (f" with code {fact.code}" if fact.HasField("code") else "")
        ),
        detail=fact_text.why,
    ),
    events_pb2.ReplayWaits: Row(
        phases=_ANY_PHASE,
        about=About.REPLAY,
        changes=fact_changes.replay_waits,
        what=lambda fact: f"replay {fact.replay_id} waits",
        detail=fact_text.why,
    ),
    events_pb2.ReplayFinished: Row(
        phases=_ANY_PHASE,
        about=About.REPLAY,
        changes=fact_changes.replay_finished,
        what=lambda fact: f"replay {fact.replay_id} {'given up' if fact.HasField('error') else 'finished'}",
        detail=fact_text.replayed,
    ),
    events_pb2.ShadowIntended: Row(
        phases={RUNNING: RUNNING, DEGRADED: DEGRADED},
        about=About.BESIDE,
        driver=Driver.KNOWN,
        changes=cutover.intended,
        what=lambda _: "shadow intended",
        detail=lambda fact: f"version {fact.version} is being launched beside its driver",
    ),
    events_pb2.ShadowLaunched: Row(
        phases=_ANY_PHASE,
        about=About.SHADOW,
        changes=cutover.launched,
        what=lambda fact: "shadow adopted" if fact.adopted else "shadow launched",
        detail=fact_text.where,
    ),
    events_pb2.ShadowEnded: Row(
        phases=_ANY_PHASE,
        about=About.SHADOW,
        changes=cutover.ended,
        what=lambda fact: f"shadow exited with code {fact.code}" if fact.HasField("code") else "shadow ended",
        detail=fact_text.why,
    ),
    events_pb2.CutoverDecided: Row(
        phases={RUNNING: STOPPING, DEGRADED: STOPPING},
        about=About.SHADOW,
        driver=Driver.KNOWN,
        changes=cutover.decided,
        detail=fact_text.boundary,
    ),
    events_pb2.CutoverHanded: Row(
        # BACKING_OFF: the driver before was unreachable, and is proven dead.
        phases={STOPPING: STARTING, BACKING_OFF: STARTING},
        about=About.SHADOW,
        driver=Driver.NONE,
        changes=cutover.handed,
        detail=fact_text.handed,
    ),
    events_pb2.OrphanKilled: Row(
        phases={}, about=About.ORPHAN, what=lambda _: "an orphaned driver was killed"
    ),
}


# ---- Evolve: a fact -> the dagger after it, or why it changes nothing --------------------------------------


def evolve(dagger: Dagger, fact: Any, *, sequence: int, time: datetime) -> Dagger | Ignored:
    """The dagger after a fact of the leading scheduler: it happened, so it is applied or ignored."""
    row = FACTS[type(fact)]
    if row.about is About.NEWEST and fact.meta.generation != dagger.generation:
        return Ignored(f"it speaks of generation {fact.meta.generation}, the newest is {dagger.generation}")
    if row.about is About.SHADOW and (
        dagger.shadow is None or fact.meta.generation != dagger.shadow.generation
    ):
        return Ignored(f"it speaks of the shadow {fact.meta.generation}, which there is not")
    phase = row.phases.get(dagger.phase)
    if phase is None:
        return Ignored(_why_not(dagger, fact, row))
    if row.driver is not Driver.ANY and (row.driver is Driver.KNOWN) != (dagger.driver is not None):
        return Ignored("no driver of it is known" if dagger.driver is None else "a driver of it runs")
    changes = row.changes(dagger, fact, time)
    if isinstance(changes, Ignored):
        return changes
    new = row.about is About.NEW
    if new:
        changes["generation"] = sequence
    elif row.about is About.BESIDE:
        changes["shadow"] = replace(changes["shadow"], generation=sequence)
    elif isinstance(fact, events_pb2.ReplayStarted) and not fact.process.pid:
        changes["replay"] = replace(changes["replay"], attempt=sequence)
    elif row.about is About.NEWEST:
        changes["observed_generation"] = dagger.generation
    if new or phase != dagger.phase:
        changes["phase"], changes["phase_time"] = phase, time
        changes.setdefault("reasons", ())
        changes.setdefault("not_before", None)
    return dagger.but(sequence=sequence, **changes)


def _why_not(dagger: Dagger, fact: Any, row: Row) -> str:
    """Why the fact does not apply in this phase."""
    if row.about is About.ORPHAN:
        return "it speaks of a driver that nobody asked for"
    return f"{fact.DESCRIPTOR.name} does not apply in {gateway_pb2.Phase.Name(dagger.phase)}"


# ---- Words: a fact -> one line for a person ----------------------------------------------------------------


def words(fact: Any, sequence: int) -> str:
    """The phase that follows or what happened, of which launch, and the rest; `sequence` is its record's."""
    row = FACTS[type(fact)]
    said = row.what(fact) if row.what else gateway_pb2.Phase.Name(next(iter(row.phases.values())))
    generation = sequence if row.about in (About.NEW, About.BESIDE) else fact.meta.generation
    if generation:
        said += f", generation {generation}"
    detail = row.detail(fact)
    return f"{said}: {detail}" if detail else said
