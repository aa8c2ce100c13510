"""Lines of the logs that the drivers of this host have written, in the steps that a caller takes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import grpc
from daggers.v1 import gateway_pb2, host_pb2

from chassis.errors import ApiError
from chassis.tail import Cursor, Tail
from daggerspec.limits import WATCH_S
from daggerspec.violation import Violation
from fleet.fold.answers import about
from scheduler.host import driver_log
from scheduler.host.driver_log import LONGEST, Position, TraceFilter

LINES: Final = 200
"""Lines of a log that a caller gets unless the request has another number."""
MAX_LINES: Final = 100_000
POLL_S: Final = 0.3


def violations(request: gateway_pb2.ReadLogRequest) -> Iterator[Violation]:
    """Yield the violations of a request for a log, but for the dagger's name."""
    if not 0 <= request.lines <= MAX_LINES:
        yield Violation("request.lines", f"must be 0 to {MAX_LINES}", "OUT_OF_RANGE")
    try:
        _since(request)
    except (ValueError, OverflowError):
        yield Violation("request.since", "must be an instant from year 1 to 9999", "OUT_OF_RANGE")
    if request.generation < 0:
        yield Violation("request.generation", "must not be negative", "OUT_OF_RANGE")
    if request.position and not (request.follow and Position.parse(request.position)):
        yield Violation(
            "request.position", "must be a position that was told, with follow", "INVALID_POSITION"
        )


def _since(request: gateway_pb2.ReadLogRequest) -> datetime | None:
    return request.since.ToDatetime(UTC) if request.HasField("since") else None


class HostLog:
    """The logs of the drivers below one directory `runs`.

    `reading` runs a function that reads files in a thread; `pause` waits so many seconds, and raises what
    ends a
    caller's call.
    """

    def __init__(
        self,
        runs: Path,
        host: str,
        reading: Callable[..., Awaitable[Any]],
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self._runs, self._host = runs, host
        self._reading, self._pause = reading, pause

    async def steps(
        self, request: host_pb2.ReadHostLogRequest
    ) -> AsyncGenerator[gateway_pb2.ReadLogResponse, None]:
        """Yield the last lines of a dagger's newest log; with `follow` also later ones, into later launches.

        The request has no violations. Raises: ApiError.
        """
        query = request.request
        behind = Position.parse(query.position)
        if behind is None:
            since = _since(query)
            default = MAX_LINES if since else LINES
            count = query.lines if query.HasField("lines") else default
            behind = await self._reading(self._last, request, count, since)
        async with aclosing(self._read_on(request, behind)) as steps:
            async for step in steps:
                yield step

    def _last(self, request: host_pb2.ReadHostLogRequest, count: int, since: datetime | None) -> Position:
        """Return where the last lines of the requested log begin. Raises: ApiError."""
        query = request.request
        logs = self._logs(query, request.create_sequence)
        log = driver_log.choose_log(logs, query.generation, previous=query.previous)
        with suppress(FileNotFoundError):  # it was tidied away in between
            if log is not None:
                cursor = driver_log.last(log, count, traces=query.traces, since=since)
                return Position(int(log.parent.name), cursor, inside=False)
        unit = "attempt" if query.replay else "generation"
        of_all = f"replays of {query.name}" if query.replay else query.name
        which = f"{unit} {query.generation} of {of_all}" if query.generation else of_all
        place = f"before that of {which}" if query.previous else f"of {which}"
        there = ", ".join(log.parent.name for log in logs)
        hint = f"; {unit}s with a log are {there}" if there else ""
        text = f"there is no log {place} on its host {self._host}{hint}"
        metadata = {"host": self._host, **about("dagger", query.name)}
        raise ApiError(grpc.StatusCode.NOT_FOUND, "NO_LOG", text, metadata)

    def _logs(self, query: gateway_pb2.ReadLogRequest, after: int) -> list[Path]:
        """Return the requested logs behind a sequence, the oldest first."""
        if query.replay:
            return driver_log.attempts(self._runs, query.name, after)
        shadows = bool(query.generation)  # the one that is named may be one
        return driver_log.launches(self._runs, query.name, after, shadows=shadows)

    async def _read_on(
        self, request: host_pb2.ReadHostLogRequest, behind: Position
    ) -> AsyncGenerator[gateway_pb2.ReadLogResponse, None]:
        """Yield what is written behind a position; one that is followed goes on into each next launch."""
        query = request.request
        generation, cursor, inside = behind.generation, behind.cursor, behind.inside
        while True:
            # By a position that was told, perhaps: only of those that the dagger has.
            logs = await self._reading(self._logs, query, request.create_sequence)
            log = driver_log.choose_log(logs, generation, previous=False) if generation else None
            if log is not None:
                traces = TraceFilter(inside=inside)
                with closing(Tail(log, cursor)) as tail:
                    head = gateway_pb2.ReadLogResponse(host=self._host, path=str(log))
                    async with aclosing(self._lines(query, generation, tail, traces, head)) as steps:
                        async for step in steps:
                            yield step
            if not query.follow:
                return
            after = max(generation, request.create_sequence)
            while not (further := await self._reading(self._logs, query, after)):
                await self._pause(WATCH_S)
            generation, cursor, inside = int(further[0].parent.name), Cursor(), False

    async def _lines(
        self,
        query: gateway_pb2.ReadLogRequest,
        generation: int,
        tail: Tail,
        traces: TraceFilter,
        step: gateway_pb2.ReadLogResponse,
    ) -> AsyncGenerator[gateway_pb2.ReadLogResponse, None]:
        """Yield the lines of a log, in steps that a client takes, the first of which is begun; until it is
        over.
        """
        over = False
        while True:
            written = await self._reading(tail.read)
            step.gap, tail.gap = tail.gap, False  # each is told once
            at_end = not written
            if at_end and not query.follow and (unfinished := tail.unfinished_line()):
                written = [unfinished]
            step.lines.extend(line[:LONGEST] for line in written if query.traces or traces.keeps(line))
            if query.follow:
                step.position = str(Position(generation, tail.cursor, traces.inside))
            if step.lines or step.path or step.gap:
                yield step
            step = gateway_pb2.ReadLogResponse()
            if not at_end:
                continue
            if over or not query.follow:
                return
            # Once more behind the end of a launch that another one follows.
            over = bool(await self._reading(self._logs, query, generation))
            if not over:
                await self._pause(POLL_S)
