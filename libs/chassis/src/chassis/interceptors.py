"""Interceptor that every call passes before its handler. Its parts, outermost first:

    identity         takes or makes the call's id; answers it as x-request-id
    canonical line   one log line for each call
    count            where a service counts its calls
    errors           what is raised below becomes a status: an ApiError its own, all else INTERNAL
    deadline         a unary call without a deadline is refused
    authentication   a bearer token, when there are tokens; who it belongs to is `actor()`; refusals are
                     paced by `chassis.pacing`
    limits           rate limits of one caller, where a service has any

Only then the request is received, so that a caller without a token fills no memory: to gRPC each request is
a stream, of one message. Its time and its size (`chassis.messages`) are limited. It is decoded here and not
by gRPC, so that bytes that are no Protobuf are INVALID_ARGUMENT. A service with permissions has a guard
behind that: it decides before the handler runs, and filters each answer.
Of gRPC's own services health passes untouched: its server limits what it accepts. Reflection requires a
token where other services do.
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
"""Seconds in which a request must arrive, once its call is admitted."""
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
    """True if it has one answer rather than a stream."""
    metadata: Mapping[str, str]
    context: Context


Concern = Callable[[Call], AbstractContextManager[None]]
"""Context manager around a call."""
Check = Callable[[Call], Awaitable[None]]
"""Checks a call before it goes on. Raises: ApiError to refuse it."""


class Guard(Protocol):
    """Decides about each call. Quick, for it runs on the loop."""

    async def admit(self, call: Call, request: Any) -> None:
        """Check a request before its handler runs. Raises: ApiError to refuse it."""

    def filter_answer(self, call: Call, request: Any, answer: Any) -> Any | None:
        """Return the part of an answer, or of a message of a stream, that the caller may see; None: nothing.

        Raises: ApiError when an admitted call is no longer allowed.
        """

    def record_error(self, call: Call, request: Any | None, error: ApiError) -> None:
        """Record a call that ends with an error; `request` is None if none was received."""


class Everything:
    """Guard of a service that permits everything to all callers."""

    async def admit(self, call: Call, request: Any) -> None:
        """Accept every request."""

    def filter_answer(self, call: Call, request: Any, answer: Any) -> Any | None:
        """Return the whole answer."""
        return answer

    def record_error(self, call: Call, request: Any | None, error: ApiError) -> None:
        """Record nothing."""


def actor() -> str:
    """Return the authenticated caller of the current call."""
    return _actor.get()


def set_actor(name: str) -> None:
    """Set the caller that `actor()` returns in the rest of the current call."""
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
    """Build the interceptor for the services of a .proto, and of those that it imports publicly.

    `authenticated` finds out the caller (`set_actor`); None: all are anonymous. `counted` surrounds error
    handling, `limited` comes behind `authenticated`. `connections` is informed of each call.

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
    """Yield the methods of the services of a .proto, and of those that it imports publicly."""
    for file in (api, *api.public_dependencies):
        for service in file.services_by_name.values():
            yield from service.methods


