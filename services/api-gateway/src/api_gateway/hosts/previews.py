"""PreviewDagger: run a query on real data. The gateway validates and masks, a host of drivers computes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Final

import grpc
from daggers.v1 import gateway_pb2, host_pb2
from google.protobuf import duration_pb2

from access.sensitive import RowOrigins
from api_gateway.auth.authentication import principal
from api_gateway.auth.masking import Masking
from api_gateway.hosts.client import Hosts
from api_gateway.hosts.preview_usage import QUOTA, PreviewSeconds
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import DaggerRequests, refuse
from chassis.errors import ApiError
from chassis.interceptors import Context
from daggerspec import fields
from daggerspec.columns import to_proto
from daggerspec.defaults import PREVIEWED, fill_defaults
from daggerspec.limits import PREVIEW_LAST, PREVIEW_RECORDS, PREVIEW_ROWS, PREVIEW_S
from daggerspec.preview import without_sinks
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.fold import quotas
from fleet.fold.tenancy import administrators

OF_A_PRINCIPAL: Final = 1
OF_A_TEAM: Final = 2
_RETRY: Final = timedelta(seconds=5)
Step = gateway_pb2.PreviewDaggerResponse
Progress = gateway_pb2.PreviewProgress


@dataclass
class Usage:
    """Start of a preview's reading, by `clock`; None before it reads."""

    clock: Callable[[], float]
    started: float | None = None

    def note(self, step: Step) -> None:
        """Note a step of the host: with the first of what it reads the usage starts."""
        if step.progress.phase == Progress.PHASE_READING or step.HasField("rows"):
            self.started = self.started or self.clock()


