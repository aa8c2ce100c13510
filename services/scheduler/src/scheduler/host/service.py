"""HostService: logs, rows, previews and operations of this host, served to gateways.

It looks at the run directories, and for streams at the fold, leads no dagger anywhere, and lasts as long as
the process: a standby serves as the leader does. When it drains, followed logs end with their position: the
next scheduler of this host goes on from there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

import grpc
from daggers.v1 import gateway_pb2, host_pb2, host_pb2_grpc
from google.protobuf.message import Message

from chassis.connections import Connections, guarding
from chassis.endpoint import Endpoint, server_options
from chassis.errors import ApiError, invalid
from chassis.interceptors import Concern, Context, authentication, interceptor
from chassis.messages import MAX_CARRIER
from daggerspec import fields, selection
from daggerspec.columns import from_proto
from daggerspec.limits import MAX_READ_ROWS, WATCH_S
from daggerspec.rundir import SPEC
from daggerspec.violation import Violation
from scheduler.host import driver_log, log_reader
from scheduler.host.log_reader import HostLog
from scheduler.host.operation_table import TABLE
from scheduler.host.operations import OperationRunner
from scheduler.host.previews import Previews
from scheduler.host.row_reader import RowReader
from scheduler.host.row_watch import Watches

DRAIN_S: Final = 2.0
"""Seconds that calls may take once the host drains."""
MAX_STREAMS: Final = 256
READING: Final = 4
"""Files that are read at once."""
# A caller that asks whether we are there is no attacker.
_OPTIONS: Final = (
    *server_options(MAX_CARRIER, MAX_STREAMS),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)

HostRequest: TypeAlias = (
    host_pb2.ReadHostLogRequest
    | host_pb2.ReadHostRowsRequest
    | host_pb2.WatchHostRowsRequest
    | host_pb2.DescribeHostArchiveRequest
)


Found = TypeVar("Found")


class HostService:
    """The logs and rows of the drivers below one directory `runs`, previews, and each host operation.

    A HostServiceServicer, whose methods for `operation_table` are written out nowhere: what lacks in both is
    missed when a server is made.
    """

    def __init__(
        self,
        runs: Path,
        host: str,
        rows: RowReader,
        operations: OperationRunner | None = None,
        previews: Previews | None = None,
        *,
        most_watches: int = 8,
    ) -> None:
        """`operations`, `previews`: None for a host that has none."""
        self._runs = runs
        self._host = host
        self._rows = rows
        self._operations, self._previews = operations, previews
        for operation in TABLE:
            setattr(self, operation.method, partial(self._operate, operation.method))
        self._watches = Watches(rows, most_watches)
        self._log = HostLog(runs, host, self._reading, self._pause)
        self._draining = asyncio.Event()
        # Of its own: what reads files for callers takes no thread that launches drivers.
        self._threads = ThreadPoolExecutor(READING, "host-files")

    def close(self) -> None:
        """Read no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def drain(self) -> None:
        """Let what is followed or watched end."""
        self._draining.set()
        self._watches.end(self._drains())

    async def ReadHostLog(  # noqa: N802 - gRPC's name
        self, request: host_pb2.ReadHostLogRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadLogResponse]:
        """Yield the last lines of a dagger's newest log; with `follow` also later ones, into later launches.

        Raises: ApiError.
        """
        wrong = [*self._find_violations(request), *log_reader.violations(request.request)]
        if wrong:
            raise invalid(wrong)
        async with aclosing(self._log.steps(request)) as steps:
            async for step in steps:
                yield step

    async def ReadHostRows(  # noqa: N802 - gRPC's name
        self, request: host_pb2.ReadHostRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadRowsResponse]:
        """Yield rows of the newest launch; none when there is none. Raises: ApiError."""
        query, columns = request.request, [from_proto(column) for column in request.columns]
        wrong = [*self._find_violations(request), *_find_sink_violations(query.sink)]
        if not 0 <= query.limit <= MAX_READ_ROWS:
            wrong.append(Violation("request.limit", f"must be 0 to {MAX_READ_ROWS}", "OUT_OF_RANGE"))
        wrong += selection.violations("request.", query, columns)
        if wrong:
            raise invalid(wrong)
        launch = await self._launch(query.name, request.create_sequence)
        if launch is None:
            return
        async with aclosing(self._rows.frames(launch, request)) as frames:
            async for frame in frames:
                yield gateway_pb2.ReadRowsResponse.FromString(frame)

    async def WatchHostRows(  # noqa: N802 - gRPC's name
        self, request: host_pb2.WatchHostRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchRowsResponse]:
        """Yield the newest rows of the newest launch, and new ones; then those of the next launch.

        Raises: ApiError.
        """
        query = request.request
        if wrong := [*self._find_violations(request), *_find_sink_violations(query.sink)]:
            raise invalid(wrong)
        while True:
            launch = await self._launch(query.name, request.create_sequence)
            if launch is None:
                yield gateway_pb2.WatchRowsResponse()
                await self._pause(WATCH_S)
                continue
            async with aclosing(self._watches.messages(launch, query.sink)) as messages:
                async for message in messages:
                    yield gateway_pb2.WatchRowsResponse.FromString(message)
                    if await self._launch(query.name, request.create_sequence) != launch:
                        break

    async def PreviewHostDagger(  # noqa: N802 - gRPC's name
        self, request: host_pb2.PreviewHostDaggerRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.PreviewDaggerResponse]:
        """Yield the steps of a preview, in the process of its cluster. Raises: ApiError."""
        self._check_host(request.host)
        async with aclosing(self._require(self._previews, "previews nothing").steps(request)) as steps:
            async for step in steps:
                yield step

    async def _operate(self, method: str, request: Any, context: Context) -> AsyncIterator[Message]:
        """Answer a method of `operation_table`. Raises: ApiError."""
        self._check_host(request.host)
        operations = self._require(self._operations, f"answers no {method}")
        if wrong := operations.find_violations(method, request):
            raise invalid(wrong)
        async with aclosing(operations.run(method, request)) as answers:
            async for answer in answers:
                yield answer

    async def DescribeHostArchive(  # noqa: N802 - gRPC's name
        self, request: host_pb2.DescribeHostArchiveRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.DescribeArchiveResponse]:
        """Yield the files of a table that the newest launch writes; none when there is none. Raises:
        ApiError.
        """
        if wrong := [*self._find_violations(request), *_find_sink_violations(request.request.sink)]:
            raise invalid(wrong)
        launch = await self._launch(request.request.name, request.create_sequence)
        if launch is None:
            return
        async with aclosing(self._rows.archive(launch, request)) as frames:
            async for frame in frames:
                yield gateway_pb2.DescribeArchiveResponse.FromString(frame)

    def _require(self, part: Found | None, else_it: str) -> Found:
        """Return a part that this host may lack. Raises: ApiError."""
        if part is None:
            text = f"this host {else_it}"
            raise ApiError(grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED", text, {"host": self._host})
        return part

    async def _reading(self, read: Callable[..., Found], *arguments: Any) -> Found:
        """Run a function that reads files in a thread of its own; return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, read, *arguments)

    async def _launch(self, name: str, create_sequence: int) -> Path | None:
        """Return the run directory of a dagger's newest launch."""
        spec = await self._reading(driver_log.newest, self._runs, name, create_sequence, SPEC)
        return spec and spec.parent

    async def _pause(self, seconds: float) -> None:
        """Wait, unless this host drains. Raises: ApiError."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()
        if self._draining.is_set():
            raise self._drains()

    def _drains(self) -> ApiError:
        text = f"the scheduler of host {self._host} shuts down: ask again"
        return ApiError(grpc.StatusCode.UNAVAILABLE, "HOST_DRAINING", text, metadata={"host": self._host})

    def _find_violations(self, request: HostRequest) -> list[Violation]:
        """Return the violations of the name in a request. Raises: ApiError when another host is meant."""
        self._check_host(request.host)
        return list(fields.name("request.name", request.request.name))

    def _check_host(self, host: str) -> None:
        """Refuse a request to another host. Raises: ApiError."""
        if host not in ("", self._host):
            raise ApiError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "WRONG_HOST",
                f"this is host {self._host}, and {host} is meant",
                metadata={"host": self._host},
            )


@asynccontextmanager
async def serving(
    service: HostService, endpoint: Endpoint, counted: Concern | None = None
) -> AsyncIterator[int]:
    """Serve inside the block; yield the port. `counted` counts calls. Raises: CannotBind."""
    connections = Connections()
    authenticator = authentication(endpoint.tokens)
    calls = interceptor(host_pb2.DESCRIPTOR, authenticator, counted, connections=connections)
    server = grpc.aio.server(interceptors=[calls], options=_OPTIONS)
    host_pb2_grpc.add_HostServiceServicer_to_server(cast(Any, service), server)
    port = endpoint.open(server)
    await server.start()
    try:
        async with guarding(connections, port):
            yield port
    finally:
        service.drain()
        await server.stop(DRAIN_S)
        service.close()


def _find_sink_violations(sink: str) -> list[Violation]:
    if re.fullmatch(r"[a-z0-9_-]{0,64}", sink):
        return []
    return [Violation("request.sink", "is not the name of a sink, nor of a kind", "INVALID_NAME")]
