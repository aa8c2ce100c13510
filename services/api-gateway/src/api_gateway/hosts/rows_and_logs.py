"""Read a dagger's log, rows and archive from its driver's host."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

import grpc
from daggers.v1 import gateway_pb2, host_pb2

from api_gateway.auth.masking import Masking
from api_gateway.hosts.client import Hosts
from api_gateway.hosts.routes import find_remembered, ignores_selection, living
from api_gateway.state.fold import Fold
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import DaggerRequests, refuse
from chassis.errors import ApiError
from chassis.interceptors import Context
from daggerspec import fields, selection
from daggerspec.columns import to_proto
from daggerspec.sinks import display_names
from fleet import Dagger
from fleet.fold.answers import about
from fleet.fold.phases import DEGRADED, RUNNING

Step = TypeVar("Step", gateway_pb2.ReadLogResponse, gateway_pb2.WatchRowsResponse)


class DaggerReads:
    """Forwards reads to hosts, and masks their responses for the caller."""

    def __init__(
        self, fold: Fold, hosts: Hosts, heartbeats: HeartbeatCache, requests: DaggerRequests, masking: Masking
    ) -> None:
        self._fold, self._hosts, self._heartbeats = fold, hosts, heartbeats
        self._requests, self._masking = requests, masking

    def log(
        self, request: gateway_pb2.ReadLogRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.ReadLogResponse, None]:
        """Return the log of a dagger's newest driver, or of its newest replay. Raises: ApiError."""
        dagger = self._find_dagger(request)
        attempts = self._hosts.route_of_replay(dagger) if request.replay else None
        if request.replay and attempts is None:
            text = f"{request.name} has no replay: there is no log of one"
            raise ApiError(grpc.StatusCode.NOT_FOUND, "NO_LOG", text, about("dagger", request.name))
        if attempts is None and self._hosts.route(dagger) is None:
            text = f"{request.name} was never launched: there is no log of it"
            raise ApiError(grpc.StatusCode.NOT_FOUND, "NO_LOG", text, about("dagger", request.name))

        there = host_pb2.ReadHostLogRequest(request=request)

        def behind(last: gateway_pb2.ReadLogResponse | None) -> host_pb2.ReadHostLogRequest:
            if last is not None:
                there.request.position = last.position
            return there

        if attempts is None and request.follow:
            steps = self._hosts.follow(dagger, lambda host: host.ReadHostLog, behind, context)
        else:  # a replay's attempts do not move with the dagger
            steps = self._hosts.ask(dagger, lambda host: host.ReadHostLog, there, context, there=attempts)
        return _set_creation(dagger, self._add_warnings(dagger, steps, replay=attempts is not None))

    async def _add_warnings(
        self,
        dagger: Dagger,
        steps: AsyncGenerator[gateway_pb2.ReadLogResponse, None],
        *,
        replay: bool = False,
    ) -> AsyncGenerator[gateway_pb2.ReadLogResponse, None]:
        """Yield a log's steps. The first step of a launch gets the warnings of a dagger that does not run."""
        async with aclosing(steps):
            async for step in steps:
                now = self._fold.fleet.living(dagger.name) if step.path else None
                if now is not None and now.phase not in (RUNNING, DEGRADED):
                    step.warnings.extend(self._heartbeats.vitals(now).warnings)
                step.lines[:] = await self._masking.log(dagger, step.lines, replay=replay)
                yield step

    async def rows(
        self, request: gateway_pb2.ReadRowsRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.ReadRowsResponse, None]:
        """Yield rows of a dagger; none where it was never launched. Raises: ApiError."""
        dagger = self._find_dagger(request)
        selected_columns = request.where or request.order_by
        columns = await self._requests.columns(dagger) if selected_columns else ()
        refuse([*selection.violations("", request, columns)])
        await self._requests.check_rows(dagger)
        mask = await self._masking.of(dagger)
        if mask is not None:
            mask.check(request)
        there = host_pb2.ReadHostRowsRequest(request=request, columns=map(to_proto, columns))
        selects = bool(selected_columns or request.HasField("since"))
        answers = self._hosts.ask(dagger, lambda host: host.ReadHostRows, there, context)
        async with aclosing(answers) as steps:
            async for step in steps:
                if selects and not step.selected:
                    raise ignores_selection(self._fold.fleet.host_of(dagger))
                mask = await self._masking.of(dagger)
                if mask is not None:
                    mask.rows(step.rows)
                yield step

    def new_rows(
        self, request: gateway_pb2.WatchRowsRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.WatchRowsResponse, None]:
        """Return the newest rows of a dagger, and rows as they are written; wait for its first launch.

        Raises: ApiError.
        """
        dagger = self._find_dagger(request)
        there = host_pb2.WatchHostRowsRequest(request=request)
        steps = self._hosts.follow(dagger, lambda host: host.WatchHostRows, lambda _: there, context)
        return _set_creation(dagger, self._mask_steps(dagger, steps))

    async def _mask_steps(
        self, dagger: Dagger, steps: AsyncGenerator[gateway_pb2.WatchRowsResponse, None]
    ) -> AsyncGenerator[gateway_pb2.WatchRowsResponse, None]:
        """Yield a watch's steps, masked by the caller's permissions at that moment."""
        async with aclosing(steps):
            await self._requests.check_rows(dagger)
            async for step in steps:
                mask = await self._masking.of(dagger)
                if mask is not None:
                    mask.rows(step.rows)
                yield step

    async def archive(
        self, request: gateway_pb2.DescribeArchiveRequest, context: Context
    ) -> gateway_pb2.DescribeArchiveResponse:
        """Describe the files of a table that a dagger writes, as its host sees them. Raises: ApiError."""
        dagger = self._find_dagger(request)
        names = display_names(dagger.spec.sinks)
        archives = {
            name for name, sink in zip(names, dagger.spec.sinks, strict=True) if sink.HasField("parquet")
        }
        if not archives or request.sink not in ("", *archives):
            text = f"{request.name} has no sink {request.sink or 'of kind parquet'}"
            metadata = {"dagger": request.name, "sinks": ", ".join(sorted(archives))}
            raise ApiError(grpc.StatusCode.NOT_FOUND, "NO_ARCHIVE", text, metadata)
        await self._requests.check_rows(dagger)
        await self._masking.check_archive(dagger)
        there = host_pb2.DescribeHostArchiveRequest(request=request)
        answers = self._hosts.ask(dagger, lambda host: host.DescribeHostArchive, there, context)
        async with aclosing(answers) as steps:
            async for step in steps:
                return step
        text = f"{request.name} was never launched: nothing of it is kept"
        raise ApiError(grpc.StatusCode.FAILED_PRECONDITION, "NEVER_LAUNCHED", text, {"dagger": request.name})

    def _find_dagger(
        self,
        request: gateway_pb2.ReadLogRequest
        | gateway_pb2.ReadRowsRequest
        | gateway_pb2.WatchRowsRequest
        | gateway_pb2.DescribeArchiveRequest,
    ) -> Dagger:
        """Return the dagger that a read is about. Raises: ApiError."""
        create_sequence = (
            0
            if isinstance(request, gateway_pb2.ReadRowsRequest | gateway_pb2.DescribeArchiveRequest)
            else request.create_sequence
        )
        refuse(
            [*fields.name("name", request.name), *request_fields.sequence("create_sequence", create_sequence)]
        )
        includes_deleted = isinstance(request, gateway_pb2.ReadLogRequest) and not request.follow
        return (find_remembered if includes_deleted else living)(
            self._fold.fleet, request.name, create_sequence
        )


async def _set_creation(dagger: Dagger, steps: AsyncGenerator[Step, None]) -> AsyncGenerator[Step, None]:
    """Yield the steps of a read, each with the creation of the dagger that it is about."""
    async with aclosing(steps):
        async for step in steps:
            step.create_sequence = dagger.create_sequence
            yield step
