"""HostService: what lies on this host and nowhere else, served to gateways.

It looks at the run directories and at nothing else of the scheduler's, leads no dagger anywhere, and lasts as
long as the process: a standby serves as the leader does.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import gateway_pb2, host_pb2, host_pb2_grpc

from chassis.endpoint import Endpoint
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context, interceptor
from daggerspec import fields
from daggerspec.rundir import SPEC
from daggerspec.violation import Violation
from scheduler import driverlog
from scheduler.driverlog import Tail, TraceFilter
from scheduler.rowreader import RowReader

ROWS: Final = 1_000
MAX_ROWS: Final = 1_000_000
WATCH_S: Final = 1.0
LINES: Final = 200
"""Lines of a log that are told unless asked otherwise."""
MAX_LINES: Final = 100_000
STEP_BYTES: Final = 1024 * 1024
"""A step of an answer is not much longer: gRPC clients take messages of 4 MiB."""
POLL_S: Final = 0.3
MAX_STREAMS: Final = 256
# A caller whose machine is gone is found out, and one that asks whether we are there is no attacker.
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


class HostService(host_pb2_grpc.HostServiceServicer):
    """The logs and rows of the drivers below one directory `runs`."""

    def __init__(self, runs: Path, host: str, rows: RowReader) -> None:
        self._runs = runs
        self._host = host
        self._rows = rows

    async def ReadHostLog(  # noqa: N802 - gRPC's name
        self, request: host_pb2.ReadHostLogRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadLogResponse]:
        """The last lines of a dagger's newest log; then, if asked, what is written."""
        asked = request.request
        wrong = list(fields.name("request.name", asked.name))
        if not 0 <= asked.lines <= MAX_LINES:
            wrong.append(Violation("request.lines", f"must be 0 to {MAX_LINES}", "OUT_OF_RANGE"))
        if wrong:
            raise invalid(wrong)
        count = asked.lines if asked.HasField("lines") else LINES
        log = await asyncio.to_thread(driverlog.newest, self._runs, asked.name, request.create_sequence)
        if log is None:
            raise self._no_log(asked.name)
        try:
            end = await asyncio.to_thread(driverlog.whole_end, log) if asked.follow else None
            last = await asyncio.to_thread(_last_lines, log, end, count, traces=asked.traces)
            yield gateway_pb2.ReadLogResponse(host=self._host, path=str(log))
            for step in _steps(last):
                yield step
            if end is None:
                return
            kept = TraceFilter()
            with closing(Tail(log, end)) as tail:
                while True:
                    written = await asyncio.to_thread(tail.read)
                    for step in _steps(line for line in written if asked.traces or kept.keeps(line)):
                        yield step
                    await asyncio.sleep(POLL_S)
        except FileNotFoundError as error:  # it was tidied away in between
            raise self._no_log(asked.name) from error

    async def ReadHostRows(  # noqa: N802 - gRPC's name
        self, request: host_pb2.ReadHostRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.ReadRowsResponse]:
        """The newest rows of the newest launch; none when there is none."""
        asked = request.request
        wrong = _wrong(asked)
        if not 0 <= asked.limit <= MAX_ROWS:
            wrong.append(Violation("request.limit", f"must be 0 to {MAX_ROWS}", "OUT_OF_RANGE"))
        if wrong:
            raise invalid(wrong)
        launch = await self._launch(asked.name, request.create_sequence)
        if launch is None:
            return
        arguments = [f"--sink={asked.sink}", f"--limit={asked.limit or ROWS}"]
        async with aclosing(self._rows.frames(launch, arguments)) as frames:
            async for frame in frames:
                yield gateway_pb2.ReadRowsResponse.FromString(frame)

    async def WatchHostRows(  # noqa: N802 - gRPC's name
        self, request: host_pb2.WatchHostRowsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchRowsResponse]:
        """The newest rows of the newest launch, and what is new; then of the one that is launched next."""
        asked = request.request
        if wrong := _wrong(asked):
            raise invalid(wrong)
        while True:
            launch = await self._launch(asked.name, request.create_sequence)
            if launch is None:
                yield gateway_pb2.WatchRowsResponse()
                await asyncio.sleep(WATCH_S)
                continue
            async with aclosing(self._rows.frames(launch, [f"--sink={asked.sink}", "--watch"])) as frames:
                async for frame in frames:
                    yield gateway_pb2.WatchRowsResponse.FromString(frame)  # the same on the wire
                    if await self._launch(asked.name, request.create_sequence) != launch:
                        break

    async def _launch(self, name: str, create_sequence: int) -> Path | None:
        """The run directory of a dagger's newest launch."""
        spec = await asyncio.to_thread(driverlog.newest, self._runs, name, create_sequence, SPEC)
        return spec and spec.parent

    def _no_log(self, name: str) -> ApiError:
        text = f"there is no log of {name} on its host {self._host}"
        return ApiError(grpc.StatusCode.NOT_FOUND, "NO_LOG", text, metadata={"host": self._host})


@asynccontextmanager
async def serving(service: HostService, endpoint: Endpoint) -> AsyncIterator[int]:
    """Serves inside the block; gives the port. Raises: CannotBind."""
    server = grpc.aio.server(interceptors=[interceptor(endpoint.tokens)], options=_OPTIONS)
    host_pb2_grpc.add_HostServiceServicer_to_server(service, server)
    port = endpoint.open(server)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)  # who follows a log asks the next scheduler of this host


def _wrong(asked: gateway_pb2.ReadRowsRequest | gateway_pb2.WatchRowsRequest) -> list[Violation]:
    wrong = list(fields.name("request.name", asked.name))
    if not re.fullmatch(r"[a-z0-9_]{0,64}", asked.sink):
        wrong.append(Violation("request.sink", "is not the name of a kind of sink", "INVALID_NAME"))
    return wrong


def _last_lines(log: Path, end: int | None, count: int, *, traces: bool) -> list[str]:
    found = driverlog.lines(log, end)
    return list(deque(found if traces else driverlog.without_traces(found), maxlen=count))


def _steps(lines: Iterable[str]) -> Iterator[gateway_pb2.ReadLogResponse]:
    step, size = gateway_pb2.ReadLogResponse(), 0
    for line in lines:
        step.lines.append(line)
        size += len(line) * 4 + 8  # no character has more bytes
        if size > STEP_BYTES:
            yield step
            step, size = gateway_pb2.ReadLogResponse(), 0
    if step.lines:
        yield step
