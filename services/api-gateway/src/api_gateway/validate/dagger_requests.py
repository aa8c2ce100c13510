"""A request about a dagger, from the fields of a call to the event in the log: judged, decided, written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from daggers.v1 import access_pb2, events_pb2, gateway_pb2, spec_pb2

from access import Principal, sensitive
from access.principal import is_principal
from access.sensitive import RowOrigins
from api_gateway.auth.authentication import principal
from api_gateway.auth.authorization import Gate
from api_gateway.auth.teams import Teams
from api_gateway.not_found import no_dagger
from api_gateway.state.writer import Writer, refused
from api_gateway.validate import request_fields, spec_check
from api_gateway.validate.query_checks import Checks
from api_gateway.validate.reachability import Reach
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context, actor
from chassis.logging import note
from daggerspec import cutover, fields, sinks
from daggerspec.columns import Column
from daggerspec.defaults import filled
from daggerspec.violation import Violation
from daggersql import Plan
from fleet import Answer, Dagger, Fleet, Refusal
from fleet.fold import quotas, view
from fleet.fold.answers import Code
from fleet.fold.dagger import Request

Named: TypeAlias = (
    gateway_pb2.DeleteDaggerRequest
    | gateway_pb2.StartDaggerRequest
    | gateway_pb2.StopDaggerRequest
    | gateway_pb2.RestartDaggerRequest
)
Specified: TypeAlias = (
    gateway_pb2.CreateDaggerRequest | gateway_pb2.UpdateDaggerRequest | gateway_pb2.ApplyDaggerRequest
)
QueryState: TypeAlias = events_pb2.QueryState


class Requests:
    """Makes daggers what calls ask for. Raises, from every method: ApiError."""

    def __init__(
        self, fleet: Fleet, writer: Writer, checks: Checks, gate: Gate, reach: Reach, teams: Teams
    ) -> None:
        """`gate` is asked about what only a checked query tells, `reach` about what a spec may reach."""
        self._gate, self._reach, self._teams = gate, reach, teams
        self._fleet = fleet
        self._writer = writer
        self._checks = checks
        self._names = quotas.SpentNames()

    async def specified(
        self, request: Specified, meta: events_pb2.RequestMeta, context: Context
    ) -> tuple[gateway_pb2.Dagger, int]:
        """Create or revise a dagger, or only check that: the dagger after it, and its place in the log.

        Raises: ApiError.
        """
        name = request.name
        answer, event = await self.asked(request, meta, context)
        if answer is None:
            after = self.decided(event)
            if isinstance(request, gateway_pb2.UpdateDaggerRequest) and self._fleet.living(name) is None:
                raise no_dagger(name, self._fleet)
            if request.validate_only:
                return view.to_proto(after, self._fleet), 0
            answer = await self.written(event, request.request_id)
        return self.shown(name), answer.sequence

    async def written(self, event: events_pb2.DaggerRequested, request_id: str) -> Answer:
        """Write a specification that was judged."""
        if (team := self._teams.registration(event.spec)) is not None:
            await self._register(team)
        return await self._writer.write(event.name, event, request_id, path="spec")

    async def _register(self, team: access_pb2.Team) -> None:
        """Register a team that is not registered yet. Raises: ApiError."""
        meta = events_pb2.RequestMeta(actor=actor(), expected_version=0)
        event = events_pb2.TeamRegistered(meta=meta, team=team)
        try:
            await self._writer.write(team.name, event, "", path="spec.team")
        except ApiError:
            if team.name not in self._fleet.catalogue.teams:  # else somebody else registered it meanwhile
                raise

    async def asked(
        self, request: Specified, meta: events_pb2.RequestMeta, context: Context, *others: Request
    ) -> tuple[Answer | None, events_pb2.DaggerRequested]:
        """What the request was answered before, if it was, and the event that it is, checked.

        others: what it may have become in its place. Raises: ApiError.
        """
        name, spec = request.name, filled(request.name, request.spec)
        living = self._fleet.living(name)
        # A default that is newer than the dagger is no change of it, and no reason for a restart.
        if living is not None and filled(name, living.spec) == spec:
            spec = living.spec

        def event(
            warnings: Sequence[str],
            query: QueryState | None,
            destinations: Sequence[str] = (),
            *,
            all_registered: bool,
        ) -> events_pb2.DaggerRequested:
            return events_pb2.DaggerRequested(
                meta=meta,
                name=name,
                spec=spec,
                warnings=warnings,
                all_registered=all_registered,
                query=query,
                destinations=destinations,
            )

        def forms(
            warnings: Sequence[str], query: QueryState | None, destinations: Sequence[str]
        ) -> Iterator[Request]:
            yield from others
            yield event((), None, all_registered=False)
            for said in (None, query):  # an older gateway said less of it
                yield event(warnings, said, all_registered=False)
                yield event(warnings, said, all_registered=True)
            for is_checked in (False, True):
                yield event(warnings, query, destinations, all_registered=is_checked)

        # As it was asked before: the warnings of that time are not those of today.
        known = self._fleet.daggers.get(name)
        warnings: Sequence[str] = known.warnings if known else ()
        query = known.query if known else None
        destinations: Sequence[str] = known.destinations if known else ()
        answer = self._writer.answered(request.request_id, forms(warnings, query, destinations))
        # What a dagger is already is not judged again: a check that has learnt more must not refuse it.
        if answer is not None or (living is not None and living.spec == spec):
            asked, violations = event(warnings, query, destinations, all_registered=False), []
        else:
            judged = await self.judged(name, spec, context)
            warnings, violations = judged.warnings, judged.violations
            plan = judged.query.plan
            query = cutover.query_state(spec, plan) if plan else None
            asked = event(warnings, query, judged.destinations, all_registered=True)
            # Meanwhile the same request may have come again, and been answered.
            repeats = forms(warnings, query, judged.destinations)
            answer = self._writer.answered(request.request_id, repeats)
        if answer is None:
            refuse(
                [
                    *fields.name("name", name),
                    *violations,
                    *_envelope(request.request_id, meta.expected_version),
                    *request_fields.message("message", meta.message),
                ]
            )
            refuse(list(request_fields.event_size("spec", asked.ByteSize())))
        return answer, asked

    async def named(
        self, request: Named, event: Request, wrong: Sequence[Violation] = ()
    ) -> tuple[gateway_pb2.Dagger, int]:
        """Do something to a dagger, or only check that: the dagger after it, and its place in the log."""
        answer = self._writer.answered(request.request_id, (event,))
        if answer is None:
            refuse(
                [
                    *fields.name("name", request.name),
                    *wrong,
                    *_envelope(request.request_id, request.expected_version),
                ]
            )
            after = self.decided(event)
            if request.validate_only:
                return view.to_proto(after, self._fleet), 0
            answer = await self._writer.write(request.name, event, request.request_id, path="name")
        return self.shown(request.name), answer.sequence

    async def judged(
        self, name: str, spec: spec_pb2.DaggerSpec, context: Context, *, written: bool = True
    ) -> spec_check.Judged:
        """What is found about a spec whose defaults are filled in, and that who calls asks for. Not
        `written`: its rows are only shown to who calls, masked.
        """
        judged = await self._judged(name, spec)
        reached = await self._reach.found("spec", name, spec, judged.sinks, principal(), context)
        if reached.observed:
            note(observed=sorted({violation.reason for violation in reached.observed}))
        others = [*self._teams.violations("spec.team", spec), *judged.others, *reached.wrong]
        observed = list(reached.observed)
        if unseen := await self._unseen(name, spec, judged, written=written):
            refused = self._gate.refuses(sensitive.refusal(unseen), always=not written)
            (others if refused else observed).extend(unseen)
        return replace(
            judged,
            others=tuple(others),
            observed=tuple(observed),
            destinations=tuple(reached.destinations),
        )

    async def _judged(
        self, name: str, spec: spec_pb2.DaggerSpec, *, accepted: bool = False
    ) -> spec_check.Judged:
        now = datetime.now(UTC)
        return await spec_check.judge(
            "spec", name, spec, self._fleet, self._checks, now=now, accepted=accepted
        )

    async def _unseen(
        self, name: str, spec: spec_pb2.DaggerSpec, judged: spec_check.Judged, *, written: bool
    ) -> Sequence[Violation]:
        """Where a spec goes by sensitive fields that who calls does not see."""
        who, fleet = principal(), self._fleet
        violations = self._located(who, spec, judged, written=written)
        if written and (living := fleet.living(name)) is not None:
            before = sensitive.unseen(who, living.spec, fleet)
            rows = await self.made(living.name, living.spec) if before else None
            dropped = sensitive.check_dropped(who, rows, before, violations, fleet)
            violations += [judged.located_violation(violation) for violation in dropped]
        return violations

    def _located(
        self, who: Principal, spec: spec_pb2.DaggerSpec, judged: spec_check.Judged, *, written: bool
    ) -> list[Violation]:
        """Where a spec goes by sensitive fields that somebody does not see; nowhere where it has no plan."""
        streams, made = sensitive.unseen(who, spec, self._fleet), _made(spec, judged)
        if made is None or not streams:
            return []
        # No column is written that could tell rows of a sink apart, and none is while they are only shown.
        violations = list(sensitive.check_deciding(who, replace(made, telling={}), streams, self._fleet))
        if written:
            violations += sensitive.check_written(who, made, streams, self._fleet)
        return [
            replace(one, field=f"{judged.path}.{one.field}") if one.field else judged.located_violation(one)
            for one in violations
        ]

    async def unseen_by_updaters(self, team: str) -> list[tuple[Dagger, Violation]]:
        """Living daggers of a team, or of all for none, that go by sensitive fields which who asked for them
        does not see, by name, and where. Groups that somebody is in nobody knows here.
        """
        conflicts = []
        for name in sorted(self._fleet.daggers):
            dagger = self._fleet.living(name)
            if dagger is None or team not in ("", dagger.spec.team):
                continue
            who = Principal(dagger.updater, administrator=not is_principal(dagger.updater))
            if sensitive.unseen(who, dagger.spec, self._fleet):
                spec = filled(name, dagger.spec)
                judged = await self._judged(name, spec, accepted=True)
                conflicts += [(dagger, one) for one in self._located(who, spec, judged, written=True)]
        return conflicts

    async def plan(self, name: str, spec: spec_pb2.DaggerSpec) -> Plan | None:
        """The plan of a spec whose defaults are filled in; None where its query cannot be checked."""
        return (await self._judged(name, spec)).query.plan

    async def check_rows(self, dagger: Dagger) -> None:
        """Raises: ApiError where the rows of a dagger are in a place of another team."""
        await self._reach.check_rows(dagger)

    async def made(self, name: str, spec: spec_pb2.DaggerSpec) -> RowOrigins | None:
        """What the rows of a dagger of this spec are made of, as it was accepted; None where its query can no
        longer be checked.
        """
        return _made(spec, await self._judged(name, filled(name, spec), accepted=True))

    async def columns(self, dagger: Dagger) -> Sequence[Column]:
        """The output columns of a dagger; none where its query can no longer be checked."""
        made = await self.made(dagger.name, dagger.spec)
        return made.columns if made else ()

    def decided(self, event: Request) -> Dagger:
        """The dagger as the fold would have it after this request. Raises: ApiError when it refuses."""
        after = self._fleet.after(event, self._fleet.sequence + 1, datetime.now(UTC))
        if isinstance(after, Refusal):
            missing = after.code == Code.NOT_FOUND
            raise no_dagger(event.name, self._fleet) if missing else refused(after)
        if isinstance(event, events_pb2.DaggerRequested):
            fleet = self._fleet
            spent = self._names.refusal(fleet.catalogue, fleet.daggers, event, fleet.sequence)
            if spent is not None:
                raise refused(spent)
        return after

    def shown(self, name: str) -> gateway_pb2.Dagger:
        """A dagger as it is answered."""
        return view.to_proto(self._fleet.daggers[name], self._fleet)


def _made(spec: spec_pb2.DaggerSpec, judged: spec_check.Judged) -> RowOrigins | None:
    plan = judged.query.plan
    if plan is None:
        return None
    by_text = {condition.text: condition.origins for condition in plan.conditions}
    numbered = list(enumerate(spec.sinks))
    return RowOrigins(
        plan.columns,
        plan.origins,
        plan.places,
        plan.influences,
        {f"sinks[{number}].when": by_text[sink.when] for number, sink in numbered if sink.when in by_text},
        {f"sinks[{number}]": sinks.telling(sink, plan.columns) for number, sink in numbered},
    )


def meta_of(request: Any) -> events_pb2.RequestMeta:
    """Who asks, for which version, and why: of every request that may expect one."""
    meta = events_pb2.RequestMeta(actor=actor())
    if request.HasField("expected_version"):
        meta.expected_version = request.expected_version
    if isinstance(request, gateway_pb2.ApplyDaggerRequest):
        meta.message = request.message
    return meta


def _envelope(request_id: str, expected_version: int) -> Iterator[Violation]:
    yield from request_fields.request_id("request_id", request_id)
    yield from request_fields.version("expected_version", expected_version)


def refuse(violations: Sequence[Violation]) -> None:
    """Raises: ApiError when something is wrong."""
    if violations:
        raise invalid(violations)
