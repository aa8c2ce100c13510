"""Forward calls about daggers and streams to the schedulers on drivers' hosts.

Nothing is cached: each call opens its own channel, carries the caller's deadline, yields each step before it
reads the next, and is cancelled with the caller's call. A call that follows a dagger moves with it, to its
next host or to its host's next scheduler, and ends when the dagger is deleted.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast

import grpc
from daggers.v1 import host_pb2, host_pb2_grpc, spec_pb2
from google.protobuf.message import Message

from api_gateway.hosts.routes import (
    ELSEWHERE,
    HostRoute,
    Route,
    everywhere,
    find_remembered,
    find_uncordoned,
    of_replay,
    order_by_files,
    refusal,
    route,
    unreachable,
)
from api_gateway.state.fold import Fold
from api_gateway.watch_limits import shutdown_error
from chassis.binding import is_loopback
from chassis.errors import ApiError, from_rpc_error
from chassis.interceptors import Context
from chassis.logging import note
from eventlog.follower import Follower
from fleet import ApplyResult, Dagger
from fleet.fold.hosts import Endpoint

_MAX_MESSAGE: Final = 4 * 1024 * 1024
_CONNECT_MS: Final = 3_000
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # also the longest attempt to connect
    ("grpc.keepalive_time_ms", 30_000),  # finds hosts that vanished without closing the connection
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.enable_http_proxy", 0),
)
PATIENCE_S: Final = 30.0
"""Longest time that a followed host may be unreachable, in seconds: its scheduler is being replaced."""
LINGER_S: Final = 2.0
"""Seconds for which a host is still read after the dagger has left it: its driver's last lines."""
_AGAIN_S: Final = 0.5
SIGN_OF_LIFE_S: Final = 10.0
"""Longest wait for a sign of life of a host, in seconds, before somebody's word that it is gone counts."""
PLAN_S: Final = 20.0
"""Longest wait of a plan for a host, in seconds."""
_ANSWER_S: Final = 1.0
"""Seconds of a call's time that are reserved for its own response."""
Step = TypeVar("Step", bound=Message)
# Generic in the stubs only.
Method: TypeAlias = "Callable[[host_pb2_grpc.HostServiceAsyncStub], Callable[..., AsyncIterable[Step]]]"


@dataclass(frozen=True, slots=True)
class HostAccess:
    """Credentials of the gateway for hosts, and how it trusts them."""

    token: str = field(default="", repr=False)
    """Token that hosts require; empty: none."""
    authority: bytes | None = None
    """PEM of the authority that signed the hosts' certificates; None: the system's authorities."""
    here: str = ""
    """Name of the gateway's own host: only its schedulers are called at loopback addresses."""


