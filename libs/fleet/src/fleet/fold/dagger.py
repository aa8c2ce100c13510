"""One dagger: its state, and what requests do to it. What happens to it is in `fleet.fold.facts`, what to
do next about it in `fleet.decide.reconcile`.

Pure: time and sequence are arguments. Nothing here raises for any record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf.message import Message

from daggerspec import fields
from daggerspec.exits import is_deployments
from daggerspec.querytests import runs_alike
from daggerspec.sinks import display_names
from fleet.fold import replay
from fleet.fold.answers import Code, Refusal, about, missing, version_mismatch
from fleet.fold.footprint import NOTHING, Footprint
from fleet.fold.phases import (
    AWAKENED,
    BACKING_OFF,
    DELETED,
    PENDING,
    STARTING,
    UNREACHABLE,
    Desired,
    Phase,
    StopMode,
)
from fleet.fold.replay import Outage, Replay
from fleet.fold.shadow import Shadow

# ---- State -------------------------------------------------------------------------------------------------

REVISIONS: Final = 1_000
"""Revisions of a dagger that the fold remembers; older ones stand in the log alone."""


class Revision(NamedTuple):
    """A request that gave a dagger another specification: the log has what it said."""

    version: int
    """The dagger's version after it."""
    sequence: int


@dataclass(frozen=True, kw_only=True)  # without slots: see `but`
class Dagger:
    """A dagger: what was asked, and what is observed. Its messages must not be changed."""

    name: str
    spec: spec_pb2.DaggerSpec
    warnings: tuple[str, ...]
    """Findings of the check that did not stop the newest revision."""
    version: int
    """Number of accepted requests about it; facts do not count."""
    desired: Desired
    phase: Phase
    phase_time: datetime
    """Since when it is in this phase."""
    sequence: int
    """Sequence of the newest record that changed it."""
    create_sequence: int
    """Sequence of the request that created it: tells it from an earlier one of the same name."""
    create_time: datetime
    update_time: datetime
    creator: str = ""
    """Principal that created it."""
    updater: str = ""
    """Principal that asked for its newest specification."""
    generation: int = 0
    """The newest launch: sequence of its LaunchIntended; 0 before the first."""
    observed_generation: int = 0
    """The newest launch a fact has spoken of; behind `generation` while an intent is unanswered."""
    observed_version: int = 0
    """The version the newest launch runs. Behind `version` when a request asks for another launch."""
    ran: bool = False
    """True once the newest launch was RUNNING."""
    driver: events_pb2.DriverHandle | None = None
    """Handle of its driver; None when there is none, or none is known yet."""
    host: str = ""
    """Host that the newest launch is to run, runs, or ran on; empty while no fact names one."""
    epoch: int = 0
    """Epoch of the scheduler that intended, launched or adopted the newest launch."""
    stop_mode: StopMode = events_pb2.STOP_MODE_UNSPECIFIED
    """Mode of the newest request to stop it."""
    stop_issued: StopMode = events_pb2.STOP_MODE_UNSPECIFIED
    """Mode of the newest StopIssued to its driver; UNSPECIFIED before one."""
    reasons: tuple[str, ...] = ()
    """Reasons of its newest Degraded; empty in other phases."""
    last_error: events_pb2.DaggerError | None = None
    """The newest error; None once a later launch runs."""
    attempt: int = 0
    """Relaunches since the last healthy progress, or since a person last asked it to run."""
    not_before: datetime | None = None
    """In BACKING_OFF: when the next attempt may be made; None until that is decided."""
    starved: datetime | None = None
    """Time when a driver of it last ran out of memory; None when none ever did."""
    references: tuple[tuple[str, str], ...] = ()
    """Reference tables that its driver uses, and the version of each one's content; by name."""
    restarts: int = 0
    """Relaunches since it was created."""
    last_exit: gateway_pb2.DriverExit | None = None
    """Exit of the newest driver that ended; None before the first."""
    confirmed_dead: bool = False
    """On-call vouches that the host of `generation` is gone."""
    revisions: tuple[Revision, ...] = ()
    """Its newest, the oldest first."""
    replay: Replay | None = None
    """Its newest replay of what it has set aside; None before the first."""
    refusals_until: datetime | None = None
    """Until when its sinks may refuse as many rows as they like; None where nobody has ever said so."""
    paused_sinks: tuple[str, ...] = ()
    """Names of sinks whose rows wait in their logs until somebody resumes them."""
    shadow: Shadow | None = None
    """A launch of the newest version beside its driver; None when there is none."""
    shadowed: int = 0
    """The newest version that had a shadow, whatever became of it; 0 before the first."""
    good_version: int = 0
    """The newest version that was RUNNING; 0 before the first."""
    handed: datetime | None = None
    """Of a newest launch that was a shadow: others have written windows that end up to this instant."""
    query: events_pb2.QueryState | None = None
    """Findings about the newest revision's query; None where no gateway wrote any."""
    observed_query: events_pb2.QueryState | None = None
    """Findings about the query that the newest launch runs; None where no gateway wrote any."""
    outages: tuple[Outage, ...] = ()
    """The newest outage of each sink whose rows are to be replayed by themselves, by sink."""
    ran_on: str = ""
    """Host of the last driver that was RUNNING, which has a checkpoint; empty before the first."""
    destinations: tuple[str, ...] = ()
    """Texts of the destinations that its newest revision's sinks write to; empty where no gateway resolved
    them.
    """
    suspected: datetime | None = None
    """Time when its process last died with others while it was computing; None: never since its newest edit.
    """
    isolated: bool = False
    """True from the second such death within a short time, until it is edited."""
    left_because: str = ""
    """Reason why it has left a process that it shared, a clause; empty: it has not, or has returned."""
    left_time: datetime | None = None
    """Time when it last left a process that it shared, or returned to one."""
    from_start: int = 0
    """The version whose request was to begin anew, until a launch of it is RUNNING; 0: none is."""
    footprint: Footprint = NOTHING
    """Footprint of the newest launch; `spec` says that of the next one."""

    def but(self, **changes: Any) -> Dagger:
        """Return a copy with other values of these fields.

        As `dataclasses.replace`, which looks at each field in turn: half of what a fold did with a record.
        Raises: TypeError for what is no field.
        """
        copy = object.__new__(Dagger)
        copy.__dict__.update(self.__dict__, **changes)
        if len(copy.__dict__) != len(self.__dict__):
            raise TypeError(f"a dagger has not all of {', '.join(changes)}")
        return copy

    @property
    def unanswered(self) -> bool:
        """True when a launch was intended and no fact has answered it yet."""
        return self.phase == STARTING and self.driver is None

    @property
    def has_unknown_driver(self) -> bool:
        """True when a launch was intended whose driver may live, and no fact names that driver."""
        return self.unanswered or (self.phase == UNREACHABLE and self.driver is None)

    @property
    def running(self) -> tuple[int, ...]:
        """The launches of which a driver runs or may run: the newest, and a shadow."""
        own = (self.generation,) if self.has_own else ()
        return own if self.shadow is None else (*own, self.shadow.generation)

    @property
    def footprints(self) -> tuple[Footprint, ...]:
        """Footprints of the launches in `running`."""
        own = (self.footprint,) if self.has_own else ()
        return own if self.shadow is None else (*own, self.shadow.footprint)

    @property
    def occupied(self) -> bool:
        """True when a driver of it runs or may run."""
        return self.has_own or self.shadow is not None

    @property
    def has_own(self) -> bool:
        """True when the newest launch has a driver, or may have one."""
        return self.driver is not None or self.phase in (STARTING, UNREACHABLE)

    @property
    def ends(self) -> int:
        """Number of ends of its driver since it last ran well, where it is to be launched again."""
        undecided = self.phase == BACKING_OFF and self.not_before is None
        return self.attempt + (undecided and not is_deployments(self.last_error))

    @property
    def last_good_version(self) -> int:
        """The newest version that was RUNNING, where its newest revision never was; else 0."""
        return self.good_version if self.revisions and self.revisions[-1].version > self.good_version else 0

    @property
    def current(self) -> bool:
        """True when the newest launch runs the newest version."""
        return self.observed_version == self.version


