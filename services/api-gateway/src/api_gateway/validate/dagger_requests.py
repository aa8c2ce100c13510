"""Requests about daggers: from the fields of a call to the event in the log."""

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
from api_gateway.state.writer import RequestWriter, refusal_error
from api_gateway.validate import given_records, request_fields, spec_check
from api_gateway.validate.query_checks import Checks
from api_gateway.validate.reachability import Reach
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context, actor
from chassis.logging import note
from daggerspec import cutover, fields, sinks
from daggerspec.columns import Column
from daggerspec.defaults import fill_defaults
from daggerspec.violation import Violation
from daggersql import Plan
from fleet import Answer, Dagger, Fleet, Refusal
from fleet.fold import quotas, view
from fleet.fold.answers import Code
from fleet.fold.dagger import Request

ChangeRequest: TypeAlias = (
    gateway_pb2.DeleteDaggerRequest
    | gateway_pb2.StartDaggerRequest
    | gateway_pb2.StopDaggerRequest
    | gateway_pb2.RestartDaggerRequest
    | gateway_pb2.PauseSinkRequest
    | gateway_pb2.ResumeSinkRequest
)
SpecRequest: TypeAlias = (
    gateway_pb2.CreateDaggerRequest | gateway_pb2.UpdateDaggerRequest | gateway_pb2.ApplyDaggerRequest
)
QueryState: TypeAlias = events_pb2.QueryState


