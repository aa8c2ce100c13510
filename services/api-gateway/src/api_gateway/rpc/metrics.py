"""ReadMetrics: what a dagger did in each minute of the last day, and what it costs."""

from __future__ import annotations

from datetime import UTC

from daggers.v1 import gateway_pb2

from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.minute_sums import MinuteCache
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import refuse
from fleet import Dagger
from fleet.health.minutes import FIELDS, minute_of


def read(
    request: gateway_pb2.ReadMetricsRequest, dagger: Dagger, minutes: MinuteCache, heartbeats: HeartbeatCache
) -> gateway_pb2.ReadMetricsResponse:
    """Return the numbers of a dagger. Raises: ApiError, INVALID_ARGUMENT for an instant out of range."""
    refuse(list(request_fields.instant("since", request.since)))
    since = minute_of(request.since.ToDatetime(tzinfo=UTC))
    begin, series = minutes.sums_of(dagger).since(since)
    answer = gateway_pb2.ReadMetricsResponse(cost=heartbeats.cost(dagger))
    if begin >= 0:
        answer.begin.FromSeconds(begin * 60)
        for name, numbers in zip(FIELDS, series, strict=True):
            getattr(answer, name).extend(numbers)
    return answer
