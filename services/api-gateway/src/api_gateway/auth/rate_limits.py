"""Limit the calls of each principal: every call is counted after its authentication."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import grpc

from access.limits import CallLimits, ExceededLimit, Meter
from access.principal import Principal
from api_gateway.auth.authentication import principal
from chassis.errors import ApiError
from chassis.interceptors import Call, Concern

_EXCEEDED_TEXTS: Final = {
    "requests_per_second": "asks for more than {most:g} calls a second",
    "writes_per_second": "asks for more than {most:g} writes a second",
    "streams": "has {most:g} streams open, which is as many as it may",
    "streams_without_role": "has {most:g} streams open, which is as many as it may without a role in a team",
}


def limit_calls(
    limits: CallLimits,
    has_role: Callable[[Principal], bool] = lambda _: True,
    clock: Callable[[], float] = time.monotonic,
) -> Concern:
    """Build the concern that refuses calls beyond a principal's limits.

    has_role: whether a principal has a role in any team. clock: monotonic seconds. Raises, where the concern
    is entered: ApiError, RESOURCE_EXHAUSTED with the time to wait.
    """
    meter = Meter(limits)

    @contextmanager
    def count_call(call: Call) -> Iterator[None]:
        who = principal()
        exceeded = meter.asks(who, call.method, clock())
        if exceeded is None and not call.unary:
            exceeded = meter.opens(who, has_role=has_role(who))
        if exceeded is not None:
            raise _limit_error(who, call, exceeded)
        try:
            yield
        finally:
            if not call.unary:
                meter.closes(who)

    return count_call


def _limit_error(who: Principal, call: Call, exceeded: ExceededLimit) -> ApiError:
    text = _EXCEEDED_TEXTS[exceeded.limit].format(most=exceeded.most)
    return ApiError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "TOO_MUCH_ASKED",
        f"{who.name} {text}: try again in {exceeded.wait_s:.1f} s",
        {
            "limit": exceeded.limit,
            "most": f"{exceeded.most:g}",
            "principal": who.name,
            "method": call.method,
        },
        retry_after=timedelta(seconds=exceeded.wait_s),
    )