class DaggerRequests:
    """Validates, decides and appends requests about daggers. Raises, from every method: ApiError."""

    def __init__(
        self, fleet: Fleet, writer: RequestWriter, checks: Checks, gate: Gate, reach: Reach, teams: Teams
    ) -> None:
        """Remember the parts. `gate` decides what needs the checked query, `reach` what a specification may
        reach.
        """
        self._gate, self._reach, self._teams = gate, reach, teams
        self._fleet = fleet
        self._writer = writer
        self._checks = checks
        self._names = quotas.SpentNames()

    async def apply_spec(
        self, request: SpecRequest, meta: events_pb2.RequestMeta, context: Context
    ) -> tuple[gateway_pb2.Dagger, int]:
        """Create or revise a dagger, or only check that; return the dagger afterwards, and its sequence in
        the log.

        Raises: ApiError.
        """
        name = request.name
        answer, event = await self.prepare_request(request, meta, context)
        if answer is None:
            after = self.decide(event)
            if isinstance(request, gateway_pb2.UpdateDaggerRequest) and self._fleet.living(name) is None:
                raise no_dagger(name, self._fleet)
            if request.validate_only:
                return view.to_proto(after, self._fleet), 0
            answer = await self.append_request(event, request.request_id)
        return self.view_dagger(name), answer.sequence

    async def append_request(self, event: events_pb2.DaggerRequested, request_id: str) -> Answer:
        """Append a validated specification, after registering its team where that is due."""
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
            if team.name not in self._fleet.catalogue.teams:  # else another call has registered it meanwhile
                raise

    async def prepare_request(
        self, request: SpecRequest, meta: events_pb2.RequestMeta, context: Context, *others: Request
    ) -> tuple[Answer | None, events_pb2.DaggerRequested]:
        """Build and validate a request's event; return it with the answer where the request was answered
        before.

        others: other events an earlier gateway may have written for this id. Raises: ApiError.
        """
        name, spec = request.name, fill_defaults(request.name, request.spec)
        living = self._fleet.living(name)
        # a default that is newer than the dagger is no change of it, and no reason for a restart
        if living is not None and fill_defaults(name, living.spec) == spec:
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
            for stored_query in (None, query):  # older gateways stored no query state
                yield event(warnings, stored_query, all_registered=False)
                yield event(warnings, stored_query, all_registered=True)
            for is_checked in (False, True):
                yield event(warnings, query, destinations, all_registered=is_checked)

        # the forms of an earlier request: its warnings may differ from those of today
        before = self._fleet.daggers.get(name)
        warnings: Sequence[str] = before.warnings if before else ()
        query = before.query if before else None
        destinations: Sequence[str] = before.destinations if before else ()
        answer = self._writer.find_answer(request.request_id, forms(warnings, query, destinations))
        # an unchanged specification is not validated again: newer checks must not refuse what runs
        if answer is not None or (living is not None and living.spec == spec):
            prepared, violations = event(warnings, query, destinations, all_registered=False), []
        else:
            validation = await self.validate(name, spec, context)
            warnings, violations = validation.warnings, validation.violations
            plan = validation.query.plan
            query = cutover.query_state(spec, plan) if plan else None
            prepared = event(warnings, query, validation.destinations, all_registered=True)
            # during the validation the same request may have arrived again, and been answered
            repeats = forms(warnings, query, validation.destinations)
            answer = self._writer.find_answer(request.request_id, repeats)
        if answer is None:
            refuse(
                [
                    *fields.name("name", name),
                    *violations,
                    *_envelope(request.request_id, meta.expected_version),
                    *request_fields.message("message", meta.message),
                ]
            )
            refuse(list(request_fields.event_size("spec", prepared.ByteSize())))
        return answer, prepared

    async def change_dagger(
        self, request: ChangeRequest, event: Request, wrong: Sequence[Violation] = ()
    ) -> tuple[gateway_pb2.Dagger, int]:
        """Append a change of a dagger, or only check it; return the dagger afterwards, and its sequence in
        the log.
        """
        answer = self._writer.find_answer(request.request_id, (event,))
        if answer is None:
            refuse(
                [
                    *fields.name("name", request.name),
                    *wrong,
                    *_envelope(request.request_id, request.expected_version),
                ]
            )
            after = self.decide(event)
            if request.validate_only:
                return view.to_proto(after, self._fleet), 0
            answer = await self._writer.write(request.name, event, request.request_id, path="name")
        return self.view_dagger(request.name), answer.sequence

    async def validate(
        self, name: str, spec: spec_pb2.DaggerSpec, context: Context, *, written: bool = True
    ) -> spec_check.SpecValidation:
        """Validate a specification that has its defaults, with the caller's permissions.

        Not `written`: its rows are only shown to the caller, masked.
        """
        validation = await self._check_spec(name, spec)
        reach = await self._reach.check_spec("spec", name, spec, validation.sinks, principal(), context)
        if reach.observed:
            note(observed=sorted({violation.reason for violation in reach.observed}))
        others = [*self._teams.violations("spec.team", spec), *validation.others, *reach.wrong]
        if spec.tests:
            others += given_records.violations("spec", spec, self._fleet)
            others += given_records.sensitive("spec", spec, self._fleet, principal(), stored=written)
        observed = list(reach.observed)
        if unseen := await self._unseen(name, spec, validation, written=written):
            is_refused = self._gate.refuses(sensitive.refusal(unseen), always=not written)
            (others if is_refused else observed).extend(unseen)
        return replace(
            validation,
            others=tuple(others),
            observed=tuple(observed),
            destinations=tuple(reach.destinations),
        )

    async def _check_spec(
        self, name: str, spec: spec_pb2.DaggerSpec, *, accepted: bool = False
    ) -> spec_check.SpecValidation:
        now = datetime.now(UTC)
        return await spec_check.validate(
            "spec", name, spec, self._fleet, self._checks, now=now, accepted=accepted
        )

    async def _unseen(
        self, name: str, spec: spec_pb2.DaggerSpec, validation: spec_check.SpecValidation, *, written: bool
    ) -> Sequence[Violation]:
        """Return violations where a specification uses sensitive fields that the caller does not see."""
        who, fleet = principal(), self._fleet
        violations = self._unseen_places(who, spec, validation, written=written)
        if written and (living := fleet.living(name)) is not None:
            before = sensitive.unseen(who, living.spec, fleet)
            rows = await self.trace_origins(living.name, living.spec) if before else None
            dropped = sensitive.check_dropped(who, rows, before, violations, fleet)
            violations += [validation.locate_violation(violation) for violation in dropped]
        return violations

    def _unseen_places(
        self,
        who: Principal,
        spec: spec_pb2.DaggerSpec,
        validation: spec_check.SpecValidation,
        *,
        written: bool,
    ) -> list[Violation]:
        """Return violations where a specification uses sensitive fields that `who` does not see; none without
        a plan.
        """
        if not (streams := sensitive.unseen(who, spec, self._fleet)):
            return []
        if (origins := _row_origins(spec, validation)) is None:
            return []
        # telling={}: columns that tell a sink's rows apart matter only where they are written, see
        # check_written
        violations = list(sensitive.check_deciding(who, replace(origins, telling={}), streams, self._fleet))
        if written:
            violations += sensitive.check_written(who, origins, streams, self._fleet)
            if spec.late.keep:
                violations += sensitive.check_late_records(who, streams, self._fleet)
        return [
            replace(one, field=f"{validation.path}.{one.field}")
            if one.field
            else validation.locate_violation(one)
            for one in violations
        ]

    async def unseen_by_updaters(self, team: str) -> list[tuple[Dagger, Violation]]:
        """Return living daggers that use sensitive fields which their last editor does not see, with the
        places.

        `team`: daggers of this team; empty: all. Groups of editors are unknown here, so their permissions do
        not count.
        """
        conflicts = []
        for name in sorted(self._fleet.daggers):
            dagger = self._fleet.living(name)
            if dagger is None or team not in ("", dagger.spec.team):
                continue
            who = Principal(dagger.updater, administrator=not is_principal(dagger.updater))
            if sensitive.unseen(who, dagger.spec, self._fleet):
                spec = fill_defaults(name, dagger.spec)
                validation = await self._check_spec(name, spec, accepted=True)
                conflicts += [
                    (dagger, one) for one in self._unseen_places(who, spec, validation, written=True)
                ]
        return conflicts

    async def plan(self, name: str, spec: spec_pb2.DaggerSpec) -> Plan | None:
        """Return the plan of a specification that has its defaults; None where its query
        cannot be checked.
        """
        return (await self._check_spec(name, spec)).query.plan

    async def check_rows(self, dagger: Dagger) -> None:
        """Check that the rows of a dagger are in no place of another team. Raises: ApiError."""
        await self._reach.check_rows(dagger)

    async def trace_origins(self, name: str, spec: spec_pb2.DaggerSpec) -> RowOrigins | None:
        """Return the origins of the rows of a dagger with this specification, by the rules it was accepted
        by; None where its query can no longer be checked.
        """
        return _row_origins(spec, await self._check_spec(name, fill_defaults(name, spec), accepted=True))

    async def columns(self, dagger: Dagger) -> Sequence[Column]:
        """Return the output columns of a dagger; none where its query can no longer be checked."""
        origins = await self.trace_origins(dagger.name, dagger.spec)
        return origins.columns if origins else ()

    def decide(self, event: Request) -> Dagger:
        """Return the dagger as the fold would have it after a request. Raises: ApiError where it refuses."""
        after = self._fleet.after(event, self._fleet.sequence + 1, datetime.now(UTC))
        if isinstance(after, Refusal):
            missing = after.code == Code.NOT_FOUND
            raise no_dagger(event.name, self._fleet) if missing else refusal_error(after)
        if isinstance(event, events_pb2.DaggerRequested):
            fleet = self._fleet
            spent = self._names.refusal(fleet.catalogue, fleet.daggers, event, fleet.sequence)
            if spent is not None:
                raise refusal_error(spent)
        return after

    def view_dagger(self, name: str) -> gateway_pb2.Dagger:
        """Return a dagger as responses show it."""
        return view.to_proto(self._fleet.daggers[name], self._fleet)


def _row_origins(spec: spec_pb2.DaggerSpec, validation: spec_check.SpecValidation) -> RowOrigins | None:
    plan = validation.query.plan
    if plan is None:
        return None
    by_text = {condition.text: condition.origins for condition in plan.conditions}
    numbered = list(enumerate(spec.sinks))
    of_rules = {rule.text.name: rule.origins for rule in plan.rules}
    rules = {f"alerts[{number}]": of_rules.get(rule.name, ()) for number, rule in enumerate(spec.alerts)}
    return RowOrigins(
        plan.columns,
        plan.origins,
        plan.places,
        plan.influences,
        {f"sinks[{number}].when": by_text[sink.when] for number, sink in numbered if sink.when in by_text},
        {f"sinks[{number}]": sinks.telling(sink, plan.columns) for number, sink in numbered},
        rules,
    )


def meta_of(request: Any) -> events_pb2.RequestMeta:
    """Build an event's metadata: who asks, for which version, and why."""
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
    """Raise an error with all violations where there are any. Raises: ApiError."""
    if violations:
        raise invalid(violations)
