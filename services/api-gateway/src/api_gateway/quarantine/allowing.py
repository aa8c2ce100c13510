"""Allow a dagger's sinks to refuse any number of rows for a while: from the call to the
request in the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

from api_gateway.state.writer import RequestWriter
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import DaggerRequests
from chassis.interceptors import actor
from chassis.logging import note
from daggerspec import fields
from daggerspec.violation import Violation

LONGEST: Final = timedelta(hours=24)
"""Longest period. A rule that needs more is wrong: `max_refused` is to be edited."""


class RefusalAllowances:
    """Appends requests that lift a dagger's limit of refused rows. Raises: ApiError."""

    def __init__(
        self,
        requests: DaggerRequests,
        writer: RequestWriter,
        find_event: Callable[[str], Awaitable[Message | None]],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Remember the log. `find_event`: reads the event of an earlier request by its id; None for a new
        one.
        """
        self._requests, self._writer = requests, writer
        self._find_event, self._clock = find_event, clock

    async def allow(self, request: gateway_pb2.AllowRefusalsRequest) -> gateway_pb2.AllowRefusalsResponse:
        """Lift the limit from now on; a repeated request gets the first answer."""
        id_ = request.request_id or uuid.uuid4().hex
        before = await self._find_event(request.request_id)
        if isinstance(before, events_pb2.AllowRefusalsRequested) and before.name == request.dagger:
            answer = self._writer.find_answer(id_, (before,))
            return gateway_pb2.AllowRefusalsResponse(
                until=before.until, sequence=answer.sequence if answer else 0
            )
        event = events_pb2.AllowRefusalsRequested(
            meta=events_pb2.RequestMeta(actor=actor(), message=request.reason), name=request.dagger
        )
        event.until.FromDatetime(self._clock() + request.period.ToTimedelta())
        self._requests.decide(event)
        written = await self._writer.write(request.dagger, event, id_, path="reason")
        note(until=event.until.ToJsonString())
        return gateway_pb2.AllowRefusalsResponse(until=event.until, sequence=written.sequence)


def violations(request: gateway_pb2.AllowRefusalsRequest) -> Iterator[Violation]:
    """Yield what is wrong with a call."""
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