# ---- Decide: a request -> the dagger after it, or why not --------------------------------------------------

Request: TypeAlias = (
    events_pb2.DaggerRequested
    | events_pb2.StartRequested
    | events_pb2.StopRequested
    | events_pb2.RestartRequested
    | events_pb2.DeleteRequested
    | events_pb2.DeathConfirmed
    | events_pb2.QuarantineReplayRequested
    | events_pb2.QuarantineDiscardRequested
    | events_pb2.AllowRefusalsRequested
    | events_pb2.SinkPauseRequested
)


def decide(dagger: Dagger | None, request: Request, *, sequence: int, time: datetime) -> Dagger | Refusal:
    """Return the dagger after the request, or why it is refused. `dagger` is None for a name never used."""
    existing = None if dagger is None or dagger.phase == DELETED else dagger
    deleting = existing is not None and existing.desired == gateway_pb2.DESIRED_DELETED
    if deleting and not isinstance(request, events_pb2.DeleteRequested | events_pb2.DeathConfirmed):
        return Refusal(
            Code.FAILED_PRECONDITION,
            "DELETION_IN_PROGRESS",
            f"dagger {request.name} is being deleted: wait until it is gone",
            about("dagger", request.name),
        )
    if request.meta.HasField("expected_version"):
        version = existing.version if existing else 0
        refusal = version_mismatch("dagger", request.name, request.meta.expected_version, version)
        if refusal is not None:
            return refusal
    if existing is None:
        if isinstance(request, events_pb2.DaggerRequested):
            return _refuse_name(request) or create_dagger(request, sequence, time)
        return missing("dagger", request.name)
    changes = DECISIONS[type(request)](existing, request)
    if isinstance(request, events_pb2.QuarantineReplayRequested) and isinstance(changes, dict):
        changes["replay"] = Replay(sequence=sequence, request=request, time=time)
    if isinstance(changes, Refusal):
        return changes
    version = existing.version + 1
    runs_on = existing.current and "observed_version" not in changes
    if "spec" in changes and changes["spec"] != existing.spec:
        changes["revisions"] = (*existing.revisions, Revision(version, sequence))[-REVISIONS:]
        changes["updater"] = request.meta.actor
    if runs_on:  # the driver runs what the new version asks for too, as well as it did
        changes["observed_version"] = version
        if "revisions" in changes and existing.good_version and not existing.last_good_version:
            changes["good_version"] = version
    if changes.get("phase", existing.phase) != existing.phase:
        changes["phase_time"] = time
    return existing.but(version=version, update_time=time, sequence=sequence, **changes)


