"""DaggerService: create, change, run and watch daggers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC

from daggers.v1 import events_pb2, gateway_pb2, gateway_pb2_grpc

from api_gateway.auth.authorization import Gate
from api_gateway.hosts import reread_plan
from api_gateway.hosts.client import Hosts
from api_gateway.hosts.previews import Previewing
from api_gateway.hosts.routes import living
from api_gateway.hosts.rows_and_logs import Readings
from api_gateway.hosts.sink_tests import SinkTests
from api_gateway.hosts.stream_samples import Samples
from api_gateway.rpc import filters, paging, revisions, validate_response
from api_gateway.rpc.lists import check_sequence
from api_gateway.rpc.past_records import Past
from api_gateway.rpc.watch_events import watch
from api_gateway.rpc.watch_vitals import Vitals
from api_gateway.state.fold import Fold
from api_gateway.state.heartbeat_cache import Heard
from api_gateway.state.projection import Projection
from api_gateway.state.reader import Reader
from api_gateway.state.writer import Writer
from api_gateway.validate import apply_action, edit_plan, request_fields
from api_gateway.validate.dagger_requests import Requests, meta_of, refuse
from chassis.interceptors import Context, actor
from daggerspec import fields
from daggerspec.defaults import filled
from daggerspec.violation import Violation
from eventlog import Log
from eventlog.follower import Follower
from fleet import Applied, Fleet
from fleet.fold import quotas, view


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What calls about daggers are answered by."""

    log: Log
    """The control topic."""
    follower: Follower[Applied]
    fold: Fold
    writer: Writer
    reader: Reader
    projection: Projection
    hosts: Hosts
    samples: Samples
    heard: Heard
    requests: Requests
    previewing: Previewing
    readings: Readings
    vitals: Vitals
    gate: Gate
    sink_tests: SinkTests