def path(method: MethodDescriptor) -> str:
    """Return gRPC's name of a method, such as /daggers.v1.DaggerService/GetDagger."""
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
        """By method: the original handler, and the wrapped one."""
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Wait until no call of our services is running. Health watches never end, and do not count."""
        await self._idle.wait()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return the wrapped handler of a call. Raises: TypeError for a method that takes a stream."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith("/grpc.health."):
            return handler
        cached = self._handlers.get(method)
        if cached is not None and cached[0] is handler:
            return cached[1]
        wrap = self._wrap_reflection if method.startswith("/grpc.") else self._wrap_handler
        wrapped = wrap(handler, method)
        self._handlers[method] = handler, wrapped
        return wrapped

    def _wrap_handler(self, handler: Handler, method: str) -> Handler:
        if handler.request_streaming:
            raise TypeError(f"{method} is of a .proto that the interceptor was not made for")
        decode = cast("Callable[[bytes], Any]", handler.request_deserializer)
        answers, streams = cast(Any, handler).unary_unary, cast(Any, handler).unary_stream

        async def unary(_: AsyncIterator[bytes], context: Context) -> Any:
            call, request = _assign_id(_call(method, context, unary=True)), None
            with self._count_running(), canonical_line(call), self._counted(call):
                try:
                    await self._check_call(call)
                    with self._limited(call):
                        request = await self._receive_request(call, decode)
                        await self._guard.admit(call, request)
                        answer = await answers(request, context)
                        return self._guard.filter_answer(call, request, answer)
                except Exception as error:  # noqa: BLE001 - the one place where nothing may pass to the caller
                    await self._fail(call, request, error)

        async def stream(_: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            call, request = _assign_id(_call(method, context, unary=False)), None
            with self._count_running(), canonical_line(call), self._counted(call):
                try:
                    await self._check_call(call)
                    with self._limited(call):
                        request = await self._receive_request(call, decode)
                        await self._guard.admit(call, request)
                        async with aclosing(streams(request, context)) as steps:
                            async for step in steps:
                                visible = self._guard.filter_answer(call, request, step)
                                if visible is not None:
                                    yield visible
                except Exception as error:  # noqa: BLE001 - as above
                    await self._fail(call, request, error)

        serialize = handler.response_serializer
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(cast(Any, stream), response_serializer=serialize)
        return grpc.stream_unary_rpc_method_handler(cast(Any, unary), response_serializer=serialize)

    def _wrap_reflection(self, handler: Handler, method: str) -> Handler:
        """Wrap a handler of gRPC's reflection: authentication and errors only, and no drain waits for it."""

        async def stream(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            call = _call(method, context, unary=False)
            try:
                await self._authenticate(call)
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
    def _count_running(self) -> Iterator[None]:
        """Count a running call, for which a drain waits."""
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if self._calls == 0:
                self._idle.set()

    async def _check_call(self, call: Call) -> None:
        """Check deadline and authentication. Raises: ApiError."""
        if call.unary and call.context.time_remaining() is None:
            # No handler is to run for ever for a caller that is gone.
            raise ApiError(
                grpc.StatusCode.INVALID_ARGUMENT,
                "DEADLINE_REQUIRED",
                "the call has no deadline: set one (a few seconds for reads, 30 for writes)",
                {"method": call.method},
            )
        await self._authenticate(call)

    async def _authenticate(self, call: Call) -> None:
        """Authenticate the caller, and pace refusals. Raises: ApiError when the call has no valid token."""
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

    async def _receive_request(self, call: Call, decode: Callable[[bytes], Any]) -> Any:
        """Receive and decode a request. Raises: ApiError if it is late, too large or malformed."""
        # Read here and not by gRPC's generator: one that is left before its end costs a task, and its message
        # stays in memory for long.
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
        return _decode_request(decode, request, call.method)

    async def _fail(self, call: Call, request: Any | None, error: Exception) -> NoReturn:
        """End a call with an error. Raises: AbortError."""
        if isinstance(error, ApiError):
            self._guard.record_error(call, request, error)
        await _abort(call, error)


def _call(method: str, context: Context, *, unary: bool) -> Call:
    metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
    given = metadata.get(REQUEST_ID, "")
    return Call(given if _PLAIN.fullmatch(given) else secrets.token_hex(16), method, unary, metadata, context)


def _assign_id(call: Call) -> Call:
    """Put the call's id into all log lines of this call, and into the answer's trailing metadata."""
    call.context.set_trailing_metadata(((REQUEST_ID, call.id),))
    bind_contextvars(call_id=call.id)  # gRPC gives each call a context of its own
    return call


@contextmanager
def canonical_line(call: Call) -> Iterator[None]:
    """Write one log line for the call; handlers add to it with `chassis.logging.note`."""
    with unit_of_work("call", method=call.method, peer=call.context.peer(), code="OK") as notes:
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            notes |= {"code": "CANCELLED", "error": "CANCELLED"}
            raise


async def _anybody(_: Call) -> None:
    """Accept all callers as anonymous."""


def _nothing(_: Call) -> AbstractContextManager[None]:
    return _NOTHING


_NOTHING: Final = nullcontext()


async def _abort(call: Call, error: Exception) -> NoReturn:
    """Abort a call: an ApiError becomes its status; all else is INTERNAL, with its trace in our log only.

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
    """Build the check that a call carries `authorization: Bearer TOKEN` with one of the tokens."""
    if tokens is None:
        return None

    async def authenticate(call: Call) -> None:
        name = name_of(bearer(call), tokens())
        if name is None:
            raise unauthenticated_error(call)
        set_actor(name)

    return authenticate


def bearer(call: Call) -> str:
    """Return the token that a call carries; empty if it carries none."""
    scheme, _, token = call.metadata.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def unauthenticated_error(call: Call, how: Mapping[str, str] = MappingProxyType({})) -> ApiError:
    """Build the error of a call without a valid token.

    `how`: metadata for programs that says where to get a token; its `token_hint` is for people, too.
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


def _decode_request(decode: Callable[[bytes], Any], request: bytes, method: str) -> Any:
    try:
        return decode(request)
    except DecodeError as error:
        raise ApiError(
            grpc.StatusCode.INVALID_ARGUMENT,
            "MALFORMED_REQUEST",
            "the request is not a valid Protobuf message of this method",
            {"method": method},
        ) from error
