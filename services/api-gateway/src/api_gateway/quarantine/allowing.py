"""Sinks that may refuse as many rows as they like for a while: from a call to the request in the log."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

from api_gateway.state.writer import Writer
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import Requests
from chassis.interceptors import actor
from chassis.logging import note
from daggerspec import fields
from daggerspec.violation import Violation

LONGEST: Final = timedelta(hours=24)
"""Who needs longer has a rule that is not right: `max_refused` is to be edited."""


class Allowing:
    """Asks for it. Raises: ApiError."""

    def __init__(
        self,
        requests: Requests,
        writer: Writer,
        asked_before: Callable[[str], Awaitable[Message | None]],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`asked_before`: the event that a request's id has become, None for a new one."""
        self._requests, self._writer = requests, writer
        self._asked_before, self._clock = asked_before, clock

    async def allow(self, request: gateway_pb2.AllowRefusalsRequest) -> gateway_pb2.AllowRefusalsResponse:
        """Allow it from now on; repeated, the first answer counts."""
        id_ = request.request_id or uuid.uuid4().hex
        before = await self._asked_before(request.request_id)
        if isinstance(before, events_pb2.AllowRefusalsRequested) and before.name == request.dagger:
            known = self._writer.answered(id_, (before,))
            return gateway_pb2.AllowRefusalsResponse(
                until=before.until, sequence=known.sequence if known else 0
            )
        event = events_pb2.AllowRefusalsRequested(
            meta=events_pb2.RequestMeta(actor=actor(), message=request.reason), name=request.dagger
        )
        event.until.FromDatetime(self._clock() + request.period.ToTimedelta())
        self._requests.decided(event)
        written = await self._writer.write(request.dagger, event, id_, path="reason")
        note(until=event.until.ToJsonString())
        return gateway_pb2.AllowRefusalsResponse(until=event.until, sequence=written.sequence)


def violations(request: gateway_pb2.AllowRefusalsRequest) -> Iterator[Violation]:
    """What is wrong with asking for it."""
    yield from fields.name("dagger", request.dagger)
    wrong = list(fields.duration("period", request.period))
    yield from wrong
    if not request.HasField("period"):
        yield Violation("period", "is needed: say for how long; 0 ends it", "REQUIRED")
    elif not wrong and request.period.ToTimedelta() > LONGEST:
        text = f"must be at most {LONGEST // timedelta(hours=1)} hours: for longer edit max_refused"
        yield Violation("period", text, "OUT_OF_RANGE")
    yield from request_fields.message("reason", request.reason)
    yield from request_fields.request_id("request_id", request.request_id)