class DaggerService(gateway_pb2_grpc.DaggerServiceServicer):
    """Daggers: what was asked, and what is observed."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._past = parts, Past(parts.log)
        self._fleet: Fleet = parts.fold.fleet

    async def CreateDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.CreateDaggerRequest, context: Context
    ) -> gateway_pb2.CreateDaggerResponse:
        """Create a dagger and ask it to run."""
        meta = events_pb2.RequestMeta(actor=actor(), expected_version=0)
        dagger, sequence = await self._parts.requests.specified(request, meta, context)
        return gateway_pb2.CreateDaggerResponse(dagger=dagger, sequence=sequence)

    async def UpdateDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.UpdateDaggerRequest, context: Context
    ) -> gateway_pb2.UpdateDaggerResponse:
        """Give a dagger a new revision, and ask it to run."""
        dagger, sequence = await self._parts.requests.specified(request, meta_of(request), context)
        return gateway_pb2.UpdateDaggerResponse(dagger=dagger, sequence=sequence)

    async def ApplyDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ApplyDaggerRequest, context: Context
    ) -> gateway_pb2.ApplyDaggerResponse:
        """Bring a dagger to a specification: create it, revise it, start it, or leave it alone."""
        name, meta = request.name, meta_of(request)
        start = events_pb2.StartRequested(meta=meta, name=name)
        answer, revise = await self._parts.requests.asked(request, meta, context, start)
        action = apply_action.action(self._fleet.living(name), revise.spec)
        if answer is None:
            event = start if action == apply_action.STARTED else revise
            after = self._parts.requests.decided(event)
            if action == apply_action.UNCHANGED or request.validate_only:
                unchanged = action == apply_action.UNCHANGED
                shown = self._parts.requests.shown(name) if unchanged else view.to_proto(after, self._fleet)
                return gateway_pb2.ApplyDaggerResponse(dagger=shown, action=action)
            answer = (
                await self._parts.requests.written(event, request.request_id)
                if isinstance(event, events_pb2.DaggerRequested)
                else await self._parts.writer.write(name, event, request.request_id, path="spec")
            )
            started = event is start
        else:
            first = self._fleet.answer(request.request_id, start)
            started = first is not None and first.accepted
        return gateway_pb2.ApplyDaggerResponse(
            dagger=self._parts.requests.shown(name),
            sequence=answer.sequence,
            action=apply_action.done(answer, started=started),
        )

    async def PlanDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.PlanDaggerRequest, context: Context
    ) -> gateway_pb2.PlanDaggerResponse:
        """What ApplyDagger would do, and what that does to windows and rows."""
        name = request.name
        asked = gateway_pb2.ApplyDaggerRequest(name=name, spec=request.spec, validate_only=True)
        meta = meta_of(asked)
        _, revise = await self._parts.requests.asked(asked, meta, context)
        after = edit_plan.Revision(
            filled(name, revise.spec), await self._parts.requests.plan(name, filled(name, revise.spec))
        )
        dagger = self._fleet.living(name)
        before = None if dagger is None else await self._parts.requests.plan(name, filled(name, dagger.spec))
        watermark = None
        if dagger is not None and (heard := self._parts.heard.vitals(dagger)).HasField("watermark"):
            watermark = heard.watermark.ToDatetime(tzinfo=UTC)
        answer = edit_plan.planned(dagger, before, after, watermark, cuts_over=self._fleet.cuts_over)
        if dagger is not None:
            answer.cost.CopyFrom(self._parts.heard.cost(dagger))
        if answer.action != apply_action.UNCHANGED:
            start = events_pb2.StartRequested(meta=meta, name=name)
            self._parts.requests.decided(start if answer.action == apply_action.STARTED else revise)
            answer.launch_memory_mib = quotas.need_mib(after.spec)
            if dagger is not None and after.plan is not None and answer.effect == edit_plan.RECOMPUTED:
                reads, why = await reread_plan.looked(self._parts.hosts, dagger, after.spec, context)
                answer.reads_unchecked = why
                if reads is not None:
                    reread_plan.tell(answer, after.plan, reads)
            if request.try_sinks and edit_plan.concerns_sinks(answer):
                await self._parts.sink_tests.add_refusals(answer, name, after.spec, context)
            answer.warnings.extend(revise.warnings)
        return answer

    async def PreviewDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.PreviewDaggerRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.PreviewDaggerResponse]:
        """The rows of a query on real data."""
        async with aclosing(self._parts.previewing.steps(request, context)) as steps:
            async for step in steps:
                yield step

    async def GetDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetDaggerRequest, context: Context
    ) -> gateway_pb2.GetDaggerResponse:
        """One dagger."""
        check_sequence(request.min_sequence)
        fleet = await self._parts.reader.state(context, request.min_sequence)
        dagger = living(fleet, request.name)
        shown = view.to_proto(dagger, fleet)
        shown.vitals.CopyFrom(self._parts.heard.vitals(dagger))
        return gateway_pb2.GetDaggerResponse(dagger=shown, sequence=fleet.sequence)

    async def ListDaggers(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListDaggersRequest, context: Context
    ) -> gateway_pb2.ListDaggersResponse:
        """Daggers by name, a page at a time."""
        terms, wrong = filters.parse("filter", request.filter)
        scope = filters.scope(request)
        page, wrong_page = paging.asked(request, scope)
        refuse(
            [
                *wrong,
                *filters.check_phases("phases", request),
                *wrong_page,
                *request_fields.sequence("min_sequence", request.min_sequence),
            ]
        )
        wanted = [*filters.conditions(terms, self._parts.gate.readable()), *filters.asked(request)]
        listed, total, sequence = await self._parts.reader.read(
            context,
            request.min_sequence,
            lambda: self._parts.projection.daggers(wanted, after=page.after, limit=page.limit),
        )
        for dagger in listed[: page.size]:
            if (living := self._fleet.living(dagger.name)) is not None:
                dagger.vitals.CopyFrom(self._parts.heard.vitals(living))
        shown, more = page.cut(listed, paging.name)
        return gateway_pb2.ListDaggersResponse(
            daggers=shown, next_page_token=more, sequence=sequence, total_size=total
        )

    async def ListRevisions(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListRevisionsRequest, context: Context
    ) -> gateway_pb2.ListRevisionsResponse:
        """What a dagger was asked to be, newest first, a page at a time."""
        return await revisions.page(request, self._parts.log, self._parts.reader, context)

    async def DeleteDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DeleteDaggerRequest, context: Context
    ) -> gateway_pb2.DeleteDaggerResponse:
        """Stop a dagger and free its name."""
        event = events_pb2.DeleteRequested(meta=meta_of(request), name=request.name)
        dagger, sequence = await self._parts.requests.named(request, event)
        return gateway_pb2.DeleteDaggerResponse(dagger=dagger, sequence=sequence)

    async def StartDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.StartDaggerRequest, context: Context
    ) -> gateway_pb2.StartDaggerResponse:
        """Run a dagger that is stopped or failed."""
        event = events_pb2.StartRequested(meta=meta_of(request), name=request.name)
        dagger, sequence = await self._parts.requests.named(request, event)
        return gateway_pb2.StartDaggerResponse(dagger=dagger, sequence=sequence)

    async def StopDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.StopDaggerRequest, context: Context
    ) -> gateway_pb2.StopDaggerResponse:
        """Stop a dagger; it keeps its place."""
        wrong = []
        if request.mode not in events_pb2.StopMode.values():
            wrong.append(Violation("mode", f"{request.mode} is not a way to stop", "UNKNOWN_ENUM_VALUE"))
        mode = request.mode or events_pb2.STOP_MODE_DRAIN
        event = events_pb2.StopRequested(meta=meta_of(request), name=request.name, mode=mode)
        dagger, sequence = await self._parts.requests.named(request, event, wrong)
        return gateway_pb2.StopDaggerResponse(dagger=dagger, sequence=sequence)

    async def RestartDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RestartDaggerRequest, context: Context
    ) -> gateway_pb2.RestartDaggerResponse:
        """Stop the driver and launch a new one, which goes on where that was, or begins anew."""
        event = events_pb2.RestartRequested(
            meta=meta_of(request), name=request.name, from_start=request.from_start
        )
        dagger, sequence = await self._parts.requests.named(request, event)
        return gateway_pb2.RestartDaggerResponse(dagger=dagger, sequence=sequence)

    async def Validate(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ValidateRequest, context: Context
    ) -> gateway_pb2.ValidateResponse:
        """Everything that is found about a specification; what cannot run is an answer, not an error."""
        name, spec = request.name, filled(request.name, request.spec)
        judged = await self._parts.requests.judged(name, spec, context)
        event = events_pb2.DaggerRequested(name=name, spec=spec, warnings=judged.warnings)
        wrong = list(fields.name("name", name)) if name else []
        if not judged.violations:
            wrong += request_fields.event_size("spec", event.ByteSize())
        answer = validate_response.validation(judged, wrong)
        if not request.without_topics:
            await self._parts.samples.look(spec, answer, context)
        return answer

    async def WatchEvents(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchEventsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchEventsResponse]:
        """A snapshot, unless a sequence is given, and then every control record behind it."""
        async with aclosing(watch(request, self._past, self._parts.follower, self._parts.fold)) as steps:
            async for step in steps:
                yield step

    async def WatchVitals(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchVitalsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchVitalsResponse]:
        """What daggers do now, and then what of that changes."""
        async with aclosing(self._parts.vitals.watch(request)) as steps:
            async for step in steps:
                yield step

    async def ReadLog(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReadLogRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadLogResponse]:
        """What the newest driver of a dagger printed, as its host has it."""
        async with aclosing(self._parts.readings.log(request, context)) as steps:
            async for step in steps:
                yield step

    async def ReadRows(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReadRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadRowsResponse]:
        """Rows of a dagger; none when it was never launched."""
        async with aclosing(self._parts.readings.rows(request, context)) as steps:
            async for step in steps:
                yield step

    async def WatchRows(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchRowsResponse]:
        """The newest rows of a dagger and what is new; waits for its first launch."""
        async with aclosing(self._parts.readings.new_rows(request, context)) as steps:
            async for step in steps:
                yield step

    async def DescribeArchive(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DescribeArchiveRequest, context: Context
    ) -> gateway_pb2.DescribeArchiveResponse:
        """The files of a table that a dagger writes, as its host sees them."""
        return await self._parts.readings.archive(request, context)