class Hosts:
    """Forwards streaming calls to the hosts of the fold."""

    def __init__(
        self,
        follower: Follower[ApplyResult],
        fold: Fold,
        access: Callable[[], HostAccess],
        *,
        patience_s: float = PATIENCE_S,
        linger_s: float = LINGER_S,
    ) -> None:
        self._follower = follower
        self._fold = fold
        self._access = access
        self._patience_s, self._linger_s = patience_s, linger_s

    def route(self, dagger: Dagger) -> Route | None:
        """Return the route to a dagger's host now; None where it was never launched. Raises: ApiError."""
        fleet = self._fold.fleet
        return route(fleet, find_remembered(fleet, dagger.name, dagger.create_sequence))

    def route_of_replay(self, dagger: Dagger) -> Route | None:
        """Return the route to the host of a dagger's newest replay; None where it had none.
        Raises: ApiError.
        """
        return of_replay(self._fold.fleet, dagger)

    async def ask(
        self,
        dagger: Dagger,
        method: Method[Step],
        request: Message,
        context: Context,
        *,
        there: Route | None = None,
    ) -> AsyncGenerator[Step, None]:
        """Yield the steps of a call about a dagger, from its host or from `there`; none where it was never
        launched.

        Raises: ApiError.
        """
        route = there or self.route(dagger)
        if route is not None:
            steps = self._ask(route, method, self._address(request, route), context)
            async with aclosing(steps):
                async for step in steps:
                    yield step

    async def ask_any(
        self,
        method: Method[Step],
        request: Message,
        context: Context,
        *,
        spec: spec_pb2.DaggerSpec,
        avoid_cordoned: bool = False,
    ) -> AsyncGenerator[Step, None]:
        """Yield the steps of a call from the first host that can answer.

        spec: names what the host reads for it; hosts that lack a file of that are asked last.
        avoid_cordoned: whether the call is work that a cordon stays free of. Raises: ApiError; the first
        host's error where no host can.
        """
        failure: ApiError | None = None
        fleet = self._fold.fleet
        routes = find_uncordoned(fleet) if avoid_cordoned else everywhere(fleet)
        for there in order_by_files(fleet, routes, spec):
            begun = False
            try:
                addressed = self._address(request, there)
                async with aclosing(self._ask(there, method, addressed, context)) as steps:
                    async for step in steps:
                        begun = True
                        yield step
            except ApiError as error:
                if begun or error.reason not in ELSEWHERE:
                    raise
                failure = failure or error
            else:
                return
        assert failure is not None
        raise failure

    async def answers(self, host: str, context: Context) -> bool:
        """Return whether a scheduler of a host answers in time, whatever it says."""
        endpoints = self._fold.fleet.hosts.get(host, ())
        if not endpoints:
            return False
        nothing = host_pb2.ReadHostLogRequest(host=host)
        steps = self._ask(HostRoute(host, endpoints), lambda stub: stub.ReadHostLog, nothing, context)
        try:
            async with asyncio.timeout(SIGN_OF_LIFE_S), aclosing(steps):
                await anext(steps, None)
        except TimeoutError:
            return False
        except ApiError as error:
            silent = error.code is grpc.StatusCode.DEADLINE_EXCEEDED
            return not silent and error.reason != "HOST_UNREACHABLE"
        return True

    async def follow(
        self,
        dagger: Dagger,
        method: Method[Step],
        request: Callable[[Step | None], Message],
        context: Context,
    ) -> AsyncGenerator[Step, None]:
        """Yield the steps of a call from the dagger's host, wherever it moves, from its launch until it is
        deleted.

        `request` builds a host's request from the last step. A host that has answered once may be unreachable
        for `patience_s`. Raises: ApiError.
        """
        last: Step | None = None
        lost = 0.0
        clock = asyncio.get_running_loop().time
        route = await self._wait_for_launch(dagger)
        while route is not None:
            begun, answered = clock(), False
            try:
                steps = self._while_there(route, method, request(last), context)
                async with aclosing(steps):
                    async for step in steps:
                        last, answered = step, True
                        yield step
            except ApiError as error:
                if self._gone(dagger):
                    return
                if error.code is not grpc.StatusCode.UNAVAILABLE or last is None or self._follower.draining:
                    raise
                lasted = answered or clock() - begun > self._patience_s
                lost = clock() if lasted or not lost else lost
                if clock() - lost > self._patience_s:
                    raise
                await asyncio.sleep(_AGAIN_S)
            if self._gone(dagger):
                return
            with suppress(ApiError):  # the new host's scheduler has not registered its endpoint yet
                route = self.route(dagger) or route

    async def _wait_for_launch(self, dagger: Dagger) -> Route | None:
        """Wait until a dagger is launched; return its route, None where it is deleted before. Raises:
        ApiError.
        """
        route: Route | None = None

        def has_route_or_ends() -> bool:
            nonlocal route
            if not self._gone(dagger):
                route = self.route(dagger)
            return route is not None or self._follower.draining or self._gone(dagger)

        await self._follower.until(has_route_or_ends)
        if route is None and not self._gone(dagger):
            raise shutdown_error()
        return route

    def _gone(self, dagger: Dagger) -> bool:
        """Return whether a dagger is deleted; a later one of its name is another dagger."""
        living = self._fold.fleet.living(dagger.name)
        return living is None or living.create_sequence != dagger.create_sequence

    def _left(self, route: Route) -> bool:
        """Return whether the dagger of a route has moved to another host, or is deleted."""
        fleet = self._fold.fleet
        living = fleet.living(route.dagger.name)
        return living is None or self._gone(route.dagger) or fleet.host_of(living) not in ("", route.host)

    async def _while_there(
        self, route: Route, method: Method[Step], request: Message, context: Context
    ) -> AsyncGenerator[Step, None]:
        """Yield the steps of a call to a host while the dagger is there, and for `linger_s` afterwards."""
        clock = asyncio.get_running_loop().time
        leaving = asyncio.create_task(self._follower.until(lambda: self._left(route)))
        steps = self._ask(route, method, self._address(request, route), context)
        end, coming = math.inf, asyncio.ensure_future(anext(steps, None))
        try:
            while clock() < end:
                await asyncio.wait((coming, leaving), return_when=asyncio.FIRST_COMPLETED)
                if leaving.done():
                    end = min(end, clock() + self._linger_s)
                    await asyncio.wait((coming,), timeout=end - clock())
                if coming.done():
                    step = coming.result()
                    if step is None:
                        return
                    yield step
                    coming = asyncio.ensure_future(anext(steps, None))
        finally:
            leaving.cancel()
            coming.cancel()
            await asyncio.wait((coming,))
            await steps.aclose()

    def _address(self, request: Message, route: HostRoute) -> Message:
        """Copy a request and set the host, and where it has such fields, the dagger's creation and this
        gateway's sequence, which the host must have reached.
        """
        addressed: Any = type(request)()
        addressed.CopyFrom(request)
        addressed.host = route.host
        has = request.DESCRIPTOR.fields_by_name
        if "create_sequence" in has and isinstance(route, Route):
            addressed.create_sequence = route.dagger.create_sequence
        if "min_sequence" in has:
            addressed.min_sequence = self._fold.fleet.sequence
        return cast(Message, addressed)

    async def _ask(
        self, route: HostRoute, method: Method[Step], request: Message, context: Context
    ) -> AsyncGenerator[Step, None]:
        """Yield the steps of a call to the first scheduler of a host that answers. Raises: ApiError."""
        note(host=route.host)
        failure: ApiError | None = None
        for endpoint in route.endpoints:
            if is_loopback(endpoint.address) and route.host != self._access().here:
                # a scheduler at this address would be one of the gateway's own host
                failure = failure or unreachable(
                    route.host,
                    f"its scheduler serves on {endpoint.address}, where only that host reaches it: set"
                    " DAGGERS_SCHEDULER_HOST_BIND there",
                )
                continue
            begun = False
            async with self._channel(endpoint) as channel:
                call: Any = method(host_pb2_grpc.HostServiceStub(channel))(
                    request, timeout=context.time_remaining(), metadata=self._metadata()
                )
                draining = asyncio.create_task(self._cancel_at_drain(call))
                try:
                    async for step in call:
                        begun = True
                        yield step
                except grpc.RpcError as error:
                    failure = refusal(from_rpc_error(error), route.host, endpoint)
                    if begun or failure.reason != "HOST_UNREACHABLE":
                        raise failure from error
                    continue
                except asyncio.CancelledError:
                    if self._follower.draining and call.cancelled():
                        raise shutdown_error() from None
                    raise
                finally:
                    call.cancel()
                    draining.cancel()
            return
        assert failure is not None
        raise failure

    async def _cancel_at_drain(self, call: Any) -> None:
        with suppress(asyncio.CancelledError):
            await self._follower.until(lambda: self._follower.draining)
            call.cancel()

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        token = self._access().token
        return (("authorization", f"Bearer {token}"),) if token else ()

    def _channel(self, endpoint: Endpoint) -> grpc.aio.Channel:
        if not endpoint.tls:
            return grpc.aio.insecure_channel(endpoint.address, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(self._access().authority)
        return grpc.aio.secure_channel(endpoint.address, credentials, options=_OPTIONS)


async def in_time(
    steps: AsyncGenerator[Step, None], context: Context, most_s: float
) -> tuple[list[Step], str]:
    """Collect the steps that arrive within `most_s`, and the reason where they are not all.

    For additions to a response that is useful without them: the caller gets it in time, whatever the host
    does.
    """
    received: list[Step] = []
    remaining = context.time_remaining()
    patience_s = min(most_s, (remaining or most_s + _ANSWER_S) - _ANSWER_S)
    try:
        async with asyncio.timeout(patience_s), aclosing(steps):
            async for step in steps:
                received.append(step)  # noqa: PERF401 - steps that came in time count
    except TimeoutError:
        return received, f"no host of drivers has answered in {max(patience_s, 0):.0f} s"
    except ApiError as error:
        return received, error.message
    return received, ""
