"""What every call passes before its handler. Outermost first:

    identity         takes or makes the call's id; answers it as x-request-id
    canonical line   one log line for each call
    count            where a service counts its calls
    errors           what is raised below becomes a status: an ApiError its own, all else INTERNAL
    deadline         a unary call without a deadline is refused
    authentication   a bearer token, when there are tokens; who it belongs to is `actor()`; refusals are
                     paced by `chassis.pacing`
    limits           how much one caller may ask, where a service says so

Only then the request is received, so that who shows no token fills no memory: to gRPC each request is a
stream, of one message. It has a time to come in, and a size (`chassis.messages`). It is decoded here and not
by gRPC, so that bytes that are no Protobuf are INVALID_ARGUMENT. A service that lets not everybody do
everything has a guard behind that: it is asked before the handler, and of each answer.
Of gRPC's own services health passes untouched: who serves it bounds what it takes. Reflection asks for a
token where others do.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NoReturn, Protocol, TypeAlias, cast

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message import DecodeError
from grpc_status import rpc_status
from structlog.contextvars import bind_contextvars

from chassis.connections import Connections, peer_of
from chassis.errors import ApiError
from chassis.logging import logger, note, unit_of_work
from chassis.messages import MAX_MESSAGE, largest
from chassis.tokenfile import Tokens, name_of

ANONYMOUS: Final = "anonymous"
REQUEST_ID: Final = "x-request-id"
RECEIVE_S: Final = 30.0
"""How long a request may take to come, once its call is let in."""
_PLAIN: Final = re.compile(r"[\x21-\x7e]{1,128}")
_actor: ContextVar[str] = ContextVar("actor", default=ANONYMOUS)

# Generic in the stubs only.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as the concerns see it."""

    id: str
    method: str
    """For example /daggers.v1.DaggerService/GetDagger."""
    unary: bool
    """Whether it has one answer rather than a stream."""
    metadata: Mapping[str, str]
    context: Context


Concern = Callable[[Call], AbstractContextManager[None]]
"""What stands around a call."""
Check = Callable[[Call], Awaitable[None]]
"""What is asked before a call goes on. Raises: ApiError when it does not."""


class Guard(Protocol):
    """Decides about each call. Quick, for it runs on the loop."""

    async def admit(self, call: Call, request: Any) -> None:
        """Before the handler is asked. Raises: ApiError when it is not to be."""

    def shown(self, call: Call, request: Any, answer: Any) -> Any | None:
        """What the caller sees of an answer, or of a step of one; None: nothing of this step.

        Raises: ApiError when what was admitted is allowed no more.
        """

    def refused(self, call: Call, request: Any | None, error: ApiError) -> None:
        """Behind a call that ends with an error, whoever raised it; `request` is None where none was read."""


class Everything:
    """The guard of a service whose callers may do everything."""

    async def admit(self, call: Call, request: Any) -> None:
        """Whatever it is."""

    def shown(self, call: Call, request: Any, answer: Any) -> Any | None:
        """All of it."""
        return answer

    def refused(self, call: Call, request: Any | None, error: ApiError) -> None:
        """Nobody is told."""


def actor() -> str:
    """Who makes the call that is going on, as authenticated."""
    return _actor.get()


def acts(name: str) -> None:
    """From here on, `actor()` is this one, in this call."""
    note(actor=name)
    _actor.set(name)


def interceptor(
    api: FileDescriptor,
    authenticated: Check | None = None,
    counted: Concern | None = None,
    guard: Guard = Everything(),  # noqa: B008 - a constant
    limited: Concern | None = None,
    connections: Connections | None = None,
) -> Interceptor:
    """All concerns, in order, for the services of a .proto, and of those that it imports publicly.

    `authenticated` says who calls (`acts`); None: everybody is anonymous. `counted` stands around
    errors, `limited` behind `authenticated`. `connections` hears of each call.

    Raises: TypeError for a method that takes a stream of requests: the concerns are about one.
    """
    streamed = [method.full_name for method in methods(api) if method.client_streaming]
    if streamed:
        raise TypeError(f"{', '.join(streamed)} would pass without identity, log line, or authentication")
    sizes = {path(method): largest(method) for method in methods(api)}
    return Interceptor(
        guard,
        authenticated or _anybody,
        counted or _nothing,
        limited or _nothing,
        sizes,
        connections or Connections(),
    )


def methods(api: FileDescriptor) -> Iterator[MethodDescriptor]:
    """Every method of the services of a .proto, and of those that it imports publicly."""
    for file in (api, *api.public_dependencies):
        for service in file.services_by_name.values():
            yield from service.methods


