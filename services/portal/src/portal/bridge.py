"""Forward calls of browsers (Connect) to the gateway (gRPC), byte for byte: no message is decoded here.

A unary response: the body is the message. A stream: each message of gRPC becomes one envelope (flags 0,
length, message), and its status the last one (flags 2, JSON). The content type tells which of both a method
is; the browser chooses it, and the gateway refuses a wrong one. https://connectrpc.com/docs/protocol
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterable, Sequence
from typing import Any, Final

import grpc
from google.rpc import status_pb2  # type: ignore[import-untyped] # ships .pyi, no py.typed
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from chassis.interceptors import RECEIVE_S
from chassis.logging import note, unit_of_work
from chassis.messages import MAX_CARRIER
from portal.metrics import Counter, count_nothing

UNARY: Final = "application/proto"
STREAM: Final = "application/connect+proto"
_MAX_ANSWER: Final = 64 * 1024 * 1024
_WAIT_MS, _MAX_WAIT_MS = 10_000.0, 60_000.0
LOOK_S: Final = 30.0
_ENVELOPE: Final = struct.Struct(">BI")
MAX_BODY: Final = MAX_CARRIER + _ENVELOPE.size
"""Largest request, in bytes: the gateway accepts no larger ones either."""
_LAST: Final = 2
AWAY: Final = "x-daggers-away"
"""Metadata of an error: no gateway was reached, which pages say once, whatever they asked for."""
_NO_GATEWAY: Final = {"code": "unavailable", "message": "The gateway does not answer."}
_DEGRADED: Final = "x-daggers-degraded"
"""Trailing metadata of an answer that may be behind the truth: why."""
_UNREACHED: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

_CODES: Final = {code: code.name.lower() for code in grpc.StatusCode} | {
    grpc.StatusCode.CANCELLED: "canceled"
}
_HTTP: Final = {
    "canceled": 499,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "unavailable": 503,
    "unauthenticated": 401,
}

Metadata = Sequence[tuple[str, str]]


class NotLoggedIn(Exception):  # noqa: N818 - reads as what is wrong
    """Nobody is logged in who could call. The message is one sentence."""


class Caller:
    """Identifies the caller of a request. This base class lets everybody call anonymously."""

    async def metadata(self, request: Request) -> Metadata:
        """Return the metadata that the gateway authenticates. Raises: NotLoggedIn."""
        return ()

    def still(self, request: Request) -> bool:
        """Return whether the caller's session continues; called for open streams from time to time."""
        return True


def channel(address: str, authority: bytes | None = None) -> grpc.aio.Channel:
    """Open a channel to a gateway at HOST:PORT or https://HOST:PORT; `authority` (PEM) signed its
    certificate.
    """
    options = [("grpc.max_receive_message_length", _MAX_ANSWER), ("grpc.enable_http_proxy", 0)]
    if not address.startswith("https://"):
        return grpc.aio.insecure_channel(address, options)
    credentials = grpc.ssl_channel_credentials(authority)
    return grpc.aio.secure_channel(address.removeprefix("https://"), credentials, options)


