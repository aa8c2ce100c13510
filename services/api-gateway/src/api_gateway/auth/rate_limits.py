"""How much each principal may ask of this gateway: every call is counted behind its authentication."""

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

_SAID: Final = {
    "requests_per_second": "asks for more than {most:g} calls a second",
    "writes_per_second": "asks for more than {most:g} writes a second",
    "streams": "has {most:g} streams open, which is as many as it may",
    "streams_without_role": "has {most:g} streams open, which is as many as it may without a role in a team",
}


def limited(
    limits: CallLimits,
    has_role: Callable[[Principal], bool] = lambda _: True,
    clock: Callable[[], float] = time.monotonic,
) -> Concern:
    """Refuses what is too much for one principal. `has_role`: whether one has a role in any team; `clock`:
    seconds that go on.

    Raises, where the concern is entered: ApiError, RESOURCE_EXHAUSTED with the time to wait.
    """
    meter = Meter(limits)

    @contextmanager
    def counted(call: Call) -> Iterator[None]:
        who = principal()
        exceeded = meter.asks(who, call.method, clock())
        if exceeded is None and not call.unary:
            exceeded = meter.opens(who, has_role=has_role(who))
        if exceeded is not None:
            raise _refused(who, call, exceeded)
        try:
            yield
        finally:
            if not call.unary:
                meter.closes(who)

    return counted


def _refused(who: Principal, call: Call, exceeded: ExceededLimit) -> ApiError:
    said = _SAID[exceeded.limit].format(most=exceeded.most)
    return ApiError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "TOO_MUCH_ASKED",
        f"{who.name} {said}: try again in {exceeded.wait_s:.1f} s",
        {
            "limit": exceeded.limit,
            "most": f"{exceeded.most:g}",
            "principal": who.name,
            "method": call.method,
        },
        retry_after=timedelta(seconds=exceeded.wait_s),
    )