def _refuse_name(request: events_pb2.DaggerRequested) -> Refusal | None:
    """Refuse a name that no dagger may have. Folders bear the names of daggers: nobody could delete a forged
    `..`.
    """
    wrong = next(fields.reference("name", request.name), None)
    if wrong is None:
        return None
    metadata = about("dagger", request.name)
    return Refusal(Code.INVALID_ARGUMENT, wrong.reason, f"a dagger's name {wrong.message}", metadata)


def create_dagger(request: events_pb2.DaggerRequested, sequence: int, time: datetime) -> Dagger:
    """Build the dagger of a request, PENDING at version 1."""
    return Dagger(
        name=request.name,
        spec=request.spec,
        warnings=tuple(request.warnings),
        version=1,
        desired=gateway_pb2.DESIRED_RUNNING,
        phase=PENDING,
        phase_time=time,
        sequence=sequence,
        create_sequence=sequence,
        creator=request.meta.actor,
        updater=request.meta.actor,
        create_time=time,
        update_time=time,
        revisions=(Revision(1, sequence),),
        query=_query(request),
        destinations=tuple(request.destinations),
    )


def _run(dagger: Dagger) -> dict[str, Any]:
    """Return the changes of a person's wish to run it: what waits or was given up begins anew."""
    changes: dict[str, Any] = {"desired": gateway_pb2.DESIRED_RUNNING}
    if dagger.phase in AWAKENED:
        changes |= {"phase": AWAKENED[dagger.phase], "attempt": 0, "not_before": None}
    return changes


def _revise(dagger: Dagger, request: events_pb2.DaggerRequested) -> dict[str, Any]:
    changes = _run(dagger) | {"spec": request.spec, "warnings": tuple(request.warnings)}
    changes |= {"query": _query(request), "destinations": tuple(request.destinations)}
    if not runs_alike(request.spec, dagger.spec):
        changes |= {"observed_version": dagger.observed_version, "attempt": 0}
        changes |= {"suspected": None, "isolated": False, "left_because": ""}
    return changes


