"""What lies on the host of a driver, asked of the schedulers there: logs and rows.

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
from typing import Any, Final, Generic, TypedDict, TypeVar

import grpc
from daggers.v1 import host_pb2_grpc
from google.protobuf.message import Message

from api_gateway.fold import Fold
from api_gateway.watching import shuts_down
from chassis.binding import is_loopback
from chassis.errors import ApiError, from_rpc_error
from chassis.interceptors import Context
from chassis.logging import note
from eventlog.follower import Follower
from fleet import Applied, Dagger, Fleet
from fleet.hosts import Endpoint

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
Step = TypeVar("Step", bound=Message)


@dataclass(frozen=True, slots=True)
class HostAccess:
    """What hosts are shown, and how they are trusted."""

    token: str = field(default="", repr=False)
    """Empty: none."""
    authority: bytes | None = None
    """PEM of the authority that signed their certificates; None: the system's authorities."""
    here: str = ""
    """Name of the gateway's own host: only its schedulers are asked at addresses of loopback."""


class Meant(TypedDict):
    """Which dagger of its name, and which host, a call to a host means."""

    create_sequence: int
    host: str


@dataclass(frozen=True, slots=True)
class Route:
    """Where the host of a dagger's newest launch is asked."""

    dagger: Dagger
    host: str
    endpoints: tuple[Endpoint, ...]
    """To be tried in this order."""

    @property
    def meant(self) -> Meant:
        """What each call to a host says beside its request."""
        return {"create_sequence": self.dagger.create_sequence, "host": self.host}


def route(fleet: Fleet, name: str) -> Route | None:
    """Where to ask about a dagger; None when it was never launched. Raises: ApiError."""
    dagger = fleet.living(name)
    if dagger is None:
        raise ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", f"there is no dagger {name}")
    host = fleet.host_of(dagger)
    if not host:
        return None
    endpoints = fleet.hosts.get(host, ())
    if not endpoints:
        raise _unreachable(host, "no scheduler there has said where it serves")
    return Route(dagger, host, endpoints)


def refusal(error: ApiError, host: str, endpoint: Endpoint) -> ApiError:
    """What a caller is told when a host's answer is an error: the host's own words, where it has said any."""
    silent = error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    if silent and error.reason == error.code.name:
        return _unreachable(host, f"its scheduler at {endpoint.address} does not answer")
    if error.reason == "WRONG_HOST":
        other = error.metadata.get("host", "another one")
        return _unreachable(host, f"at {endpoint.address}, where its scheduler was, host {other} answers")
    if error.code is grpc.StatusCode.UNAUTHENTICATED:
        return ApiError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "HOST_REFUSED",
            f"host {host} does not accept this gateway's token: DAGGERS_GATEWAY_HOST_TOKEN_FILE and"
            " DAGGERS_SCHEDULER_HOST_TOKEN_FILE must name files with the same token",
            metadata={"host": host},
        )
    if error.code is grpc.StatusCode.UNIMPLEMENTED:
        return ApiError(
            grpc.StatusCode.UNIMPLEMENTED,
            "HOST_TOO_OLD",
            f"the scheduler of host {host} is older than this gateway and does not know this call",
            metadata={"host": host},
        )
    return error


@dataclass(frozen=True, slots=True)
class Asking(Generic[Step]):
    """A call that hosts answer: its method, and what it says to the host of a route behind the last step."""

    method: Callable[[host_pb2_grpc.HostServiceAsyncStub], Callable[..., AsyncIterable[Step]]]
    request: Callable[[Route, Step | None], Message]


