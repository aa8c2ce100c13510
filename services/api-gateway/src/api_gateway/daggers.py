"""DaggerService: create, change, run and watch daggers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TypeAlias

import grpc
from daggers.v1 import events_pb2, gateway_pb2, gateway_pb2_grpc, host_pb2, spec_pb2

from api_gateway import answers, applying, filters, specs, validation, vitals
from api_gateway.catalogue import check_sequence
from api_gateway.checks import Checks
from api_gateway.events import watch
from api_gateway.fold import Fold
from api_gateway.heard import Heard
from api_gateway.hosts import Asking, Hosts, Route
from api_gateway.missing import no_dagger
from api_gateway.projection import Projection
from api_gateway.reader import Reader, fitting
from api_gateway.writer import Writer, refused
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context, actor
from daggerspec import fields
from daggerspec.defaults import filled
from daggerspec.violation import Violation
from eventlog import Log
from eventlog.follower import Follower
from fleet import Answer, Applied, Dagger, Fleet, Refusal, view
from fleet.answers import Code
from fleet.dagger import Request, decide

_PAGE = 100
_MAX_PAGE = 1_000

Named: TypeAlias = (
    gateway_pb2.DeleteDaggerRequest
    | gateway_pb2.StartDaggerRequest
    | gateway_pb2.StopDaggerRequest
    | gateway_pb2.RestartDaggerRequest
)
Specified: TypeAlias = (
    gateway_pb2.CreateDaggerRequest | gateway_pb2.UpdateDaggerRequest | gateway_pb2.ApplyDaggerRequest
)


class DaggerService(gateway_pb2_grpc.DaggerServiceServicer):
    """Daggers: what was asked, and what is observed."""

    def __init__(
        self,
        log: Log,
        follower: Follower[Applied],
        fold: Fold,
        writer: Writer,
        reader: Reader,
        projection: Projection,
        hosts: Hosts,
        heard: Heard,
    ) -> None:
        self._log = log
        self._follower = follower
        self._fold = fold
        self._fleet: Fleet = fold.fleet
        self._writer = writer
        self._reader = reader
        self._projection = projection
        self._hosts = hosts
        self._heard = heard
        self._checks = Checks()

    async def CreateDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.CreateDaggerRequest, context: Context
    ) -> gateway_pb2.CreateDaggerResponse:
        """Create a dagger and ask it to run."""
        meta = events_pb2.RequestMeta(actor=actor(), expected_version=0)
        dagger, sequence = await self._specified(request, meta)
        return gateway_pb2.CreateDaggerResponse(dagger=dagger, sequence=sequence)

    async def UpdateDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.UpdateDaggerRequest, context: Context
    ) -> gateway_pb2.UpdateDaggerResponse:
        """Give a dagger a new revision, and ask it to run."""
        dagger, sequence = await self._specified(request, _meta(request))
        return gateway_pb2.UpdateDaggerResponse(dagger=dagger, sequence=sequence)

    async def ApplyDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ApplyDaggerRequest, context: Context
    ) -> gateway_pb2.ApplyDaggerResponse:
        """Bring a dagger to a specification: create it, revise it, start it, or leave it alone."""
        name, meta = request.name, _meta(request)
        start = events_pb2.StartRequested(meta=meta, name=name)
        answer, revise = await self._asked(request, meta, start)
        action = applying.action(self._fleet.living(name), revise.spec)
        if answer is None:
            event = start if action == applying.STARTED else revise
            after = self._decided(event)
            if action == applying.UNCHANGED or request.validate_only:
                unchanged = action == applying.UNCHANGED
                shown = self._shown(name) if unchanged else view.to_proto(after, self._fleet)
                return gateway_pb2.ApplyDaggerResponse(dagger=shown, action=action)
            answer = await self._writer.write(name, event, request.request_id, at="spec")
            started = event is start
        else:
            first = self._fleet.answer(request.request_id, start)
            started = first is not None and first.accepted
        return gateway_pb2.ApplyDaggerResponse(
            dagger=self._shown(name),
            sequence=answer.sequence,
            action=applying.done(answer, started=started),
        )

    async def GetDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetDaggerRequest, context: Context
    ) -> gateway_pb2.GetDaggerResponse:
        """One dagger."""
        check_sequence(request.min_sequence)
        fleet = await self._reader.state(context, request.min_sequence)
        dagger = fleet.living(request.name)
        if dagger is None:
            raise no_dagger(request.name, fleet)
        shown = view.to_proto(dagger, fleet)
        shown.vitals.CopyFrom(self._heard.vitals(dagger))
        return gateway_pb2.GetDaggerResponse(dagger=shown, sequence=fleet.sequence)

    async def ListDaggers(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListDaggersRequest, context: Context
    ) -> gateway_pb2.ListDaggersResponse:
        """Daggers by name, a page at a time."""
        terms, wrong = filters.parse("filter", request.filter)
        scope = filters.scope(request)
        after, wrong_token = filters.read_token("page_token", request.page_token, scope)
        _refuse(
            [
                *wrong,
                *wrong_token,
                *filters.check_phases("phases", request),
                *validation.page_size("page_size", request.page_size),
                *validation.sequence("min_sequence", request.min_sequence),
            ]
        )
        wanted = [*filters.conditions(terms), *filters.asked(request)]
        size = min(request.page_size or _PAGE, _MAX_PAGE)
        found, total, at = await self._reader.read(
            context,
            request.min_sequence,
            lambda: self._projection.daggers(wanted, after=after, limit=size + 1),
        )
        for dagger in found[:size]:
            if (living := self._fleet.living(dagger.name)) is not None:
                dagger.vitals.CopyFrom(self._heard.vitals(living))
        page = fitting(found[:size])
        more = filters.page_token(page[-1].name, scope) if len(found) > len(page) else ""
        return gateway_pb2.ListDaggersResponse(
            daggers=page, next_page_token=more, sequence=at, total_size=total
        )

    async def DeleteDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DeleteDaggerRequest, context: Context
    ) -> gateway_pb2.DeleteDaggerResponse:
        """Stop a dagger and free its name."""
        event = events_pb2.DeleteRequested(meta=_meta(request), name=request.name)
        dagger, sequence = await self._named(request, event)
        return gateway_pb2.DeleteDaggerResponse(dagger=dagger, sequence=sequence)

    async def StartDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.StartDaggerRequest, context: Context
    ) -> gateway_pb2.StartDaggerResponse:
        """Run a dagger that is stopped or failed."""
        event = events_pb2.StartRequested(meta=_meta(request), name=request.name)
        dagger, sequence = await self._named(request, event)
        return gateway_pb2.StartDaggerResponse(dagger=dagger, sequence=sequence)

    async def StopDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.StopDaggerRequest, context: Context
    ) -> gateway_pb2.StopDaggerResponse:
        """Stop a dagger; it keeps its place."""
        wrong = []
        if request.mode not in events_pb2.StopMode.values():
            wrong.append(Violation("mode", f"{request.mode} is not a way to stop", "UNKNOWN_ENUM_VALUE"))
        mode = request.mode or events_pb2.STOP_MODE_DRAIN
        event = events_pb2.StopRequested(meta=_meta(request), name=request.name, mode=mode)
        dagger, sequence = await self._named(request, event, wrong)
        return gateway_pb2.StopDaggerResponse(dagger=dagger, sequence=sequence)

    async def RestartDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RestartDaggerRequest, context: Context
    ) -> gateway_pb2.RestartDaggerResponse:
        """Stop the driver and launch a new one."""
        event = events_pb2.RestartRequested(meta=_meta(request), name=request.name)
        dagger, sequence = await self._named(request, event)
        return gateway_pb2.RestartDaggerResponse(dagger=dagger, sequence=sequence)

    async def Validate(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ValidateRequest, context: Context
    ) -> gateway_pb2.ValidateResponse:
        """Everything that is found about a specification; what cannot run is an answer, not an error."""
        name, spec = request.name, filled(request.name, request.spec)
        judged = await self._judged(name, spec)
        event = events_pb2.DaggerRequested(name=name, spec=spec, warnings=judged.warnings)
        wrong = list(fields.name("name", name)) if name else []
        if not judged.violations:
            wrong += validation.event_size("spec", event.ByteSize())
        return answers.validation(judged, wrong)

    async def WatchEvents(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchEventsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchEventsResponse]:
        """A snapshot, unless a sequence is given, and then every control record behind it."""
        async with aclosing(watch(request, self._log, self._follower, self._fold)) as steps:
            async for step in steps:
                yield step

    async def WatchVitals(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchVitalsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchVitalsResponse]:
        """What daggers do now, and then what of that changes."""
        async with aclosing(vitals.watch(request, self._heard, self._follower, self._fold)) as steps:
            async for step in steps:
                yield step

    def ReadLog(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReadLogRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadLogResponse]:
        """What the newest driver of a dagger printed, as its host has it."""
        _refuse(list(fields.name("name", request.name)))
        if self._hosts.route(request.name) is None:
            text = f"{request.name} was never launched: there is no log of it"
            raise ApiError(grpc.StatusCode.NOT_FOUND, "NO_LOG", text)

        def behind(route: Route, last: gateway_pb2.ReadLogResponse | None) -> host_pb2.ReadHostLogRequest:
            asked = host_pb2.ReadHostLogRequest(request=request, **route.meant)
            if last is not None:
                asked.request.position = last.position
            return asked

        asking = Asking(lambda host: host.ReadHostLog, behind)
        ask = self._hosts.followed if request.follow else self._hosts.asked
        return ask(request.name, asking, context)

    def ReadRows(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReadRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadRowsResponse]:
        """The newest rows of a dagger; none when it was never launched."""
        _refuse(list(fields.name("name", request.name)))
        asking: Asking[gateway_pb2.ReadRowsResponse] = Asking(
            lambda host: host.ReadHostRows,
            lambda route, _: host_pb2.ReadHostRowsRequest(request=request, **route.meant),
        )
        return self._hosts.asked(request.name, asking, context)

    def WatchRows(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchRowsResponse]:
        """The newest rows of a dagger and what is new; waits for its first launch."""
        _refuse(list(fields.name("name", request.name)))
        asking: Asking[gateway_pb2.WatchRowsResponse] = Asking(
            lambda host: host.WatchHostRows,
            lambda route, _: host_pb2.WatchHostRowsRequest(request=request, **route.meant),
        )
        return self._hosts.followed(request.name, asking, context)

    async def _specified(
        self, request: Specified, meta: events_pb2.RequestMeta
    ) -> tuple[gateway_pb2.Dagger, int]:
        name = request.name
        answer, event = await self._asked(request, meta)
        if answer is None:
            after = self._decided(event)
            if isinstance(request, gateway_pb2.UpdateDaggerRequest) and self._fleet.living(name) is None:
                raise no_dagger(name, self._fleet)
            if request.validate_only:
                return view.to_proto(after, self._fleet), 0
            answer = await self._writer.write(name, event, request.request_id, at="spec")
        return self._shown(name), answer.sequence

    async def _asked(
        self, request: Specified, meta: events_pb2.RequestMeta, *others: Request
    ) -> tuple[Answer | None, events_pb2.DaggerRequested]:
        """What the request was answered before, if it was, and the event that it is, checked.

        others: what it may have become in its place. Raises: ApiError.
        """
        name, spec = request.name, filled(request.name, request.spec)
        living = self._fleet.living(name)
        # A default that is newer than the dagger is no change of it, and no reason for a restart.
        if living is not None and filled(name, living.spec) == spec:
            spec = living.spec
        event = events_pb2.DaggerRequested(meta=meta, name=name, spec=spec)
        known = self._fleet.daggers.get(name)
        # As it was asked before: the warnings of that time are not those of today.
        before = _warned(event, known.warnings if known else ())
        answer = self._writer.answered(request.request_id, *others, event, before)
        violations, event = [], before
        # What a dagger is already is not judged again: a check that has learnt more must not refuse it.
        if answer is None and (living is None or living.spec != spec):
            judged = await self._judged(name, spec)
            violations, event = judged.violations, _warned(event, judged.warnings)
            # Meanwhile the same request may have come again, and been answered.
            answer = self._writer.answered(request.request_id, *others, event)
        if answer is None:
            _refuse(
                [
                    *fields.name("name", name),
                    *violations,
                    *_envelope(request.request_id, meta.expected_version),
                ]
            )
            _refuse(list(validation.event_size("spec", event.ByteSize())))
        return answer, event

    async def _named(
        self, request: Named, event: Request, wrong: Sequence[Violation] = ()
    ) -> tuple[gateway_pb2.Dagger, int]:
        answer = self._writer.answered(request.request_id, event)
        if answer is None:
            _refuse(
                [
                    *fields.name("name", request.name),
                    *wrong,
                    *_envelope(request.request_id, request.expected_version),
                ]
            )
            self._decided(event)
            answer = await self._writer.write(request.name, event, request.request_id, at="name")
        return self._shown(request.name), answer.sequence

    async def _judged(self, name: str, spec: spec_pb2.DaggerSpec) -> specs.Judged:
        return await specs.judge("spec", name, spec, self._fleet, self._checks, now=datetime.now(UTC))

    def _decided(self, event: Request) -> Dagger:
        """The dagger as the fold would have it after this request. Raises: ApiError when it refuses."""
        after = decide(
            self._fleet.daggers.get(event.name),
            event,
            sequence=self._fleet.sequence + 1,
            time=datetime.now(UTC),
        )
        if isinstance(after, Refusal):
            missing = after.code == Code.NOT_FOUND
            raise no_dagger(event.name, self._fleet) if missing else refused(after)
        return after

    def _shown(self, name: str) -> gateway_pb2.Dagger:
        return view.to_proto(self._fleet.daggers[name], self._fleet)


def _meta(
    request: Named | gateway_pb2.UpdateDaggerRequest | gateway_pb2.ApplyDaggerRequest,
) -> events_pb2.RequestMeta:
    meta = events_pb2.RequestMeta(actor=actor())
    if request.HasField("expected_version"):
        meta.expected_version = request.expected_version
    return meta


def _warned(event: events_pb2.DaggerRequested, warnings: Sequence[str]) -> events_pb2.DaggerRequested:
    return events_pb2.DaggerRequested(meta=event.meta, name=event.name, spec=event.spec, warnings=warnings)


def _envelope(request_id: str, expected_version: int) -> Iterator[Violation]:
    yield from validation.request_id("request_id", request_id)
    yield from validation.version("expected_version", expected_version)


def _refuse(violations: Sequence[Violation]) -> None:
    if violations:
        raise invalid(violations)
