"""The fold of the control topic: all that a service knows of daggers and the catalogue.

One mutable container of frozen values. Records are applied in order of their sequence: a record at or below
`sequence`, and an id that was applied within the horizon, change nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import chain, takewhile
from typing import Any, Final

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog import LogPosition, Record, extend_history
from fleet.fold import cordons, ownership, quotas, removal, tenancy
from fleet.fold.answers import Answer, Refusal, digest, missing, refuse_reused_id
from fleet.fold.catalogue import (
    REGISTRATIONS,
    REMOVALS,
    Catalogue,
    Entry,
    Registration,
    Removal,
    registered_name,
)
from fleet.fold.dagger import DECISIONS, REVISIONS, Dagger, Request, decide
from fleet.fold.drivers import DriverIndex
from fleet.fold.fact_changes import IgnoredFact
from fleet.fold.facts import FACTS, About, evolve
from fleet.fold.horizon import STANDARD, Horizon
from fleet.fold.hosts import (
    UNREGISTERED,
    Hosts,
    Standing,
    Standings,
    add_endpoint,
    change_lacks,
    record_loss,
    record_registration,
    refuse_loss,
)
from fleet.fold.phases import DELETED

REPEAT: Final = "its id was seen before"
"""Reason why a record that was written twice changes nothing the second time."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The scheduler that claimed leadership last."""

    epoch: int
    """Sequence of its claim."""
    scheduler_id: str
    host: str


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """Record that could not be read: set aside, never fatal."""

    sequence: int
    subject: str
    type: str
    digest: bytes
    """16 bytes of BLAKE2b over its value."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Result of applying one record."""

    subject: str
    """The dagger, cluster, stream or reference table it is about; the first message name of a schema; a
    scheduler's id."""
    changed: bool
    """True when the fold has changed."""
    answer: Answer | None = None
    """For a request: the answer to this record. A repeat gets the answer of the first."""
    refused: str = ""
    """Reason why it changed nothing; empty when it was applied."""


