"""What every call passes before its handler, each concern a context manager around it. Outermost first:

    identity         takes or makes the call's id; answers it as x-request-id
    canonical_line   one log line for each call
    errors           what is raised below becomes a status: an ApiError its own, all else INTERNAL
    deadline         a unary call without a deadline is refused
    authentication   a bearer token, when there are tokens; who it belongs to is `actor()`
    limits           how much one caller may ask, where a service says so

Only then the request is received, so that who shows no token fills no memory: to gRPC each request is a
stream, of one message. It is decoded here and not by gRPC, so that bytes that are no Protobuf are
INVALID_ARGUMENT. A service that lets not everybody do everything has a guard behind that: it is asked before
the handler, and of each answer.
Of gRPC's own services health passes untouched: who serves it bounds what it takes. Reflection asks for a
token where others do.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, cast

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message import DecodeError
from grpc_status import rpc_status
from structlog.contextvars import bind_contextvars

from chassis.errors import ApiError
from chassis.logging import logger, note, unit_of_work
from chassis.tokenfile import Tokens, name_of

ANONYMOUS: Final = "anonymous"
REQUEST_ID: Final = "x-request-id"
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


Concern = Callable[[Call], AbstractAsyncContextManager[None]]


class Guard(Protocol):
    """Decides about each call. Quick, for it runs on the loop."""

    def admit(self, call: Call, request: Any) -> None:
        """Before the handler is asked. Raises: ApiError when it is not to be."""

    def shown(self, call: Call, request: Any, answer: Any) -> Any | None:
        """What the caller sees of an answer, or of a step of one; None: nothing of this step.

        Raises: ApiError when what was admitted is allowed no more.
        """


class Everything:
    """The guard of a service whose callers may do everything."""

    def admit(self, call: Call, request: Any) -> None:
        """Whatever it is."""

    def shown(self, call: Call, request: Any, answer: Any) -> Any | None:
        """All of it."""
        return answer


def actor() -> str:
    """Who makes the call that is going on, as authenticated."""
    return _actor.get()


def acts(name: str) -> None:
    """From here on, `actor()` is this one, in this call."""
    note(actor=name)
    _actor.set(name)


def interceptor(
    api: FileDescriptor,
    authenticated: Concern | None = None,
    counted: Concern | None = None,
    guard: Guard = Everything(),  # noqa: B008 - a constant
    limited: Concern | None = None,
) -> Interceptor:
    """All concerns, in order, for the services of a .proto, and of those that it imports publicly.

    `authenticated` says who calls (`acts`); None: everybody is anonymous. `counted` stands around
    `errors`, `limited` behind `authenticated`.

    Raises: TypeError for a method that takes a stream of requests: the concerns are about one.
    """
    streamed = [method.full_name for method in methods(api) if method.client_streaming]
    if streamed:
        raise TypeError(f"{', '.join(streamed)} would pass without identity, log line, or authentication")
    concerns: list[Concern] = [identity, canonical_line, *([counted] if counted else []), errors, deadline]
    if authenticated is not None:
        concerns.append(authenticated)
    if limited is not None:
        concerns.append(limited)
    return Interceptor(concerns, guard, [errors, *([authenticated] if authenticated else [])])


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

    def __init__(self, concerns: Sequence[Concern], guard: Guard, reflection: Sequence[Concern]) -> None:
        """`reflection`: the concerns of who asks what services there are."""
        self._concerns, self._guard, self._reflection = concerns, guard, reflection
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
        if method.startswith("/grpc."):
            return self._reflecting(handler, method)
        if handler.request_streaming:
            raise TypeError(f"{method} is of a .proto that the interceptor was not made for")
        decode = cast("Callable[[bytes], Any]", handler.request_deserializer)

        async def unary(requests: AsyncIterator[bytes], context: Context) -> Any:
            async with AsyncExitStack() as stack:
                call = await self._enter(stack, method, context, unary=True)
                asked = self._admitted(call, _decoded(decode, await _received(requests), method))
                answer = await cast(Any, handler).unary_unary(asked, context)
                return self._guard.shown(call, asked, answer)

        async def stream(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            async with AsyncExitStack() as stack:
                call = await self._enter(stack, method, context, unary=False)
                asked = self._admitted(call, _decoded(decode, await _received(requests), method))
                responses = cast(Any, handler).unary_stream(asked, context)
                async with aclosing(responses):
                    async for response in responses:
                        shown = self._guard.shown(call, asked, response)
                        if shown is not None:
                            yield shown

        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(
                cast(Any, stream), response_serializer=handler.response_serializer
            )
        return grpc.stream_unary_rpc_method_handler(
            cast(Any, unary), response_serializer=handler.response_serializer
        )

    def _reflecting(self, handler: Handler, method: str) -> Handler:
        """The same, for who may ask. It holds up no drain."""

        async def stream(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            async with AsyncExitStack() as stack:
                call = _call(method, context, unary=False)
                for concern in self._reflection:
                    await stack.enter_async_context(concern(call))
                async for answer in cast(Any, handler).stream_stream(requests, context):
                    yield answer

        return grpc.stream_stream_rpc_method_handler(
            cast(Any, stream),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _admitted(self, call: Call, request: Any) -> Any:
        self._guard.admit(call, request)
        return request

    async def _enter(self, stack: AsyncExitStack, method: str, context: Context, *, unary: bool) -> Call:
        self._calls += 1
        self._idle.clear()
        stack.callback(self._leave)
        call = _call(method, context, unary=unary)
        for concern in self._concerns:
            await stack.enter_async_context(concern(call))
        return call

    def _leave(self) -> None:
        self._calls -= 1
        if self._calls == 0:
            self._idle.set()


def _call(method: str, context: Context, *, unary: bool) -> Call:
    metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
    asked = metadata.get(REQUEST_ID, "")
    return Call(asked if _PLAIN.fullmatch(asked) else secrets.token_hex(16), method, unary, metadata, context)


@asynccontextmanager
async def identity(call: Call) -> AsyncIterator[None]:
    """The call's id goes into every log line below, and back to the caller."""
    call.context.set_trailing_metadata(((REQUEST_ID, call.id),))
    bind_contextvars(call_id=call.id)  # gRPC gives each call a context of its own
    yield


