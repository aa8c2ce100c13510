"""What lies on the host of a driver, asked of the schedulers there: logs and rows.

Nothing is kept: each call has a channel of its own, is forwarded with the caller's deadline, gives each step
on before it takes the next, and is cancelled with the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
from daggers.v1 import host_pb2_grpc
from google.protobuf.message import Message

from api_gateway.fold import Fold
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
Step = TypeVar("Step", bound=Message)


@dataclass(frozen=True, slots=True)
class HostAccess:
    """What hosts are shown, and how they are trusted."""

    token: str = field(default="", repr=False)
    """Empty: none."""
    authority: bytes | None = None
    """PEM of the authority that signed their certificates; None: the system's authorities."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the host of a dagger's newest launch is asked."""

    dagger: Dagger
    host: str
    endpoints: tuple[Endpoint, ...]
    """To be tried in this order."""


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
    if error.code is grpc.StatusCode.UNAVAILABLE and error.reason == error.code.name:
        return _unreachable(host, f"its scheduler at {endpoint.address} does not answer")
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


class Hosts:
    """Forwards streaming calls to the hosts that the fold knows."""

    def __init__(self, follower: Follower[Applied], fold: Fold, access: HostAccess) -> None:
        self._follower = follower
        self._fold = fold
        self._access = access

    def route(self, name: str) -> Route | None:
        """As the function, in the fold as it is now."""
        return route(self._fold.fleet, name)

    async def launched(self, name: str) -> Route:
        """The same, once it is launched. Raises: ApiError."""
        await self._follower.until(lambda: self._follower.draining or self.route(name) is not None)
        found = self.route(name)
        if found is None:
            raise _draining()
        return found

    async def ask(
        self,
        route: Route,
        method: Callable[[host_pb2_grpc.HostServiceAsyncStub], Callable[..., AsyncIterable[Step]]],
        request: Message,
        context: Context,
    ) -> AsyncGenerator[Step, None]:
        """The steps of a call to the first scheduler of the host that answers. Raises: ApiError."""
        note(host=route.host)
        failure: ApiError | None = None
        for endpoint in route.endpoints:
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
                        raise _draining() from None
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


def _draining() -> ApiError:
    return ApiError(grpc.StatusCode.UNAVAILABLE, "DRAINING", "the gateway shuts down: ask again")