def _query(request: events_pb2.DaggerRequested) -> events_pb2.QueryState | None:
    return request.query if request.HasField("query") else None


def _restart(dagger: Dagger, request: events_pb2.RestartRequested) -> dict[str, Any]:
    changes = _run(dagger) | {"observed_version": dagger.observed_version}
    return changes | ({"from_start": dagger.version + 1} if request.from_start else {})


def _stop(dagger: Dagger, request: events_pb2.StopRequested) -> dict[str, Any]:
    mode = request.mode or events_pb2.STOP_MODE_DRAIN
    return {"desired": gateway_pb2.DESIRED_STOPPED, "stop_mode": mode}


def _delete(dagger: Dagger, _: events_pb2.DeleteRequested) -> dict[str, Any]:
    return {
        "desired": gateway_pb2.DESIRED_DELETED,
        "stop_mode": dagger.stop_issued or events_pb2.STOP_MODE_DRAIN,
    }


def _confirm_death(dagger: Dagger, request: events_pb2.DeathConfirmed) -> dict[str, Any] | Refusal:
    if dagger.phase == UNREACHABLE and dagger.generation == request.generation:
        return {"confirmed_dead": True}
    phase = gateway_pb2.Phase.Name(dagger.phase)
    return Refusal(
        Code.FAILED_PRECONDITION,
        "NOT_UNREACHABLE",
        f"dagger {dagger.name} is {phase} in generation {dagger.generation}:"
        " only the death of an unreachable driver of the newest generation can be confirmed",
        {**about("dagger", dagger.name), "phase": phase, "generation": str(dagger.generation)},
    )


def _replay(dagger: Dagger, request: events_pb2.QuarantineReplayRequested) -> dict[str, Any] | Refusal:
    if dagger.replay is not None and dagger.replay.finished is None:
        return replay.refuse_concurrent(dagger.name, dagger.replay)
    if not request.HasField("outage"):
        return {}
    outages = replay.settle_outages(dagger.outages, request)
    return replay.refuse_settled(dagger.name, request) if outages == dagger.outages else {"outages": outages}


def _allow_refusals(_: Dagger, request: events_pb2.AllowRefusalsRequested) -> dict[str, Any]:
    try:
        return {"refusals_until": request.until.ToDatetime(UTC)}
    except (ValueError, OverflowError):  # no instant: a gateway writes none of these
        return {}


def _pause_sink(dagger: Dagger, request: events_pb2.SinkPauseRequested) -> dict[str, Any] | Refusal:
    if request.sink not in {*display_names(dagger.spec.sinks), *dagger.paused_sinks}:
        return Refusal(
            Code.NOT_FOUND,
            "NOT_FOUND",
            f"dagger {dagger.name} has no sink {request.sink}",
            about("sink", request.sink),
        )
    if request.paused and request.sink == dagger.spec.late.keep:
        return Refusal(
            Code.FAILED_PRECONDITION,
            "LATE_SINK",
            f"sink {request.sink} of {dagger.name} takes late records: it cannot be paused",
            about("sink", request.sink),
        )
    others = {sink for sink in dagger.paused_sinks if sink != request.sink}
    return {"paused_sinks": tuple(sorted(others | ({request.sink} if request.paused else set())))}


DECISIONS: Final[Mapping[type[Message], Callable[[Dagger, Any], dict[str, Any] | Refusal]]] = {
    events_pb2.DaggerRequested: _revise,
    events_pb2.StartRequested: lambda dagger, _: _run(dagger),
    events_pb2.StopRequested: _stop,
    events_pb2.RestartRequested: _restart,
    events_pb2.DeleteRequested: _delete,
    events_pb2.DeathConfirmed: _confirm_death,
    events_pb2.QuarantineReplayRequested: _replay,
    events_pb2.QuarantineDiscardRequested: lambda *_: {},
    events_pb2.AllowRefusalsRequested: _allow_refusals,
    events_pb2.SinkPauseRequested: _pause_sink,
}
