"""Facts about a dagger: one row for each fact that the leading scheduler, or a host's agent, writes.

The fold, `evolve` and `describe_fact` derive from the rows. A test checks that each message of events.proto
with a `FactMeta` has one. Pure, and nothing here raises for any fact.
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
from fleet.fold.fact_changes import Changes, IgnoredFact
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
        """Epoch of its writer, and the launch it is about."""


class About(Enum):
    """Launch that a fact is about."""

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
    """Requirement of a fact on the launch's driver."""

    KNOWN = "known"
    """It runs somewhere: before Launched, and after Exited, nobody can know of such a thing."""
    NONE = "none"
    """None runs."""
    ANY = "any"


def _no_detail(_: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRule:
    """Rule of one kind of fact."""

    phases: Phases
    """Phases in which it applies, and the one that follows each. In any other it changes nothing."""
    about: About = About.NEWEST
    driver: Driver = Driver.ANY
    changes: Callable[[Dagger, Any, datetime], Changes] = fact_changes.change_nothing
    """Changes of a dagger beside its phase, as of the fact's time."""
    summary: Callable[[Any], str] | None = None
    """Describes what happened; None: the name of the phase that follows, which is equal in all."""
    detail: Callable[[Any], str] = _no_detail
    """Describes the rest of the fact."""


_ANY_PHASE: Final = {type_: type_ for type_ in gateway_pb2.Phase.values() if type_ not in (0, DELETED)}

# ---- The rows ----------------------------------------------------------------------------------------------

FACTS: Final[Mapping[type[Message], FactRule]] = {
    events_pb2.LaunchIntended: FactRule(
        # STARTING again: a new intent fences one that nobody answered. STOPPING: its driver is gone.
        phases=dict.fromkeys((PENDING, BACKING_OFF, STARTING, STOPPING), STARTING),
        about=About.NEW,
        driver=Driver.NONE,
        changes=fact_changes.begin_launch,
        detail=fact_text.describe_intent,
    ),
    events_pb2.Launched: FactRule(
        phases={type_: type_ for type_ in (STARTING, RUNNING, DEGRADED, UNREACHABLE, STOPPING)},
        changes=lambda _, fact, __: {
            "driver": fact.driver,
            "host": fact.driver.host,
            "epoch": fact.meta.epoch,
        },
        summary=lambda fact: "driver adopted" if fact.adopted else "driver launched",
        detail=fact_text.describe_driver,
    ),
    events_pb2.LaunchFailed: FactRule(
        # In STARTING a submission failed. Elsewhere none was made, and the error says what it waits for.
        phases={STARTING: BACKING_OFF, PENDING: PENDING, BACKING_OFF: PENDING, STOPPING: PENDING},
        driver=Driver.NONE,
        changes=fact_changes.record_error,
        summary=lambda _: "launch failed",
        detail=fact_text.describe_error,
    ),
    events_pb2.Running: FactRule(
        phases=dict.fromkeys((STARTING, DEGRADED, UNREACHABLE), RUNNING),
        driver=Driver.KNOWN,
        changes=fact_changes.mark_running,
    ),
    events_pb2.Degraded: FactRule(
        phases=dict.fromkeys((STARTING, RUNNING, DEGRADED, UNREACHABLE), DEGRADED),
        driver=Driver.KNOWN,
        changes=lambda _, fact, __: {"reasons": tuple(fact.reasons)},
        detail=lambda fact: ", ".join(fact.reasons),
    ),
    events_pb2.Recovered: FactRule(
        phases=dict.fromkeys((DEGRADED, UNREACHABLE), RUNNING),
        driver=Driver.KNOWN,
        changes=fact_changes.mark_running,
        detail=lambda _: "makes progress again",
    ),
    events_pb2.Unreachable: FactRule(
        phases=dict.fromkeys((STARTING, RUNNING, DEGRADED, STOPPING), UNREACHABLE),
    ),
    events_pb2.Exited: FactRule(
        # Next comes, from BACKING_OFF, RelaunchScheduled or Failed; from STOPPING, what is asked.
        phases=dict.fromkeys((STARTING, RUNNING, DEGRADED, UNREACHABLE), BACKING_OFF) | {STOPPING: STOPPING},
        changes=fact_changes.record_exit,
        summary=lambda fact: (
            f"driver exited with code {fact.code}" if fact.HasField("code") else "driver exited"
        ),
        detail=fact_text.describe_error,
    ),
    events_pb2.RelaunchScheduled: FactRule(
        phases={BACKING_OFF: BACKING_OFF},
        changes=fact_changes.schedule_relaunch,
        detail=fact_text.describe_attempt,
    ),
    events_pb2.Failed: FactRule(
        phases=dict.fromkeys((PENDING, BACKING_OFF, STOPPING), FAILED),
        driver=Driver.NONE,
        changes=fact_changes.record_error,
        detail=fact_text.describe_error,
    ),
    events_pb2.StopIssued: FactRule(
        phases=dict.fromkeys((STARTING, RUNNING, DEGRADED, UNREACHABLE, STOPPING), STOPPING),
        driver=Driver.KNOWN,
        changes=fact_changes.stop,
        detail=fact_text.describe_stop,
    ),
    events_pb2.Stopped: FactRule(
        phases=dict.fromkeys((PENDING, BACKING_OFF, FAILED, STOPPING), STOPPED),
        driver=Driver.NONE,
        changes=fact_changes.reach_desired(gateway_pb2.DESIRED_STOPPED),
    ),
    events_pb2.Deleted: FactRule(
        phases=dict.fromkeys((PENDING, BACKING_OFF, FAILED, STOPPING, STOPPED), DELETED),
        driver=Driver.NONE,
        changes=fact_changes.reach_desired(gateway_pb2.DESIRED_DELETED),
    ),
    events_pb2.Settled: FactRule(
        phases={RUNNING: RUNNING, DEGRADED: DEGRADED},
        driver=Driver.KNOWN,
        changes=lambda *_: {"attempt": 0},
        summary=lambda _: "healthy for long enough, attempts count anew",
    ),
    events_pb2.ReferencesLoaded: FactRule(
        phases={RUNNING: RUNNING, DEGRADED: DEGRADED},
        driver=Driver.KNOWN,
        changes=lambda _, fact, __: {"references": tuple(sorted(fact.versions.items()))},
        summary=lambda _: "reference tables loaded",
        detail=lambda fact: ", ".join(
            f"{table} {version}" for table, version in sorted(fact.versions.items())
        ),
    ),
    events_pb2.SinkSkipped: FactRule(
        phases=_ANY_PHASE,
        changes=fact_changes.record_outage,
        summary=lambda fact: f"rows of sink {fact.outage.sink or '?'} are quarantined",
        detail=lambda _: "it does not answer; they are replayed when it takes rows again",
    ),
    events_pb2.ReplayStarted: FactRule(
        phases=_ANY_PHASE,
        about=About.REPLAY,
        changes=fact_changes.start_replay,
        summary=lambda fact: f"replay {fact.replay_id} {'adopted' if fact.adopted else 'launched'}",
        detail=lambda fact: f"on {fact.process.host or '?'}, pid {fact.process.pid or '?'}",
    ),
    events_pb2.ReplayExited: FactRule(
        phases=_ANY_PHASE,
        about=About.REPLAY,
        changes=fact_changes.record_replay_exit,
        summary=lambda fact: (
            f"replay {fact.replay_id} ended unfinished"
            + (f" with code {fact.code}" if fact.HasField("code") else "")
        ),
        detail=fact_text.describe_error,
    ),
    events_pb2.ReplayWaits: FactRule(
        phases=_ANY_PHASE,
        about=About.REPLAY,
        changes=fact_changes.delay_replay,
        summary=lambda fact: f"replay {fact.replay_id} waits",
        detail=fact_text.describe_error,
    ),
    events_pb2.ReplayFinished: FactRule(
        phases=_ANY_PHASE,
        about=About.REPLAY,
        changes=fact_changes.finish_replay,
        summary=lambda fact: (
            f"replay {fact.replay_id} {'given up' if fact.HasField('error') else 'finished'}"
        ),
        detail=fact_text.describe_outcomes,
    ),
    events_pb2.ShadowIntended: FactRule(
        phases={RUNNING: RUNNING, DEGRADED: DEGRADED},
        about=About.BESIDE,
        driver=Driver.KNOWN,
        changes=cutover.begin_shadow,
        summary=lambda _: "shadow intended",
        detail=lambda fact: f"version {fact.version} is being launched beside its driver",
    ),
    events_pb2.ShadowLaunched: FactRule(
        phases=_ANY_PHASE,
        about=About.SHADOW,
        changes=cutover.record_driver,
        summary=lambda fact: "shadow adopted" if fact.adopted else "shadow launched",
        detail=fact_text.describe_driver,
    ),
    events_pb2.ShadowEnded: FactRule(
        phases=_ANY_PHASE,
        about=About.SHADOW,
        changes=cutover.end_shadow,
        summary=lambda fact: (
            f"shadow exited with code {fact.code}" if fact.HasField("code") else "shadow ended"
        ),
        detail=fact_text.describe_error,
    ),
    events_pb2.CutoverDecided: FactRule(
        phases={RUNNING: STOPPING, DEGRADED: STOPPING},
        about=About.SHADOW,
        driver=Driver.KNOWN,
        changes=cutover.set_boundary,
        detail=fact_text.describe_boundary,
    ),
    events_pb2.CutoverHanded: FactRule(
        # BACKING_OFF: the driver before was unreachable, and is proven dead.
        phases={STOPPING: STARTING, BACKING_OFF: STARTING},
        about=About.SHADOW,
        driver=Driver.NONE,
        changes=cutover.hand_over,
        detail=fact_text.describe_handover,
    ),
    events_pb2.OrphanKilled: FactRule(
        phases={}, about=About.ORPHAN, summary=lambda _: "an orphaned driver was killed"
    ),
}


# ---- Evolve: a fact -> the dagger after it, or why it changes nothing --------------------------------------


def evolve(dagger: Dagger, fact: Any, *, sequence: int, time: datetime) -> Dagger | IgnoredFact:
    """Return the dagger after a fact of the leading scheduler, or why the fact changes nothing."""
    row = FACTS[type(fact)]
    if row.about is About.NEWEST and fact.meta.generation != dagger.generation:
        return IgnoredFact(
            f"it speaks of generation {fact.meta.generation}, the newest is {dagger.generation}"
        )
    if row.about is About.SHADOW and (
        dagger.shadow is None or fact.meta.generation != dagger.shadow.generation
    ):
        return IgnoredFact(f"it speaks of the shadow {fact.meta.generation}, which there is not")
    phase = row.phases.get(dagger.phase)
    if phase is None:
        return IgnoredFact(_why_not(dagger, fact, row))
    if row.driver is not Driver.ANY and (row.driver is Driver.KNOWN) != (dagger.driver is not None):
        return IgnoredFact("no driver of it is known" if dagger.driver is None else "a driver of it runs")
    changes = row.changes(dagger, fact, time)
    if isinstance(changes, IgnoredFact):
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


def _why_not(dagger: Dagger, fact: Any, row: FactRule) -> str:
    """Return why the fact does not apply in this phase."""
    if row.about is About.ORPHAN:
        return "it speaks of a driver that nobody asked for"
    return f"{fact.DESCRIPTOR.name} does not apply in {gateway_pb2.Phase.Name(dagger.phase)}"


# ---- Words: a fact -> one line for a person ----------------------------------------------------------------


def describe_fact(fact: Any, sequence: int) -> str:
    """Describe a fact in one line: the phase that follows or what happened, of which launch, and the rest.
    sequence: of the fact's record.
    """
    row = FACTS[type(fact)]
    text = row.summary(fact) if row.summary else gateway_pb2.Phase.Name(next(iter(row.phases.values())))
    generation = sequence if row.about in (About.NEW, About.BESIDE) else fact.meta.generation
    if generation:
        text += f", generation {generation}"
    detail = row.detail(fact)
    return f"{text}: {detail}" if detail else text