@asynccontextmanager
async def canonical_line(call: Call) -> AsyncIterator[None]:
    """One log line for each call; handlers add to it with `chassis.logging.note`."""
    with unit_of_work("call", method=call.method, peer=call.context.peer(), code="OK") as notes:
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            notes |= {"code": "CANCELLED", "error": "CANCELLED"}
            raise


@asynccontextmanager
async def errors(call: Call) -> AsyncIterator[None]:
    """An ApiError becomes its status; anything else is INTERNAL, and its trace goes to our log only."""
    try:
        yield
    except ApiError as error:
        await _abort(call, error)
    except grpc.aio.AbortError:
        raise
    except Exception:  # noqa: BLE001 - the one place where nothing may pass to the caller
        logger().exception("unhandled", method=call.method)
        await _abort(
            call,
            ApiError(
                grpc.StatusCode.INTERNAL,
                "INTERNAL",
                f"internal error; the server's log has it under call {call.id}",
                {"method": call.method},
            ),
        )


@asynccontextmanager
async def deadline(call: Call) -> AsyncIterator[None]:
    """A unary call must say how long it waits, so that nothing waits for ever for an answer nobody reads.

    Raises: ApiError.
    """
    if call.unary and call.context.time_remaining() is None:
        raise ApiError(
            grpc.StatusCode.INVALID_ARGUMENT,
            "DEADLINE_REQUIRED",
            "the call has no deadline: set one (a few seconds for reads, 30 for writes)",
            {"method": call.method},
        )
    yield


def authentication(tokens: Tokens | None) -> Concern | None:
    """A call must carry `authorization: Bearer TOKEN` with one of the tokens. None: nothing is asked."""
    if tokens is None:
        return None

    @asynccontextmanager
    async def authenticated(call: Call) -> AsyncIterator[None]:
        name = name_of(bearer(call), tokens())
        if name is None:
            raise unauthenticated(call)
        acts(name)
        yield

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


async def _received(requests: AsyncIterator[bytes]) -> bytes:
    """The one message of a call; nothing of a call that has none, which decodes to what nobody asked."""
    async for request in requests:
        return request
    return b""


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


async def _abort(call: Call, error: ApiError) -> None:
    error.request_id = call.id
    note(code=error.code.name, error=error.reason)
    status = rpc_status.to_status(error.to_status())
    trailing = ((REQUEST_ID, call.id), *(status.trailing_metadata or ()))
    await call.context.abort(status.code, status.details or "", trailing)