class Previews:
    """Runs previews for callers of this gateway."""

    def __init__(
        self,
        hosts: Hosts,
        fleet: Fleet,
        requests: DaggerRequests,
        masking: Masking,
        seconds: PreviewSeconds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Remember the parts. `seconds` counts the previews of each team; `clock`: monotonic seconds."""
        self._hosts, self._fleet, self._requests, self._masking = hosts, fleet, requests, masking
        self._seconds, self._clock = seconds, clock
        self._running: Counter[tuple[str, str]] = Counter()

    async def steps(
        self, request: gateway_pb2.PreviewDaggerRequest, context: Context
    ) -> AsyncGenerator[Step, None]:
        """Yield the columns, the rows of windows as they close, and the summary. Raises: ApiError."""
        began = time.monotonic()
        name, spec = request.name or PREVIEWED, without_sinks(request.spec)
        del spec.tests[:]
        spec = fill_defaults(name, spec)
        validation = await self._requests.validate(name, spec, context, written=False)
        refuse(
            [
                *(fields.name("name", request.name) if request.name else ()),
                *validation.violations,
                *wrong(request),
            ]
        )
        plan = validation.query.plan
        assert plan is not None  # a query without a plan has violations
        warnings = [*validation.warnings, *self.check_quota(spec.team)]
        with self.admit(spec.team) as usage:
            columns = gateway_pb2.PreviewColumns(columns=map(to_proto, plan.columns), warnings=warnings)
            yield Step(columns=columns)
            preview_request = gateway_pb2.PreviewDaggerRequest(
                name=name, spec=spec, range=request.range, max_rows=request.max_rows or PREVIEW_ROWS
            )
            mask = self._masking.mask_preview(spec, RowOrigins(plan.columns, plan.origins, plan.places))
            masked = [column.name for column in mask.hidden] if mask else ()
            there = host_pb2.PreviewHostDaggerRequest(request=preview_request, masked_columns=masked)
            first_row_ms = None
            steps = self._hosts.ask_any(
                lambda host: host.PreviewHostDagger, there, context, spec=spec, avoid_cordoned=True
            )
            async with aclosing(steps):
                async for step in steps:
                    usage.note(step)
                    if step.HasField("rows"):
                        first_row_ms = first_row_ms or round((time.monotonic() - began) * 1000)
                        if mask is not None:
                            mask.rows(step.rows.rows)
                    elif step.HasField("done"):
                        self._masking.mask_preview_quarantine(spec, step.done.examples)
                        if mask is not None:
                            mask.end(step.done)
                        if first_row_ms is not None:
                            step.done.first_row_ms = first_row_ms
                        step.done.total_ms = round((time.monotonic() - began) * 1000)
                    yield step

    @contextmanager
    def admit(self, team: str) -> Iterator[Usage]:
        """Count the block as one preview of the caller, and its reading time as the team's.

        Raises: ApiError where a principal or a team runs as many as it may.
        """
        with self._limit_running(principal().name, team), self._count_usage(team) as usage:
            yield usage

    def check_quota(self, team: str) -> Iterator[str]:
        """Yield a warning for a team beyond its soft quota. Raises: ApiError where the hard
        one is used up.
        """
        quota, now = quotas.of(self._fleet.catalogue, team, QUOTA), self._clock()
        if refusal := self._seconds.refusal(team, quota, now):
            text, metadata = refusal
            more = f"{text}, or ask {administrators(self._fleet.catalogue)} for more"
            raise ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, quotas.TEAM_QUOTA, more, metadata)
        if warning := self._seconds.warning(team, quota, now):
            yield warning

    @contextmanager
    def _count_usage(self, team: str) -> Iterator[Usage]:
        """Charge the block's reading time to the team; waiting for a turn, or for a process,
        costs nothing.
        """
        usage = Usage(self._clock)
        try:
            yield usage
        finally:
            if usage.started is not None:
                now = self._clock()
                self._seconds.add(team, now - usage.started, now)

    @contextmanager
    def _limit_running(self, who: str, team: str) -> Iterator[None]:
        """Count a running preview. Raises: ApiError where a principal or a team runs as many as it may."""
        limits = {("principal", who): OF_A_PRINCIPAL, ("team", team): OF_A_TEAM}
        for (kind, whom), most in limits.items():
            if self._running[kind, whom] >= most:
                text = (
                    f"{kind} {whom} has {most} preview{'s'[: most - 1]} already: wait for its end, or end it"
                )
                metadata = {"limit": f"previews_of_a_{kind}", "most": str(most), kind: whom}
                code = grpc.StatusCode.RESOURCE_EXHAUSTED
                raise ApiError(code, "TOO_MANY_PREVIEWS", text, metadata, retry_after=_RETRY)
        self._running.update(limits.keys())
        try:
            yield
        finally:
            self._running.subtract(limits.keys())
            self._running = +self._running


def wrong(request: gateway_pb2.PreviewDaggerRequest) -> Sequence[Violation]:
    """Return what is wrong with the range and the number of rows."""
    violations = []
    if not 0 <= request.max_rows <= PREVIEW_ROWS:
        violations.append(Violation("max_rows", f"must be 0 to {PREVIEW_ROWS}", "OUT_OF_RANGE"))
    match request.range.WhichOneof("kind"):
        case "last":
            violations += _duration("range.last", request.range.last, PREVIEW_LAST)
        case "live":
            violations += _duration("range.live", request.range.live, timedelta(seconds=PREVIEW_S))
        case "last_records":
            if not 0 < request.range.last_records <= PREVIEW_RECORDS:
                text = f"must be 1 to {PREVIEW_RECORDS}"
                violations.append(Violation("range.last_records", text, "OUT_OF_RANGE"))
        case "between":
            violations += _between(request.range.between)
    return violations


def _duration(field: str, duration: duration_pb2.Duration, most: timedelta) -> Iterator[Violation]:
    try:
        fits = timedelta() < duration.ToTimedelta() <= most
    except (ValueError, OverflowError):
        fits = False
    if not fits:
        text = f"must be more than 0 and no more than {most.total_seconds():.0f} s"
        yield Violation(field, text, "OUT_OF_RANGE")


def _between(between: gateway_pb2.PreviewRange.Between) -> Iterator[Violation]:
    begin, end = getattr(between, "from"), between.to
    wrong = [
        *request_fields.instant("range.between.from", begin),
        *request_fields.instant("range.between.to", end),
    ]
    yield from wrong
    if not wrong and begin.ToDatetime(UTC) >= end.ToDatetime(UTC):
        yield Violation("range.between.to", "must be later than from", "OUT_OF_RANGE")