class Fleet:
    """Fold of the control topic, up to `sequence`."""

    def __init__(self, horizon: Horizon = STANDARD) -> None:
        """Begin an empty fold. horizon: how long ids and answers are remembered; equal for all who read one
        log.
        """
        self.horizon = horizon
        self.sequence: int = -1
        """Sequence of the newest record applied; -1 before the first."""
        self.history: bytes = b""
        """Digest of every record up to it (`eventlog.extend_history`)."""
        self.daggers: dict[str, Dagger] = {}
        """By name. A deleted one stays, in phase DELETED, until its name is used again."""
        self.drivers = DriverIndex()
        """Daggers of which a driver runs or may run, by host and by team."""
        self.of_teams: dict[str, dict[str, None]] = {}
        """Names of the daggers that are not deleted, by team."""
        self.replaying: dict[str, None] = {}
        """Names of the daggers that have a replay which has not finished."""
        self.answers: OrderedDict[str, Answer] = OrderedDict()
        """First answer to each request id within the horizon, in the order of the log."""
        self.leader: Leader | None = None
        """The leading scheduler; None before the first claim."""
        self.claims: dict[int, Leader] = {}
        """The claims of those who lead, or have launched what some dagger is known by; by epoch."""
        self.hosts: Hosts = {}
        """Endpoints of each host at which logs and rows are read."""
        self.standings: Standings = {}
        """Standing of each host that has registered or is gone."""
        self.unreadable: list[UnreadableRecord] = []
        """Records that could not be read."""
        self.unreadable_daggers: set[str] = set()
        """Daggers whose history cannot be read whole: nothing may be done to them."""
        self.catalogue = Catalogue()
        """Registered objects, teams and accounts."""
        self._requested: OrderedDict[str, int] = OrderedDict()
        """Daggers of which a specification was accepted here, with the sequence of the newest, ascending."""
        self.facts: OrderedDict[str, int] = OrderedDict()
        """Ids of facts, claims and hosts within the horizon, with the sequence of each, ascending."""

    @property
    def clusters(self) -> Mapping[str, Entry[spec_pb2.Cluster]]:
        """Registered clusters by name."""
        return self.catalogue.clusters

    @property
    def streams(self) -> Mapping[str, Entry[spec_pb2.Stream]]:
        """Registered streams by name."""
        return self.catalogue.streams

    @property
    def joined(self) -> Mapping[str, Mapping[str, datetime]]:
        """Time when each topic joined a stream, by stream."""
        return self.catalogue.joined

    @property
    def messages(self) -> Mapping[str, Entry[spec_pb2.Schema]]:
        """Registered schemas by the full name of each message they define."""
        return self.catalogue.messages

    @property
    def references(self) -> Mapping[str, Entry[spec_pb2.ReferenceTable]]:
        """Registered reference tables by name."""
        return self.catalogue.references

    @property
    def occupied(self) -> Set[str]:
        """Names of the daggers of which a driver runs or may run."""
        return self.drivers.names

    @property
    def position(self) -> LogPosition:
        """Position up to which the log is folded, and digest of that log."""
        return LogPosition(self.sequence, self.history)

    def living(self, name: str) -> Dagger | None:
        """Return a dagger that is not deleted, or None."""
        dagger = self.daggers.get(name)
        return None if dagger is None or dagger.phase == DELETED else dagger

    def living_names(self) -> Iterator[str]:
        """Yield the names of the daggers that are not deleted, team by team."""
        return chain.from_iterable(self.of_teams.values())

    def list_of_team(self, team: str) -> list[Dagger]:
        """List the daggers of a team that are not deleted, sorted by name."""
        return [self.daggers[name] for name in sorted(self.of_teams.get(team, ()))]

    def readers(self, stream: str) -> list[str]:
        """Return the names of the daggers that are not deleted and read a stream, sorted."""
        return sorted(
            name
            for name, dagger in self.daggers.items()
            if dagger.phase != DELETED and any(read.stream == stream for read in dagger.spec.streams)
        )

    def requested_since(self, sequence: int) -> list[str]:
        """List the daggers of which this fold accepted a specification behind a sequence, the newest
        first.
        """
        newest = takewhile(lambda item: item[1] > sequence, reversed(self._requested.items()))
        return [name for name, _ in newest]

    def host_of(self, dagger: Dagger) -> str:
        """Return the host of a dagger's newest launch; empty before the first.

        Until a launch is known to have a driver, it is where the scheduler is that means to launch it.
        """
        if dagger.host:
            return dagger.host
        claim = self.claims.get(dagger.epoch)
        return claim.host if claim is not None and dagger.generation else ""

    def standing(self, host: str) -> Standing:
        """Return the standing of a host, also of an unregistered one."""
        return self.standings.get(host, UNREGISTERED)

    def is_lost(self, dagger: Dagger) -> bool:
        """Tell whether the newest launch of a dagger is dead, because its host was gone after it."""
        return self.standing(self.host_of(dagger)).has_lost(dagger.generation)

    def occupied_on(self, host: str) -> list[Dagger]:
        """List the daggers of which a driver runs or may run on a host, in no order."""
        return list(self.drivers.on(host).daggers.values())

    def host_names(self) -> list[str]:
        """List the hosts that schedulers named, or on which drivers run or may run, sorted."""
        return sorted({*self.standings, *self.hosts, *filter(None, self.drivers.hosts)})

    def knows_host(self, host: str) -> bool:
        """Tell whether the log knows a host."""
        return bool(host) and any(host in hosts for hosts in (self.standings, self.hosts, self.drivers.hosts))

    @property
    def cuts_over(self) -> bool:
        """True when the leading scheduler has announced that it replaces drivers by a cutover."""
        leader = self.leader
        endpoints = self.hosts.get(leader.host, ()) if leader else ()
        return any(one.cutover for one in endpoints if leader and one.scheduler_id == leader.scheduler_id)

    def answer(self, request_id: str, request: Message) -> Answer | None:
        """Return the answer to a request under this id; None while no record has the id."""
        first = self.answers.get(request_id)
        return first and _repeat_answer(request_id, first, digest(request))

    def apply(self, record: Record) -> ApplyResult:
        """Fold one record in. Never raises for any record that can stand in a topic."""
        if record.sequence <= self.sequence:
            return ApplyResult(record.subject, changed=False, refused="it was applied before")
        before, self.sequence = self.sequence, record.sequence
        self.history = extend_history(self.history, record)
        if before // self.horizon.block != self.sequence // self.horizon.block:
            self._forget(self.horizon.since(self.sequence))
        message = record.message
        if message is None:
            return self._set_aside(record)
        handler = _HANDLERS.get(type(message))
        if handler is None:
            return ApplyResult(
                record.subject, changed=False, refused=f"{record.type} is not an event of the control topic"
            )
        return handler(self, record, message)

    def _forget(self, before: int) -> None:
        """Forget ids and answers of records before this sequence."""
        while self.answers and next(iter(self.answers.values())).sequence < before:
            self.answers.popitem(last=False)
        while self.facts and next(iter(self.facts.values())) < before:
            self.facts.popitem(last=False)

    def _set_aside(self, record: Record) -> ApplyResult:
        hashed = blake2b(record.value, digest_size=16).digest()
        self.unreadable.append(UnreadableRecord(record.sequence, record.subject, record.type, hashed))
        dagger = about(record)
        changed = bool(dagger) and dagger not in self.unreadable_daggers
        if changed:
            self.unreadable_daggers.add(dagger)
        return ApplyResult(record.subject, changed=changed, refused="it cannot be read")

    def _fact(self, record: Record, fact: Any) -> ApplyResult:
        name = fact.meta.name
        # Also when it is ignored: a repeat must not count later, where the first did not.
        if not self._is_first(record):
            return ApplyResult(name, changed=False, refused=REPEAT)
        dagger = self.daggers.get(name)
        stale = self._stale_reason(fact) or self._replaced_reason(fact, dagger)
        if stale:
            return ApplyResult(name, changed=False, refused=stale)
        if dagger is None:
            return ApplyResult(name, changed=False, refused="there is no such dagger")
        after = evolve(dagger, fact, sequence=record.sequence, time=record.time)
        if isinstance(after, IgnoredFact):
            return ApplyResult(name, changed=False, refused=after.why)
        if isinstance(fact, events_pb2.StopIssued) and fact.move:
            cordons.begin_move(self.standings, self.host_of(dagger), fact, record.time)
        cordons.advance_moves(self.standings, fact, time=record.time)
        self.put(after)
        return ApplyResult(name, changed=True)

    def _is_first(self, record: Record) -> bool:
        """Remember a record's id; tell whether no fact, claim or host had it within the horizon."""
        if record.id in self.facts:
            return False
        self.facts[record.id] = record.sequence
        return True

    def put(self, dagger: Dagger) -> None:
        """Replace the state of a dagger, as the fold and who restores one do."""
        before = self.daggers.get(dagger.name)
        if before is None or before.spec is not dagger.spec or DELETED in (before.phase, dagger.phase):
            self._move_between_teams(before, dagger)
        self.daggers[dagger.name] = dagger
        self.drivers.put(dagger, self.host_of(dagger))
        if dagger.replay is not None and dagger.replay.finished is None:
            self.replaying[dagger.name] = None
        else:
            self.replaying.pop(dagger.name, None)

    def _move_between_teams(self, before: Dagger | None, dagger: Dagger) -> None:
        """Take a dagger out of its team before, and into that of now; one that is deleted is in none."""
        if before is not None and before.phase != DELETED:
            names = self.of_teams[before.spec.team]
            del names[dagger.name]
            if not names:
                del self.of_teams[before.spec.team]
        if dagger.phase != DELETED:
            self.of_teams.setdefault(dagger.spec.team, {})[dagger.name] = None

    def _stale_reason(self, fact: Any) -> str:
        """Return why a fact is not the leader's; empty when it is."""
        epoch = self.leader.epoch if self.leader else -1
        return "" if fact.meta.epoch == epoch else f"it is of epoch {fact.meta.epoch}, the newest is {epoch}"

    def _replaced_reason(self, fact: Any, dagger: Dagger | None) -> str:
        """Return why an agent's fact is not that of its host's newest agent; empty when it is.

        The leader's own facts name no host epoch: it is the newest leader's word whichever host it is of.
        """
        epoch = fact.meta.host_epoch
        if not epoch or dagger is None:
            return ""
        host = self._host_meant(fact, dagger)
        newest = self.standing(host).epoch
        return (
            "" if epoch == newest else f"it is of host epoch {epoch}, the newest of {host or '?'} is {newest}"
        )

    def _host_meant(self, fact: Any, dagger: Dagger) -> str:
        """Return the host that a fact is of: where the newest launch is, or an attempt of the replay."""
        if FACTS[type(fact)].about is not About.REPLAY:
            return self.host_of(dagger)
        process = dagger.replay.process if dagger.replay is not None else None
        return process.host if process is not None else ""

    def _claim(self, record: Record, claim: events_pb2.SchedulerStarted) -> ApplyResult:
        if not self._is_first(record):
            return ApplyResult(claim.scheduler_id, changed=False, refused=REPEAT)
        self.leader = Leader(record.sequence, claim.scheduler_id, claim.host)
        # Facts of any other epoch are ignored from now on: nobody asks for the rest again.
        spoken_of = {dagger.epoch for dagger in self.daggers.values()}
        self.claims = {epoch: leader for epoch, leader in self.claims.items() if epoch in spoken_of}
        self.claims[record.sequence] = self.leader
        return ApplyResult(claim.scheduler_id, changed=True)

    def _host(self, record: Record, event: events_pb2.HostServing) -> ApplyResult:
        if not self._is_first(record):
            return ApplyResult(event.scheduler_id, changed=False, refused=REPEAT)
        add_endpoint(self.hosts, event)
        return ApplyResult(event.scheduler_id, changed=True)

    def _host_registered(self, record: Record, event: events_pb2.HostRegistered) -> ApplyResult:
        if not self._is_first(record):
            return ApplyResult(event.host, changed=False, refused=REPEAT)
        record_registration(self.standings, event, sequence=record.sequence, time=record.time)
        return ApplyResult(event.host, changed=True)

    def _host_lacks(self, record: Record, event: events_pb2.HostLacksChanged) -> ApplyResult:
        refused = change_lacks(self.standings, event) if self._is_first(record) else REPEAT
        return ApplyResult(event.host, changed=not refused, refused=refused)

    def refuse_loss(self, event: events_pb2.HostGone) -> Refusal | None:
        """Refuse that a host is gone; return None to accept it."""
        leader = self.leader.epoch if self.leader else -1
        return refuse_loss(self.standings, event, is_known=self.knows_host(event.host), leader=leader)

    def _host_gone(self, record: Record, event: events_pb2.HostGone) -> ApplyResult:
        def apply() -> int | Refusal:
            refusal = self.refuse_loss(event)
            if refusal is None:
                record_loss(self.standings, event, sequence=record.sequence, time=record.time)
            return refusal or 1

        return self._answer_request(record, event, event.host, apply)

    def _host_cordon(self, record: Record, event: cordons.Change) -> ApplyResult:
        def apply() -> int | Refusal:
            if not self.knows_host(event.host):
                return missing("host", event.host)
            cordons.record_change(self.standings, event, sequence=record.sequence, time=record.time)
            return 1

        return self._answer_request(record, event, event.host, apply)

    def after(self, request: Request, sequence: int, time: datetime) -> Dagger | Refusal:
        """Return the dagger after a request that stands at `sequence`, or why it is refused."""
        after = decide(self.daggers.get(request.name), request, sequence=sequence, time=time)
        if isinstance(after, Dagger) and isinstance(request, events_pb2.DaggerRequested):
            return (
                removal.refuse_unregistered(self.catalogue, request)
                or ownership.refuse_request(self.catalogue, request)
                or quotas.refuse_dagger(self.catalogue, self.of_teams.get(request.spec.team, ()), request)
                or after
            )
        return after

    def _request(self, record: Record, request: Any) -> ApplyResult:
        def apply() -> int | Refusal:
            after = self.after(request, record.sequence, record.time)
            if isinstance(after, Refusal):
                return after
            self.put(after)
            if isinstance(request, events_pb2.DaggerRequested):
                ownership.take(self.catalogue, request, record.sequence)
                self._requested[after.name] = record.sequence
                self._requested.move_to_end(after.name)
            if isinstance(request, events_pb2.QuarantineReplayRequested):
                revisions = [revision.sequence for revision in after.revisions]
                is_all = len(revisions) < REVISIONS
                ownership.add_replayed(self.catalogue, after.destinations, revisions, is_all=is_all)
            return after.version

        return self._answer_request(record, request, request.name, apply)

    def _registration(self, record: Record, event: Registration) -> ApplyResult:
        def apply() -> int | Refusal:
            return self.catalogue.register(event, record.sequence, record.time)

        name = registered_name(event)
        return self._answer_request(record, event, record.subject if name is None else name, apply)

    def refuse_removal(self, event: Removal) -> Refusal | None:
        """Refuse a removal of what is missing, changed or in use; return None to accept it."""
        return removal.decide(self.catalogue, self.daggers, event)

    def _removal(self, record: Record, event: Removal) -> ApplyResult:
        def apply() -> int | Refusal:
            kind = REMOVALS[type(event)]
            return self.refuse_removal(event) or self.catalogue.remove(kind, event.name, record.sequence)

        return self._answer_request(record, event, event.name, apply)

    def _tenancy(self, record: Record, event: tenancy.Change) -> ApplyResult:
        def apply() -> int | Refusal:
            return tenancy.apply(self.catalogue, event, record.sequence, record.time)

        return self._answer_request(record, event, tenancy.subject(event), apply)

    def _answer_request(
        self, record: Record, request: Message, subject: str, apply: Callable[[], int | Refusal]
    ) -> ApplyResult:
        """Apply a request unless its id was answered before, and remember the answer."""
        body = digest(request)
        first = self.answers.get(record.id)
        if first is not None:
            answer = _repeat_answer(record.id, first, body)
            why = answer.refusal.detail if answer.refusal else "it is a repeat of an accepted request"
            return ApplyResult(subject, changed=False, answer=answer, refused=why)
        outcome = apply()
        if isinstance(outcome, Refusal):
            answer = Answer(record.sequence, body, 0, outcome)
            self.answers[record.id] = answer
            return ApplyResult(subject, changed=False, answer=answer, refused=outcome.detail)
        answer = self.answers[record.id] = Answer(record.sequence, body, outcome)
        return ApplyResult(subject, changed=True, answer=answer)


