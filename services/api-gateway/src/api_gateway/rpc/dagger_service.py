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
from api_gateway.hosts.previews import Previews
from api_gateway.hosts.query_tests import QueryTests
from api_gateway.hosts.routes import living
from api_gateway.hosts.rows_and_logs import DaggerReads
from api_gateway.hosts.sink_tests import SinkTests
from api_gateway.hosts.stream_samples import Samples
from api_gateway.rpc import completion, filters, metrics, paging, revisions, validate_response
from api_gateway.rpc.lists import check_sequence
from api_gateway.rpc.past_records import PastRecords
from api_gateway.rpc.watch_events import watch
from api_gateway.rpc.watch_vitals import Vitals
from api_gateway.state.fold import Fold
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.minute_sums import MinuteCache
from api_gateway.state.projection import Projection
from api_gateway.state.reader import StateReader
from api_gateway.state.writer import RequestWriter
from api_gateway.validate import (
    apply_action,
    downstream,
    edit_plan,
    move_plan,
    offered_streams,
    request_fields,
)
from api_gateway.validate.dagger_requests import DaggerRequests, meta_of, refuse
from chassis.interceptors import Context, actor
from daggerspec import fields, state
from daggerspec.defaults import fill_defaults
from daggerspec.violation import Violation
from eventlog import Log
from eventlog.follower import Follower
from fleet import ApplyResult, Dagger, Fleet
from fleet.decide import packing
from fleet.fold import quotas, view


@dataclass(frozen=True, slots=True, kw_only=True)
class DaggerParts:
    """Dependencies of the service."""

    log: Log
    """The control topic."""
    follower: Follower[ApplyResult]
    fold: Fold
    writer: RequestWriter
    reader: StateReader
    projection: Projection
    hosts: Hosts
    samples: Samples
    heartbeats: HeartbeatCache
    minutes: MinuteCache
    requests: DaggerRequests
    previews: Previews
    query_tests: QueryTests
    reads: DaggerReads
    vitals: Vitals
    gate: Gate
    sink_tests: SinkTests


