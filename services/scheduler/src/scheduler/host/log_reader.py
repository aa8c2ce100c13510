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
"""Lines of a log that are told unless asked otherwise."""
MAX_LINES: Final = 100_000
POLL_S: Final = 0.3


def violations(asked: gateway_pb2.ReadLogRequest) -> Iterator[Violation]:
    """What is wrong with what is asked of a log, but for the dagger's name."""
    if not 0 <= asked.lines <= MAX_LINES:
        yield Violation("request.lines", f"must be 0 to {MAX_LINES}", "OUT_OF_RANGE")
    try:
        _since(asked)
    except (ValueError, OverflowError):
        yield Violation("request.since", "must be an instant from year 1 to 9999", "OUT_OF_RANGE")
    if asked.generation < 0:
        yield Violation("request.generation", "must not be negative", "OUT_OF_RANGE")
    if asked.position and not (asked.follow and Position.parse(asked.position)):
        yield Violation(
            "request.position", "must be a position that was told, with follow", "INVALID_POSITION"
        )


def _since(asked: gateway_pb2.ReadLogRequest) -> datetime | None:
    return asked.since.ToDatetime(UTC) if asked.HasField("since") else None


class HostLog:
    """The logs of the drivers below one directory `runs`.

    `reading` answers what a function does that reads files; `pause` waits so many seconds, and raises what
    ends a caller's call.
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
        """The last lines of a dagger's newest log; then, if asked, what is written, into later launches.

        Of a request without violations. Raises: ApiError.
        """
        asked = request.request
        behind = Position.parse(asked.position)
        if behind is None:
            since = _since(asked)
            unsaid = MAX_LINES if since else LINES
            count = asked.lines if asked.HasField("lines") else unsaid
            behind = await self._reading(self._last, request, count, since)
        async with aclosing(self._written(request, behind)) as steps:
            async for step in steps:
                yield step

    def _last(self, request: host_pb2.ReadHostLogRequest, count: int, since: datetime | None) -> Position:
        """Where the last lines of the log begin that is asked for. Raises: ApiError."""
        asked = request.request
        logs = self._logs(asked, request.create_sequence)
        log = driver_log.chosen(logs, asked.generation, previous=asked.previous)
        with suppress(FileNotFoundError):  # it was tidied away in between
            if log is not None:
                cursor = driver_log.last(log, count, traces=asked.traces, since=since)
                return Position(int(log.parent.name), cursor, inside=False)
        unit = "attempt" if asked.replay else "generation"
        of_all = f"replays of {asked.name}" if asked.replay else asked.name
        which = f"{unit} {asked.generation} of {of_all}" if asked.generation else of_all
        what = f"before that of {which}" if asked.previous else f"of {which}"
        there = ", ".join(log.parent.name for log in logs)
        known = f"; {unit}s with a log are {there}" if there else ""
        text = f"there is no log {what} on its host {self._host}{known}"
        metadata = {"host": self._host, **about("dagger", asked.name)}
        raise ApiError(grpc.StatusCode.NOT_FOUND, "NO_LOG", text, metadata)

    def _logs(self, asked: gateway_pb2.ReadLogRequest, after: int) -> list[Path]:
        """The logs behind a sequence of what is asked for, the oldest first."""
        if asked.replay:
            return driver_log.attempts(self._runs, asked.name, after)
        shadows = bool(asked.generation)  # the one that is named may be one
        return driver_log.launches(self._runs, asked.name, after, shadows=shadows)

    async def _written(
        self, request: host_pb2.ReadHostLogRequest, behind: Position
    ) -> AsyncGenerator[gateway_pb2.ReadLogResponse, None]:
        """What is written behind a position; one that is followed goes on into each next launch."""
        asked = request.request
        generation, cursor, inside = behind.generation, behind.cursor, behind.inside
        while True:
            # By a position that was told, perhaps: only of those that the dagger has.
            logs = await self._reading(self._logs, asked, request.create_sequence)
            log = driver_log.chosen(logs, generation, previous=False) if generation else None
            if log is not None:
                kept = TraceFilter(inside=inside)
                with closing(Tail(log, cursor)) as tail:
                    head = gateway_pb2.ReadLogResponse(host=self._host, path=str(log))
                    async with aclosing(self._lines(asked, generation, tail, kept, head)) as steps:
                        async for step in steps:
                            yield step
            if not asked.follow:
                return
            after = max(generation, request.create_sequence)
            while not (further := await self._reading(self._logs, asked, after)):
                await self._pause(WATCH_S)
            generation, cursor, inside = int(further[0].parent.name), Cursor(), False

    async def _lines(
        self,
        asked: gateway_pb2.ReadLogRequest,
        generation: int,
        tail: Tail,
        kept: TraceFilter,
        step: gateway_pb2.ReadLogResponse,
    ) -> AsyncGenerator[gateway_pb2.ReadLogResponse, None]:
        """The lines of a log, in steps that a client takes, the first of which is begun; until it is over."""
        over = False
        while True:
            written = await self._reading(tail.read)
            step.gap, tail.gap = tail.gap, False  # each is told once
            at_end = not written
            if at_end and not asked.follow and (unfinished := tail.unfinished_line()):
                written = [unfinished]
            step.lines.extend(line[:LONGEST] for line in written if asked.traces or kept.keeps(line))
            if asked.follow:
                step.position = str(Position(generation, tail.cursor, kept.inside))
            if step.lines or step.path or step.gap:
                yield step
            step = gateway_pb2.ReadLogResponse()
            if not at_end:
                continue
            if over or not asked.follow:
                return
            # Once more behind the end of a launch that another one follows.
            over = bool(await self._reading(self._logs, asked, generation))
            if not over:
                await self._pause(POLL_S)