def _repeat_answer(request_id: str, first: Answer, body: bytes) -> Answer:
    if first.digest == body:
        return first
    return Answer(first.sequence, body, 0, refuse_reused_id(request_id, first))


_HANDLERS: Final[Mapping[type[Message], Callable[[Fleet, Record, Any], ApplyResult]]] = {
    **dict.fromkeys(DECISIONS, Fleet._request),  # noqa: SLF001 - the class's own table
    **dict.fromkeys(FACTS, Fleet._fact),  # noqa: SLF001
    **dict.fromkeys(REGISTRATIONS, Fleet._registration),  # noqa: SLF001
    **dict.fromkeys(REMOVALS, Fleet._removal),  # noqa: SLF001
    **dict.fromkeys(tenancy.CHANGES, Fleet._tenancy),  # noqa: SLF001
    events_pb2.SchedulerStarted: Fleet._claim,  # noqa: SLF001
    events_pb2.HostServing: Fleet._host,  # noqa: SLF001
    events_pb2.HostRegistered: Fleet._host_registered,  # noqa: SLF001
    events_pb2.HostLacksChanged: Fleet._host_lacks,  # noqa: SLF001
    events_pb2.HostGone: Fleet._host_gone,  # noqa: SLF001
    **dict.fromkeys(cordons.CHANGES, Fleet._host_cordon),  # noqa: SLF001
}
_OF_NO_DAGGER: Final = frozenset(
    kind.DESCRIPTOR.full_name for kind in _HANDLERS.keys() - DECISIONS.keys() - FACTS.keys()
)


def about(record: Record) -> str:
    """Return the name of the dagger a record is about; empty for one about the catalogue or the scheduler.

    One of a type that is not known counts as one about a dagger: its subject says which.
    """
    return record.subject if is_of_dagger(record.type) else ""


def is_of_dagger(type_: str) -> bool:
    """Tell whether records of a type are about daggers, as those are whose type is not known."""
    return type_ not in _OF_NO_DAGGER