class DaggerService(gateway_pb2_grpc.DaggerServiceServicer):
    """Serves requests about daggers, and their observed state."""

    def __init__(self, parts: DaggerParts) -> None:
        self._parts, self._past = parts, PastRecords(parts.log)
        self._fleet: Fleet = parts.fold.fleet

    async def CreateDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.CreateDaggerRequest, context: Context
    ) -> gateway_pb2.CreateDaggerResponse:
        """Create a dagger and request that it runs."""
        meta = events_pb2.RequestMeta(actor=actor(), expected_version=0)
        dagger, sequence = await self._parts.requests.apply_spec(request, meta, context)
        return gateway_pb2.CreateDaggerResponse(dagger=dagger, sequence=sequence)

    async def UpdateDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.UpdateDaggerRequest, context: Context
    ) -> gateway_pb2.UpdateDaggerResponse:
        """Append a new revision of a dagger, and request that it runs."""
        dagger, sequence = await self._parts.requests.apply_spec(request, meta_of(request), context)
        return gateway_pb2.UpdateDaggerResponse(dagger=dagger, sequence=sequence)

    async def ApplyDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ApplyDaggerRequest, context: Context
    ) -> gateway_pb2.ApplyDaggerResponse:
        """Apply a specification: create, revise or start a dagger, or leave it alone."""
        name, meta = request.name, meta_of(request)
        start = events_pb2.StartRequested(meta=meta, name=name)
        answer, revise = await self._parts.requests.prepare_request(request, meta, context, start)
        action = apply_action.action(self._fleet.living(name), revise.spec)
        if answer is None:
            event = start if action == apply_action.STARTED else revise
            after = self._parts.requests.decide(event)
            if action == apply_action.UNCHANGED or request.validate_only:
                unchanged = action == apply_action.UNCHANGED
                dagger = (
                    self._parts.requests.view_dagger(name) if unchanged else view.to_proto(after, self._fleet)
                )
                return gateway_pb2.ApplyDaggerResponse(dagger=dagger, action=action)
            answer = (
                await self._parts.requests.append_request(event, request.request_id)
                if isinstance(event, events_pb2.DaggerRequested)
                else await self._parts.writer.write(name, event, request.request_id, path="spec")
            )
            started = event is start
        else:
            first = self._fleet.answer(request.request_id, start)
            started = first is not None and first.accepted
        return gateway_pb2.ApplyDaggerResponse(
            dagger=self._parts.requests.view_dagger(name),
            sequence=answer.sequence,
            action=apply_action.action_of(answer, started=started),
        )

    async def PlanDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.PlanDaggerRequest, context: Context
    ) -> gateway_pb2.PlanDaggerResponse:
        """Plan what ApplyDagger would do, and its effects on windows and rows."""
        name = request.name
        apply_request = gateway_pb2.ApplyDaggerRequest(name=name, spec=request.spec, validate_only=True)
        meta = meta_of(apply_request)
        _, revise = await self._parts.requests.prepare_request(apply_request, meta, context)
        after = edit_plan.Revision(
            fill_defaults(name, revise.spec),
            await self._parts.requests.plan(name, fill_defaults(name, revise.spec)),
        )
        dagger = self._fleet.living(name)
        before = (
            None
            if dagger is None
            else await self._parts.requests.plan(name, fill_defaults(name, dagger.spec))
        )
        watermark = None
        if dagger is not None and (vitals := self._parts.heartbeats.vitals(dagger)).HasField("watermark"):
            watermark = vitals.watermark.ToDatetime(tzinfo=UTC)
        answer = edit_plan.build_plan(dagger, before, after, watermark, cuts_over=self._fleet.cuts_over)
        if dagger is not None:
            answer.cost.CopyFrom(self._parts.heartbeats.cost(dagger))
            if answer.effect == edit_plan.STATE_KEPT and after.plan is not None and after.plan.horizon:
                on_disk = state.on_disk(after.spec, after.plan)
                answer.reason += move_plan.describe_division(
                    dagger.spec, after.spec, self._fleet, on_disk=on_disk
                )
        if answer.action != apply_action.UNCHANGED:
            start = events_pb2.StartRequested(meta=meta, name=name)
            decided = self._parts.requests.decide(start if answer.action == apply_action.STARTED else revise)
            launches = answer.effect != edit_plan.WITHOUT_RESTART
            if launches and (company := packing.foresee_company(self._fleet, decided)) is not None:
                answer.company.CopyFrom(company)
            answer.launch_memory_mib = quotas.need_mib(after.spec)
            if dagger is not None and after.plan is not None and answer.effect == edit_plan.RECOMPUTED:
                planned_reads, why = await reread_plan.plan_reads(
                    self._parts.hosts, dagger, after.spec, context
                )
                answer.reads_unchecked = why
                if planned_reads is not None:
                    reread_plan.set_reads(answer, after.plan, planned_reads)
            if request.try_sinks and edit_plan.concerns_sinks(answer):
                await self._parts.sink_tests.add_refusals(answer, name, after.spec, context)
            answer.warnings.extend(revise.warnings)
            answer.warnings.extend(move_plan.warn_of_unshared_checkpoints(after.spec, self._fleet))
            losses = downstream.find_losses(name, before, after, self._fleet)
            trace, readable = self._parts.requests.trace_origins, self._parts.gate.readable()
            async for warning in downstream.warn_of_losses(losses, self._fleet, trace, readable):
                answer.warnings.append(warning)
        return answer

    async def PreviewDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.PreviewDaggerRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.PreviewDaggerResponse]:
        """Yield the rows of a query on real data."""
        async with aclosing(self._parts.previews.steps(request, context)) as steps:
            async for step in steps:
                yield step

    async def TestDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.TestDaggerRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.TestDaggerResponse]:
        """Yield the results of a query's tests."""
        async with aclosing(self._parts.query_tests.steps(request, context)) as steps:
            async for step in steps:
                yield step

    async def GetDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetDaggerRequest, context: Context
    ) -> gateway_pb2.GetDaggerResponse:
        """Return one dagger."""
        check_sequence(request.min_sequence)
        fleet = await self._parts.reader.state(context, request.min_sequence)
        dagger = living(fleet, request.name)
        message = view.to_proto(dagger, fleet)
        self._add_state(message, dagger)
        return gateway_pb2.GetDaggerResponse(dagger=message, sequence=fleet.sequence)

    def _add_state(self, message: gateway_pb2.Dagger, dagger: Dagger) -> None:
        """Add what a dagger does now, and with whom it shares a process."""
        message.vitals.CopyFrom(self._parts.heartbeats.vitals(dagger))
        if (company := packing.describe_company(self._fleet, dagger)) is not None:
            message.company.CopyFrom(company)

    async def ListDaggers(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListDaggersRequest, context: Context
    ) -> gateway_pb2.ListDaggersResponse:
        """List daggers by name, a page at a time."""
        terms, wrong = filters.parse("filter", request.filter)
        scope = filters.scope(request)
        page, wrong_page = paging.read_page(request, scope)
        refuse(
            [
                *wrong,
                *filters.check_phases("phases", request),
                *wrong_page,
                *request_fields.sequence("min_sequence", request.min_sequence),
            ]
        )
        wanted = [*filters.conditions(terms, self._parts.gate.readable()), *filters.field_conditions(request)]
        listed, total, sequence = await self._parts.reader.read(
            context,
            request.min_sequence,
            lambda: self._parts.projection.daggers(wanted, after=page.after, limit=page.limit),
        )
        for dagger in listed[: page.size]:
            if (living := self._fleet.living(dagger.name)) is not None:
                self._add_state(dagger, living)
        daggers, more = page.cut(listed, paging.name)
        return gateway_pb2.ListDaggersResponse(
            daggers=daggers, next_page_token=more, sequence=sequence, total_size=total
        )

    async def ListRevisions(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListRevisionsRequest, context: Context
    ) -> gateway_pb2.ListRevisionsResponse:
        """List the revisions of a dagger, newest first, a page at a time."""
        return await revisions.page(request, self._parts.log, self._parts.reader, context)

    async def DeleteDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DeleteDaggerRequest, context: Context
    ) -> gateway_pb2.DeleteDaggerResponse:
        """Stop a dagger and free its name."""
        event = events_pb2.DeleteRequested(meta=meta_of(request), name=request.name)
        dagger, sequence = await self._parts.requests.change_dagger(request, event)
        return gateway_pb2.DeleteDaggerResponse(dagger=dagger, sequence=sequence)

    async def StartDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.StartDaggerRequest, context: Context
    ) -> gateway_pb2.StartDaggerResponse:
        """Start a dagger that is stopped or failed."""
        event = events_pb2.StartRequested(meta=meta_of(request), name=request.name)
        dagger, sequence = await self._parts.requests.change_dagger(request, event)
        return gateway_pb2.StartDaggerResponse(dagger=dagger, sequence=sequence)

    async def StopDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.StopDaggerRequest, context: Context
    ) -> gateway_pb2.StopDaggerResponse:
        """Stop a dagger; its checkpoint stays."""
        wrong = []
        if request.mode not in events_pb2.StopMode.values():
            wrong.append(Violation("mode", f"{request.mode} is not a way to stop", "UNKNOWN_ENUM_VALUE"))
        mode = request.mode or events_pb2.STOP_MODE_DRAIN
        event = events_pb2.StopRequested(meta=meta_of(request), name=request.name, mode=mode)
        dagger, sequence = await self._parts.requests.change_dagger(request, event, wrong)
        return gateway_pb2.StopDaggerResponse(dagger=dagger, sequence=sequence)

    async def RestartDagger(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RestartDaggerRequest, context: Context
    ) -> gateway_pb2.RestartDaggerResponse:
        """Stop the driver and launch a new one, which continues, or begins again."""
        event = events_pb2.RestartRequested(
            meta=meta_of(request), name=request.name, from_start=request.from_start
        )
        dagger, sequence = await self._parts.requests.change_dagger(request, event)
        return gateway_pb2.RestartDaggerResponse(dagger=dagger, sequence=sequence)

    async def PauseSink(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.PauseSinkRequest, context: Context
    ) -> gateway_pb2.PauseSinkResponse:
        """Have the rows of a sink wait until it is resumed."""
        event = events_pb2.SinkPauseRequested(
            meta=meta_of(request), name=request.name, sink=request.sink, paused=True
        )
        dagger, sequence = await self._parts.requests.change_dagger(request, event)
        return gateway_pb2.PauseSinkResponse(dagger=dagger, sequence=sequence)

    async def ResumeSink(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ResumeSinkRequest, context: Context
    ) -> gateway_pb2.ResumeSinkResponse:
        """Have the rows of a sink written again."""
        event = events_pb2.SinkPauseRequested(meta=meta_of(request), name=request.name, sink=request.sink)
        dagger, sequence = await self._parts.requests.change_dagger(request, event)
        return gateway_pb2.ResumeSinkResponse(dagger=dagger, sequence=sequence)

    async def Validate(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ValidateRequest, context: Context
    ) -> gateway_pb2.ValidateResponse:
        """Validate a specification; problems are findings of the response, not errors."""
        name, spec = request.name, fill_defaults(request.name, request.spec)
        validation = await self._parts.requests.validate(name, spec, context)
        event = events_pb2.DaggerRequested(name=name, spec=spec, warnings=validation.warnings)
        wrong = list(fields.name("name", name)) if name else []
        if not validation.violations:
            wrong += request_fields.event_size("spec", event.ByteSize())
        answer = validate_response.build_response(validation, wrong)
        if request.offer_streams:
            answer.offered_streams.extend(offered_streams.offer_streams(name, spec, validation, self._fleet))
        if not request.without_topics:
            await self._parts.samples.look(spec, answer, context)
        return answer

    async def WatchEvents(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchEventsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchEventsResponse]:
        """Yield a snapshot, unless a sequence is given, and then each control record after it."""
        async with aclosing(watch(request, self._past, self._parts.follower, self._parts.fold)) as steps:
            async for step in steps:
                yield step

    async def WatchVitals(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchVitalsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchVitalsResponse]:
        """Yield the vitals of daggers, and then their changes."""
        async with aclosing(self._parts.vitals.watch(request)) as steps:
            async for step in steps:
                yield step

    async def ReadMetrics(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReadMetricsRequest, context: Context
    ) -> gateway_pb2.ReadMetricsResponse:
        """Return what a dagger did in each minute of the last day."""
        dagger = living(await self._parts.reader.state(context, 0), request.name)
        return metrics.read(request, dagger, self._parts.minutes, self._parts.heartbeats)

    async def WaitCompleted(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WaitCompletedRequest, context: Context
    ) -> gateway_pb2.WaitCompletedResponse:
        """Return whether records of a stream are in every sink, once they are or the wait is over."""
        return await completion.wait(request, self._fleet, self._parts.heartbeats, context.time_remaining())

    async def ReadLog(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReadLogRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadLogResponse]:
        """Yield the log of a dagger's newest driver, from its host."""
        async with aclosing(self._parts.reads.log(request, context)) as steps:
            async for step in steps:
                yield step

    async def ReadRows(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReadRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadRowsResponse]:
        """Yield rows of a dagger; none where it was never launched."""
        async with aclosing(self._parts.reads.rows(request, context)) as steps:
            async for step in steps:
                yield step

    async def WatchRows(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchRowsResponse]:
        """Yield the newest rows of a dagger, and rows as they are written; wait for its first launch."""
        async with aclosing(self._parts.reads.new_rows(request, context)) as steps:
            async for step in steps:
                yield step

    async def DescribeArchive(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DescribeArchiveRequest, context: Context
    ) -> gateway_pb2.DescribeArchiveResponse:
        """Describe the files of a table that a dagger writes, as its host sees them."""
        return await self._parts.reads.archive(request, context)