class Bridge:
    """ASGI application behind /api/{service}/{method}.

    closing: set when the service ends; streams end then, and pages open them again.
    look_s: interval, in seconds, in which a stream checks whether its session continues.
    count: called with each call that ended: unary or stream, and its status.
    """

    def __init__(
        self,
        gateway: grpc.aio.Channel,
        caller: Caller,
        closing: asyncio.Event,
        look_s: float = LOOK_S,
        count: Counter = count_nothing,
    ) -> None:
        self._gateway, self._caller, self._closing, self._look_s = gateway, caller, closing, look_s
        self._count = count
        self.streams = 0
        """Number of open streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one call."""
        request = Request(scope, receive)
        service, method = request.path_params["service"], request.path_params["method"]
        with unit_of_work("call", method=f"/daggers.v1.{service}/{method}") as notes:
            try:
                answer = await self._answer(request, f"/daggers.v1.{service}/{method}", send)
                if answer is not None:
                    await answer(scope, receive, send)
            except ClientDisconnect:
                notes["code"] = "canceled"
            finally:
                kind = "stream" if request.headers.get("content-type") == STREAM else "unary"
                self._count(kind, notes.get("code", "unknown"))

    async def _answer(self, request: Request, method: str, send: Send) -> Response | None:
        """Handle a call and return its response; None for a stream, which is sent already."""
        kind = request.headers.get("content-type", "")
        if kind not in (UNARY, STREAM):
            return _refusal(
                "invalid_argument", f"{kind or 'no content type'} is not {UNARY} or {STREAM}", 415
            )
        try:
            metadata = await self._caller.metadata(request)
            body = await _body(request)
            if kind == UNARY:
                return await self._unary(method, body, metadata, _wait_s(request))
            message = _open_envelope(body)
        except NotLoggedIn as why:
            return _refusal("unauthenticated", str(why))
        except TimeoutError:
            return _refusal("deadline_exceeded", f"the request did not come within {RECEIVE_S:g} s", 408)
        except ValueError as why:
            return _refusal("invalid_argument", str(why))
        # without deserializers messages stay bytes
        streamed: Any = self._gateway.unary_stream(method)
        call = streamed(message, metadata=metadata)
        await self._stream(call, request, send)
        return None

    async def _unary(self, method: str, body: bytes, metadata: Metadata, wait_s: float) -> Response:
        request: Any = self._gateway.unary_unary(method)
        call = request(body, timeout=wait_s, metadata=metadata)
        try:
            answer: bytes = await call
        except grpc.aio.AioRpcError as error:
            if self._is_away(error):
                note(code=_NO_GATEWAY["code"])
                return JSONResponse(_NO_GATEWAY, 503, {AWAY: "gateway"})
            failure = connect_error(error)
            note(code=failure["code"])
            return JSONResponse(failure, _HTTP.get(failure["code"], 500))
        note(code="ok")
        behind = dict(await call.trailing_metadata() or ()).get(_DEGRADED)
        return Response(
            answer, media_type=UNARY, headers={f"trailer-{_DEGRADED}": behind} if behind else None
        )

    def _is_away(self, error: grpc.aio.AioRpcError) -> bool:
        """Return whether an error is our own channel's, which reached no gateway."""
        return error.code() in _UNREACHED and (
            self._gateway.get_state() is not grpc.ChannelConnectivity.READY
        )

    async def _stream(self, call: Any, request: Request, send: Send) -> None:
        head = [(b"content-type", STREAM.encode()), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        why: list[dict[str, Any]] = []  # the reason, where the portal ends the stream
        watches = [
            asyncio.ensure_future(watch)
            for watch in (self._until_left(call, request), self._until_over(call, request, why))
        ]
        self.streams += 1
        try:
            end = await self._forward(call, send, why)
        finally:
            self.streams -= 1
            for watch in watches:
                watch.cancel()
            call.cancel()
        note(code=end.get("error", {}).get("code", "ok"))
        # harmless where the browser has left
        last = json.dumps(end).encode()
        await send({"type": "http.response.body", "body": _ENVELOPE.pack(_LAST, len(last)) + last})

    async def _forward(
        self, call: AsyncIterable[bytes], send: Send, why: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Send a stream's messages; return the content of its last envelope."""
        try:
            async for message in call:
                body = _ENVELOPE.pack(0, len(message)) + message
                await send({"type": "http.response.body", "body": body, "more_body": True})
        except grpc.aio.AioRpcError as error:
            if self._is_away(error):
                return {"error": _NO_GATEWAY, "metadata": {AWAY: ["gateway"]}}
            return {"error": connect_error(error)}
        except asyncio.CancelledError:
            # raised where the call was cancelled; else this task is cancelled itself
            if not call.cancelled():  # type: ignore[attr-defined] # a call of gRPC
                raise
            return {"error": why[0] if why else {"code": "canceled", "message": "The browser has left."}}
        return {}

    async def _until_left(self, call: Any, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        call.cancel()

    async def _until_over(self, call: Any, request: Request, why: list[dict[str, Any]]) -> None:
        while self._caller.still(request):
            try:
                await asyncio.wait_for(self._closing.wait(), self._look_s)
            except TimeoutError:
                continue
            why.append({"code": "unavailable", "message": "The portal is being restarted."})
            break
        else:
            why.append({"code": "unauthenticated", "message": "The session has ended: log in again."})
        call.cancel()


def connect_error(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    """Convert a gRPC status to Connect's JSON: code, message, details (Protobuf in base64)."""
    body: dict[str, Any] = {"code": _CODES[error.code()], "message": error.details() or ""}
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            details = status_pb2.Status.FromString(value).details
            body["details"] = [
                {"type": detail.type_url.rpartition("/")[2], "value": _encode_unpadded(detail.value)}
                for detail in details
            ]
    return body


def _encode_unpadded(value: bytes) -> str:
    return base64.b64encode(value).rstrip(b"=").decode()


def _refusal(code: str, message: str, status: int | None = None) -> Response:
    note(code=code)
    return JSONResponse({"code": code, "message": message}, status or _HTTP[code])


async def _body(request: Request) -> bytes:
    """Read the whole body. Raises: ValueError where it is too large, TimeoutError where it
    does not arrive.
    """
    body = bytearray()
    async with asyncio.timeout(RECEIVE_S):
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                raise ValueError(f"the request is larger than {MAX_BODY} bytes")
    return bytes(body)


def _open_envelope(body: bytes) -> bytes:
    """Return the only message of a stream's request. Raises: ValueError."""
    if len(body) < _ENVELOPE.size:
        raise ValueError("the request is no envelope of Connect")
    flags, length = _ENVELOPE.unpack_from(body)
    if flags != 0 or length != len(body) - _ENVELOPE.size:
        raise ValueError("the request must be one envelope of Connect, not compressed")
    return body[_ENVELOPE.size :]


def _wait_s(request: Request) -> float:
    """Read the timeout of a request, in seconds, within bounds. Raises: ValueError."""
    timeout = request.headers.get("connect-timeout-ms", "")
    if timeout and not (timeout.isascii() and timeout.isdecimal()):
        raise ValueError("connect-timeout-ms must be a whole number")
    return min(float(timeout or _WAIT_MS), _MAX_WAIT_MS) / 1000