def path(method: MethodDescriptor) -> str:
    """As gRPC names a method: /daggers.v1.DaggerService/GetDagger."""
    return f"/{method.containing_service.full_name}/{method.name}"


class Interceptor(grpc.aio.ServerInterceptor):
    """Puts the concerns around every handler but those of gRPC itself. Streaming handlers are generators."""

    def __init__(
        self,
        guard: Guard,
        authenticated: Check,
        counted: Concern,
        limited: Concern,
        sizes: Mapping[str, int],
        connections: Connections,
    ) -> None:
        self._guard, self._sizes, self._connections = guard, sizes, connections
        self._authenticated, self._counted, self._limited = authenticated, counted, limited
        self._handlers: dict[str, tuple[Handler, Handler]] = {}
        """Of each method its own handler, and the one with all concerns around it."""
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Wait until no call of ours is going on: what a drain waits for. Health watches never end."""
        await self._idle.wait()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Called by gRPC for each call. Raises: TypeError for a method that takes a stream."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith("/grpc.health."):
            return handler
        known = self._handlers.get(method)
        if known is not None and known[0] is handler:
            return known[1]
        around = self._reflecting if method.startswith("/grpc.") else self._around
        made = around(handler, method)
        self._handlers[method] = handler, made
        return made

    def _around(self, handler: Handler, method: str) -> Handler:
        if handler.request_streaming:
            raise TypeError(f"{method} is of a .proto that the interceptor was not made for")
        decode = cast("Callable[[bytes], Any]", handler.request_deserializer)
        answers, streams = cast(Any, handler).unary_unary, cast(Any, handler).unary_stream

        async def unary(_: AsyncIterator[bytes], context: Context) -> Any:
            call, asked = _identified(_call(method, context, unary=True)), None
            with self._going(), canonical_line(call), self._counted(call):
                try:
                    await self._enters(call)
                    with self._limited(call):
                        asked = await self._received(call, decode)
                        await self._guard.admit(call, asked)
                        answer = await answers(asked, context)
                        return self._guard.shown(call, asked, answer)
                except Exception as error:  # noqa: BLE001 - the one place where nothing may pass to the caller
                    await self._fail(call, asked, error)

        async def stream(_: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            call, asked = _identified(_call(method, context, unary=False)), None
            with self._going(), canonical_line(call), self._counted(call):
                try:
                    await self._enters(call)
                    with self._limited(call):
                        asked = await self._received(call, decode)
                        await self._guard.admit(call, asked)
                        async with aclosing(streams(asked, context)) as steps:
                            async for step in steps:
                                shown = self._guard.shown(call, asked, step)
                                if shown is not None:
                                    yield shown
                except Exception as error:  # noqa: BLE001 - as above
                    await self._fail(call, asked, error)

        serialize = handler.response_serializer
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(cast(Any, stream), response_serializer=serialize)
        return grpc.stream_unary_rpc_method_handler(cast(Any, unary), response_serializer=serialize)

    def _reflecting(self, handler: Handler, method: str) -> Handler:
        """The same, for who may ask. It holds up no drain."""

        async def stream(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            call = _call(method, context, unary=False)
            try:
                await self._known(call)
                async for answer in cast(Any, handler).stream_stream(requests, context):
                    yield answer
            except Exception as error:  # noqa: BLE001 - as above
                await self._fail(call, None, error)

        return grpc.stream_stream_rpc_method_handler(
            cast(Any, stream),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    @contextmanager
    def _going(self) -> Iterator[None]:
        """A call that a drain waits for."""
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if self._calls == 0:
                self._idle.set()

    async def _enters(self, call: Call) -> None:
        """Raises: ApiError for a call that is not received."""
        if call.unary and call.context.time_remaining() is None:
            # Nothing waits for ever for an answer nobody reads.
            raise ApiError(
                grpc.StatusCode.INVALID_ARGUMENT,
                "DEADLINE_REQUIRED",
                "the call has no deadline: set one (a few seconds for reads, 30 for writes)",
                {"method": call.method},
            )
        await self._known(call)

    async def _known(self, call: Call) -> None:
        """Raises: ApiError when it is not known who calls."""
        peer = peer_of(call.context.peer())
        if peer is None:
            await self._authenticated(call)
            return
        self._connections.begin(peer)
        try:
            await self._authenticated(call)
        except ApiError:
            await asyncio.sleep(self._connections.delay_s(peer, time.monotonic()))
            raise
        self._connections.trust(peer)

    async def _received(self, call: Call, decode: Callable[[bytes], Any]) -> Any:
        """The request of a call. Raises: ApiError when it is none."""
        # Not by the generator that gRPC hands over: one that is left before its end costs a task, and its
        # message stays for long.
        try:
            async with asyncio.timeout(RECEIVE_S):
                received = await call.context.read()
        except TimeoutError as error:
            text = f"the request did not come within {RECEIVE_S:g} s of its call"
            metadata = {"method": call.method}
            raise ApiError(grpc.StatusCode.DEADLINE_EXCEEDED, "REQUEST_TOO_SLOW", text, metadata) from error
        request = b"" if received is grpc.aio.EOF else received
        if len(request) > (limit := self._sizes.get(call.method, MAX_MESSAGE)):
            raise _too_large(call.method, len(request), limit)
        return _decoded(decode, request, call.method)

    async def _fail(self, call: Call, request: Any | None, error: Exception) -> NoReturn:
        """End a call with an error. Raises: AbortError."""
        if isinstance(error, ApiError):
            self._guard.refused(call, request, error)
        await _told(call, error)


def _call(method: str, context: Context, *, unary: bool) -> Call:
    metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
    asked = metadata.get(REQUEST_ID, "")
    return Call(asked if _PLAIN.fullmatch(asked) else secrets.token_hex(16), method, unary, metadata, context)


def _identified(call: Call) -> Call:
    """The call's id goes into every log line below, and back to the caller."""
    call.context.set_trailing_metadata(((REQUEST_ID, call.id),))
    bind_contextvars(call_id=call.id)  # gRPC gives each call a context of its own
    return call


