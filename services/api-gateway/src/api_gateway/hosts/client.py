"""What lies on the host of a driver, asked of the schedulers there: logs and rows; and samples of streams.

Nothing is kept: each call has a channel of its own, is forwarded with the caller's deadline, gives each step
on before it takes the next, and is cancelled with the caller's. What is followed goes where the dagger goes,
to its next host or the next scheduler of its host, and ends when the dagger is deleted.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

import grpc
from daggers.v1 import host_pb2, host_pb2_grpc
from google.protobuf.message import Message

from api_gateway.hosts.routes import (
    ELSEWHERE,
    HostRoute,
    Route,
    everywhere,
    of_replay,
    refusal,
    remembered,
    route,
    unreachable,
)
from api_gateway.state.fold import Fold
from api_gateway.watch_limits import shuts_down
from chassis.binding import is_loopback
from chassis.errors import ApiError, from_rpc_error
from chassis.interceptors import Context
from chassis.logging import note
from eventlog.follower import Follower
from fleet import Applied, Dagger
from fleet.fold.hosts import Endpoint

_MAX_MESSAGE: Final = 4 * 1024 * 1024
_CONNECT_MS: Final = 3_000
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # how long an attempt to connect may take
    ("grpc.keepalive_time_ms", 30_000),  # a host that is gone says no more
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.enable_http_proxy", 0),
)
PATIENCE_S: Final = 30.0
"""How long a host may be away from what is followed: its scheduler is being replaced."""
LINGER_S: Final = 2.0
"""How long a host is listened to once the dagger has left it: its driver's last words."""
_AGAIN_S: Final = 0.5
SIGN_OF_LIFE_S: Final = 10.0
"""How long a host has to answer, before nobody contradicts who says that it is gone."""
PLAN_S: Final = 20.0
"""How long a plan waits for a host."""
_ANSWER_S: Final = 1.0
"""What is left of a call's time for its answer."""
Step = TypeVar("Step", bound=Message)
# Generic in the stubs only.
Method: TypeAlias = "Callable[[host_pb2_grpc.HostServiceAsyncStub], Callable[..., AsyncIterable[Step]]]"


@dataclass(frozen=True, slots=True)
class HostAccess:
    """What hosts are shown, and how they are trusted."""

    token: str = field(default="", repr=False)
    """Empty: none."""
    authority: bytes | None = None
    """PEM of the authority that signed their certificates; None: the system's authorities."""
    here: str = ""
    """Name of the gateway's own host: only its schedulers are asked at addresses of loopback."""


@dataclass(frozen=True, slots=True)
class Asking(Generic[Step]):
    """A call that hosts answer: its method, and what it says to the host of a route behind the last step."""

    method: Method[Step]
    request: Callable[[Route, Step | None], Message]


class Hosts:
    """Forwards streaming calls to the hosts that the fold knows."""

    def __init__(
        self,
        follower: Follower[Applied],
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
        """Where a dagger is asked now; None when it was never launched. Raises: ApiError."""
        fleet = self._fold.fleet
        return route(fleet, remembered(fleet, dagger.name, dagger.create_sequence))

    def route_of_replay(self, dagger: Dagger) -> Route | None:
        """Where the newest replay of a dagger is asked about; None when it had none. Raises: ApiError."""
        return of_replay(self._fold.fleet, dagger)

    async def asked(
        self, dagger: Dagger, asking: Asking[Step], context: Context, *, there: Route | None = None
    ) -> AsyncGenerator[Step, None]:
        """The steps of a call about a dagger, where it is, or `there`; none when it was never launched.

        Raises: ApiError.
        """
        route = there or self.route(dagger)
        if route is not None:
            steps = self._ask(route, asking.method, asking.request(route, None), context)
            async with aclosing(steps):
                async for step in steps:
                    yield step

    async def anywhere(
        self, method: Method[Step], request: Callable[[str], Message], context: Context
    ) -> AsyncGenerator[Step, None]:
        """The steps of a call to the first host that can answer; `request` is what a host is asked.

        Raises: ApiError; when no host can, what is said of the first.
        """
        failure: ApiError | None = None
        for there in everywhere(self._fold.fleet):
            begun = False
            try:
                async with aclosing(self._ask(there, method, request(there.host), context)) as steps:
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

    async def followed(
        self, dagger: Dagger, asking: Asking[Step], context: Context
    ) -> AsyncGenerator[Step, None]:
        """The steps of a call wherever the dagger goes, once it is launched; they end when it is deleted.

        A host that is away is asked again for `patience_s`, once it has answered. Raises: ApiError.
        """
        last: Step | None = None
        lost = 0.0
        clock = asyncio.get_running_loop().time
        route = await self._launched(dagger)
        while route is not None:
            begun, answered = clock(), False
            try:
                async with aclosing(self._while_there(route, asking, last, context)) as steps:
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
            with suppress(ApiError):  # a host whose scheduler has said nothing yet
                route = self.route(dagger) or route

    async def _launched(self, dagger: Dagger) -> Route | None:
        """Where a dagger is asked once it is launched; None when it is deleted before. Raises: ApiError."""
        route: Route | None = None

        def known() -> bool:
            nonlocal route
            if not self._gone(dagger):
                route = self.route(dagger)
            return route is not None or self._follower.draining or self._gone(dagger)

        await self._follower.until(known)
        if route is None and not self._gone(dagger):
            raise shuts_down()
        return route

    def _gone(self, dagger: Dagger) -> bool:
        """Whether a dagger is deleted; a later one of its name is another."""
        living = self._fold.fleet.living(dagger.name)
        return living is None or living.create_sequence != dagger.create_sequence

    def _left(self, route: Route) -> bool:
        """Whether the dagger of a route is elsewhere now, or gone."""
        fleet = self._fold.fleet
        living = fleet.living(route.dagger.name)
        return living is None or self._gone(route.dagger) or fleet.host_of(living) not in ("", route.host)

    async def _while_there(
        self, route: Route, asking: Asking[Step], last: Step | None, context: Context
    ) -> AsyncGenerator[Step, None]:
        """The steps of a call to a host as long as the dagger is there, and what it says soon after."""
        clock = asyncio.get_running_loop().time
        leaving = asyncio.create_task(self._follower.until(lambda: self._left(route)))
        steps = self._ask(route, asking.method, asking.request(route, last), context)
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

    async def _ask(
        self, route: HostRoute, method: Method[Step], request: Message, context: Context
    ) -> AsyncGenerator[Step, None]:
        """The steps of a call to the first scheduler of the host that answers. Raises: ApiError."""
        note(host=route.host)
        failure: ApiError | None = None
        for endpoint in route.endpoints:
            if is_loopback(endpoint.address) and route.host != self._access().here:
                # Whoever answers there is on this host, and the dagger is not.
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
                        raise shuts_down() from None
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
    """What a host says within `most_s` beside an answer that is as good without it; and why that is not all.

    Its caller is answered in time, whatever the host does.
    """
    said: list[Step] = []
    remaining = context.time_remaining()
    patience_s = min(most_s, (remaining or most_s + _ANSWER_S) - _ANSWER_S)
    try:
        async with asyncio.timeout(patience_s), aclosing(steps):
            async for step in steps:
                said.append(step)  # noqa: PERF401 - what came in time counts
    except TimeoutError:
        return said, f"no host of drivers has answered in {max(patience_s, 0):.0f} s"
    except ApiError as error:
        return said, error.message
    return said, ""