class Hosts:
    """Forwards streaming calls to the hosts that the fold knows."""

    def __init__(
        self,
        follower: Follower[Applied],
        fold: Fold,
        access: HostAccess,
        *,
        patience_s: float = PATIENCE_S,
        linger_s: float = LINGER_S,
    ) -> None:
        self._follower = follower
        self._fold = fold
        self._access = access
        self._patience_s, self._linger_s = patience_s, linger_s

    def route(self, name: str) -> Route | None:
        """As the function, in the fold as it is now."""
        return route(self._fold.fleet, name)

    async def _launched(self, name: str) -> Route:
        """The same, once it is launched. Raises: ApiError."""
        await self._follower.until(lambda: self._follower.draining or self.route(name) is not None)
        found = self.route(name)
        if found is None:
            raise shuts_down()
        return found

    async def asked(self, name: str, asking: Asking[Step], context: Context) -> AsyncGenerator[Step, None]:
        """The steps of a call about a dagger; none when it was never launched. Raises: ApiError."""
        route = self.route(name)
        if route is not None:
            async with aclosing(self._ask(route, asking, None, context)) as steps:
                async for step in steps:
                    yield step

    async def followed(self, name: str, asking: Asking[Step], context: Context) -> AsyncGenerator[Step, None]:
        """The steps of a call wherever the dagger goes, once it is launched; they end when it is deleted.

        A host that is away is asked again for `patience_s`, once it has answered. Raises: ApiError.
        """
        route = await self._launched(name)
        last: Step | None = None
        lost = 0.0
        clock = asyncio.get_running_loop().time
        while True:
            begun, answered = clock(), False
            try:
                async with aclosing(self._while_there(route, asking, last, context)) as steps:
                    async for step in steps:
                        last, answered = step, True
                        yield step
            except ApiError as error:
                if self._gone(route):
                    return
                if error.code is not grpc.StatusCode.UNAVAILABLE or last is None or self._follower.draining:
                    raise
                lasted = answered or clock() - begun > self._patience_s
                lost = clock() if lasted or not lost else lost
                if clock() - lost > self._patience_s:
                    raise
                await asyncio.sleep(_AGAIN_S)
            if self._gone(route):
                return
            with suppress(ApiError):  # a host whose scheduler has said nothing yet
                route = self.route(route.dagger.name) or route

    def _gone(self, route: Route) -> bool:
        """Whether the dagger of a route is deleted; a later one of its name is another."""
        living = self._fold.fleet.living(route.dagger.name)
        return living is None or living.create_sequence != route.dagger.create_sequence

    def _left(self, route: Route) -> bool:
        """Whether the dagger of a route is elsewhere now, or gone."""
        fleet = self._fold.fleet
        living = fleet.living(route.dagger.name)
        return living is None or self._gone(route) or fleet.host_of(living) not in ("", route.host)

    async def _while_there(
        self, route: Route, asking: Asking[Step], last: Step | None, context: Context
    ) -> AsyncGenerator[Step, None]:
        """The steps of a call to a host as long as the dagger is there, and what it says soon after."""
        clock = asyncio.get_running_loop().time
        leaving = asyncio.create_task(self._follower.until(lambda: self._left(route)))
        steps = self._ask(route, asking, last, context)
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
        self, route: Route, asking: Asking[Step], last: Step | None, context: Context
    ) -> AsyncGenerator[Step, None]:
        """The steps of a call to the first scheduler of the host that answers. Raises: ApiError."""
        note(host=route.host)
        request = asking.request(route, last)
        failure: ApiError | None = None
        for endpoint in route.endpoints:
            if is_loopback(endpoint.address) and route.host != self._access.here:
                # Whoever answers there is on this host, and the dagger is not.
                failure = failure or _unreachable(
                    route.host,
                    f"its scheduler serves on {endpoint.address}, where only that host reaches it: set"
                    " DAGGERS_SCHEDULER_HOST_BIND there",
                )
                continue
            begun = False
            async with self._channel(endpoint) as channel:
                call: Any = asking.method(host_pb2_grpc.HostServiceStub(channel))(
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
        token = self._access.token
        return (("authorization", f"Bearer {token}"),) if token else ()

    def _channel(self, endpoint: Endpoint) -> grpc.aio.Channel:
        if not endpoint.tls:
            return grpc.aio.insecure_channel(endpoint.address, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(self._access.authority)
        return grpc.aio.secure_channel(endpoint.address, credentials, options=_OPTIONS)


def _unreachable(host: str, why: str) -> ApiError:
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "HOST_UNREACHABLE",
        f"host {host} cannot be reached: {why}",
        metadata={"host": host},
    )