@contextmanager
def canonical_line(call: Call) -> Iterator[None]:
    """One log line for each call; handlers add to it with `chassis.logging.note`."""
    with unit_of_work("call", method=call.method, peer=call.context.peer(), code="OK") as notes:
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            notes |= {"code": "CANCELLED", "error": "CANCELLED"}
            raise


async def _anybody(_: Call) -> None:
    """Nobody is asked who calls."""


def _nothing(_: Call) -> AbstractContextManager[None]:
    return _NOTHING


_NOTHING: Final = nullcontext()


async def _told(call: Call, error: Exception) -> NoReturn:
    """An ApiError becomes its status; anything else is INTERNAL, and its trace goes to our log only.

    Raises: AbortError.
    """
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, ApiError):
        logger().error("call.crashed", method=call.method, exc_info=error)
        error = ApiError(
            grpc.StatusCode.INTERNAL,
            "INTERNAL",
            f"internal error; the server's log has it under call {call.id}",
            {"method": call.method},
        )
    error.request_id = call.id
    note(code=error.code.name, error=error.reason)
    status = rpc_status.to_status(error.to_status())
    trailing = ((REQUEST_ID, call.id), *(status.trailing_metadata or ()))
    await call.context.abort(status.code, status.details or "", trailing)


def authentication(tokens: Tokens | None) -> Check | None:
    """A call must carry `authorization: Bearer TOKEN` with one of the tokens. None: nothing is asked."""
    if tokens is None:
        return None

    async def authenticated(call: Call) -> None:
        name = name_of(bearer(call), tokens())
        if name is None:
            raise unauthenticated(call)
        acts(name)

    return authenticated


def bearer(call: Call) -> str:
    """The token that a call carries; empty when it carries none."""
    scheme, _, token = call.metadata.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def unauthenticated(call: Call, how: Mapping[str, str] = MappingProxyType({})) -> ApiError:
    """Who calls did not say who it is. `how`: where a token is to be had, for programs; `token_hint` of it is
    for people, too.
    """
    hint = f"; {how['token_hint']}" if "token_hint" in how else ""
    return ApiError(
        grpc.StatusCode.UNAUTHENTICATED,
        "TOKEN_REQUIRED",
        f"the call carries no valid token: send metadata `authorization: Bearer TOKEN`{hint}",
        {"method": call.method, **how},
    )


def _too_large(method: str, size: int, limit: int) -> ApiError:
    return ApiError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "MESSAGE_TOO_LARGE",
        f"the request has {size} bytes, and {method.rpartition('/')[2]} takes at most {limit}",
        {"method": method, "size": str(size), "limit": str(limit)},
    )


def _decoded(decode: Callable[[bytes], Any], request: bytes, method: str) -> Any:
    try:
        return decode(request)
    except DecodeError as error:
        raise ApiError(
            grpc.StatusCode.INVALID_ARGUMENT,
            "MALFORMED_REQUEST",
            "the request is not a valid Protobuf message of this method",
            {"method": method},
        ) from error
