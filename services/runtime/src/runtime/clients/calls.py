"""One method of a gRPC server: a channel that stays open, and what a status means.

    TemporaryError              its name has no address: SINK_UNAVAILABLE
    JobError, to be waited out  SINK_TLS, SINK_ADDRESS_REFUSED, SECRET_MISSING, SECRET_UNUSABLE

A channel is of addresses that were checked, and of no name: gRPC connects again by itself, and would ask for
it. It retries no call and asks no proxy.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

import grpc
import pyarrow as pa
from daggers.v1 import spec_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped] # ships .pyi, no py.typed
from grpc import StatusCode, aio

from chassis.egress.addresses import AddressRefused
from runtime.clients import egress, eventloop, handshake, pace
from runtime.clients.bisection import Refused, Rows
from runtime.clients.credentials import forbidden
from runtime.clients.http.caller import Caller
from runtime.clients.inflight import InFlightLimit
from runtime.clients.kept import Kept
from runtime.clients.sending import Batches, Comparable, Requests, Sending
from runtime.encode.rows import Refusal
from runtime.errors import TemporaryError, external

ANSWER_BYTES: Final = 4 * 1024 * 1024
"""What is read of an answer."""
HEALTH: Final = "grpc.health.v1.Health/Check"
NOT_SERVING: Final = b"\x08\x02"
"""The answer of HEALTH, on the wire."""
_UNTRUSTED: Final = re.compile(
    "CERTIFICATE_VERIFY_FAILED|Hostname Verification Check failed|(?:Tls|Ssl) handshake failed"
    "|security handshaker"
)
_ANSWERED: Final = re.compile(r"CLIENT: (?:Received|Decompressed) message larger than max")
"""What gRPC says of an answer that is too long for us: there is one."""
_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "daggers"),
    ("grpc.max_receive_message_length", ANSWER_BYTES),
    # A server that is back is found within a second, and not after the two minutes that these grow to.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
_Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Server:
    """Where calls go, and what is shown of who calls. Equal ones share their channel."""

    target: str
    """host:port"""
    method: str
    """package.Service/Method"""
    auth: bytes = b""
    """A serialised `HttpAuth`."""
    ca_file: str = ""
    client_tls: bytes = b""
    """A serialised `ClientTls`."""
    is_plain: bool = False
    """Whether nothing is encrypted."""
    egress: bytes | None = None
    """A serialised `Egress`; None: an administrator vouches for the address."""
    deadline_s: float = 10.0
    share: bytes = b""
    """A serialised `RateLimit`: how much may be written there."""

    @property
    def name(self) -> str:
        """The server, as a person knows it."""
        return f"gRPC at {self.target}"

    @property
    def address(self) -> tuple[str, int]:
        """Its host and its port."""
        host, _, port = self.target.rpartition(":")
        return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Request:
    """One call."""

    message: bytes
    metadata: _Metadata = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a call."""

    status: StatusCode
    said: str = ""
    """The words of the status: of gRPC itself, or of the server, which may quote a row."""
    retry_after: float | None = None
    """Seconds that it asks to be left alone for; None where it says none."""
    message: bytes = b""


_TAKEN: Final = Answer(StatusCode.OK)


class Client:
    """A channel to one server. Raises: JobError for what its server or its secret is not."""

    def __init__(self, server: Server) -> None:
        self.server = server
        share = spec_pb2.RateLimit.FromString(server.share)
        self.pace = pace.Pace(share)
        most = InFlightLimit().most
        self.limit = InFlightLimit(most=min(share.max_in_flight or most, most))
        """Calls that may be under way, as far as is known."""
        self.control: Request | None = None
        self._caller = Caller(server.auth, server.target, server.name, server.egress)
        self._client_tls = spec_pb2.ClientTls.FromString(server.client_tls)
        self._credentials = None if server.is_plain else _credentials(server, self._client_tls)
        self._turn = asyncio.Lock()
        self._channel: aio.Channel | None = None
        self._call: Callable[..., Any] | None = None

    async def send(self, request: Request) -> Answer:
        """One call of the method, and its status, whatever it is. Raises: JobError, as above."""
        call, shown = self._call or await self._method(), await self._shown()
        try:
            said = await call(
                request.message, timeout=self.server.deadline_s, metadata=request.metadata + shown
            )
        except aio.AioRpcError as error:
            return self._told(error)
        return Answer(StatusCode.OK, message=said) if said else _TAKEN

    async def ask(self) -> Answer:
        """Whether the server says that it serves: what HEALTH answers. Raises: JobError, as above."""
        await self._method()
        assert self._channel is not None, "it was made for the method"
        call: Callable[..., Any] = self._channel.unary_unary(f"/{HEALTH}")
        shown = await self._shown()
        try:
            said = await call(b"", timeout=self.server.deadline_s, metadata=shown)
        except aio.AioRpcError as error:
            return self._told(error)
        return Answer(StatusCode.OK, message=said)

    async def _shown(self) -> _Metadata:
        """What shows who calls. Raises: JobError where no token is to be had."""
        return tuple((name.lower(), value) for name, value in (await self._caller.shown()).items())

    def _told(self, error: aio.AioRpcError) -> Answer:
        """Raises: JobError for a server that is not whom its certificates speak of."""
        status, said = error.code(), error.details() or ""
        if status == StatusCode.UNAVAILABLE and handshake.is_refusal(said):
            raise handshake.refused(self.server.name)
        if status == StatusCode.UNAVAILABLE and _UNTRUSTED.search(said):
            detail = (
                f"{self.server.name} is not the server that its certificates speak of, or speaks no TLS: name"
                " their issuer by `ca_file`, or say `plaintext`."
            )
            raise external("SINK_TLS", detail, retryable=True)
        if status == StatusCode.RESOURCE_EXHAUSTED and _ANSWERED.search(said):
            return _TAKEN
        return Answer(status, said, _retry_after(error))

    async def _method(self) -> Callable[..., Any]:
        """The method, in the loop, where alone a channel is made. Raises: JobError."""
        async with self._turn:
            if self._call is None:
                self._channel = await self._connected()
                self._call = self._channel.unary_unary(f"/{self.server.method}")
            return self._call

    async def _connected(self) -> aio.Channel:
        server = self.server
        host, port = server.address
        told = None if server.egress is None else spec_pb2.Egress.FromString(server.egress)
        scheme = "http" if server.is_plain else "https"
        proxy = egress.proxy_of(f"{scheme}://{server.target}")
        if proxy is not None and urlsplit(proxy).scheme != "http":  # gRPC would call the server itself
            detail = (
                f"gRPC cannot use an https proxy, and one is set for {server.target}: set one of http://."
            )
            raise external("SINK_ADDRESS_REFUSED", detail, retryable=True)
        try:
            addresses = await asyncio.to_thread(
                egress.addresses, told, server.name, host, port, scheme, may_be_unknown=proxy is not None
            )
        except AddressRefused as why:
            raise forbidden(server.name, str(why)) from None
        except (OSError, UnicodeError):
            raise TemporaryError("SINK_UNAVAILABLE", f"{server.name} has no address.") from None
        # gRPC wants one name in a call and in the certificate.
        named = self._client_tls.server_name
        options = [*_OPTIONS, ("grpc.default_authority", f"{named}:{port}" if named else server.target)]
        where = server.target if proxy else _listed(addresses, port)
        if proxy is not None:
            options = [option for option in options if option[0] != "grpc.enable_http_proxy"]
            options.append(("grpc.http_proxy", proxy))
        if self._credentials is None:
            return aio.insecure_channel(where, options=options)
        options.append(("grpc.ssl_target_name_override", named or host))
        return aio.secure_channel(where, self._credentials, options=options)

    async def close(self) -> None:
        """Close the channel, and the connections to who gives tokens."""
        await self._caller.close()
        if self._channel is not None:
            await self._channel.close()


kept: Final = Kept(Client)
"""The clients of this process, each with its channel."""


@runtime_checkable
class CallRequests(Comparable, Protocol):
    """The rows of a batch in calls, which can be told from others that were taken."""

    def found(self, rows: Rows, why: Refused) -> None:
        """Is told of rows that are refused while others are taken."""


class Calling(Batches):
    """The batches of one partition on their way to a method."""

    def __init__(
        self,
        server: Server,
        encode: Callable[[pa.RecordBatch], CallRequests],
        *,
        ordered: bool = False,
        may_refuse: bool = False,
    ) -> None:
        super().__init__(encode, kept, server, ordered, may_refuse)

    def _sent_as(self, made: Requests) -> Sending:
        """As any; a call that was taken tells others apart."""
        sending = super()._sent_as(made)
        if isinstance(made, CallRequests):
            sending.on_refused = made.found
        return sending

    def sent(self, batch: pa.RecordBatch) -> list[Refusal]:
        """As any batches; a server that takes nothing may have moved, and is looked up anew.

        Raises: JobError.
        """
        try:
            return super().sent(batch)
        except TemporaryError:
            self.kept.drop(self.server)
            raise


def ask(server: Server) -> Answer:
    """Whether it says that it serves, by a channel of its own. Raises: JobError."""

    async def asked() -> Answer:
        own = Client(server)
        try:
            return await own.ask()
        finally:
            await own.close()

    return eventloop.run(asked())


def _listed(addresses: list[str], port: int) -> str:
    """A target of gRPC: addresses of one family, that of the first."""
    family, form = ("ipv6", "[{}]:{}") if ":" in addresses[0] else ("ipv4", "{}:{}")
    own = [address for address in addresses if (":" in address) == (family == "ipv6")]
    return f"{family}:{','.join(form.format(address, port) for address in own)}"


def _credentials(server: Server, told: spec_pb2.ClientTls) -> grpc.ChannelCredentials:
    """The certificates that sign the server's, and those that it is shown. Raises: JobError."""
    handshake.context(
        server.ca_file, told, server.target, server.name
    )  # gRPC tells what it cannot read too late
    place = server.ca_file or ssl.get_default_verify_paths().cafile
    roots = Path(place).read_bytes() if place else None
    if not told.client_certificate_file:
        return grpc.ssl_channel_credentials(roots)
    key = handshake.client_key(told, server.target)
    return grpc.ssl_channel_credentials(roots, key, handshake.certificate(told, server.name))


def _retry_after(error: aio.AioRpcError) -> float | None:
    """Seconds that a status asks to be left alone for: of its details, else of its metadata."""
    told = dict(error.trailing_metadata() or ())
    details = told.get("grpc-status-details-bin")
    if isinstance(details, bytes):
        with suppress(DecodeError, ValueError, OverflowError):
            for detail in status_pb2.Status.FromString(details).details:
                info = error_details_pb2.RetryInfo()
                if detail.Unpack(info):
                    return max(float(info.retry_delay.ToTimedelta().total_seconds()), 0.0)
    pushback = str(told.get("grpc-retry-pushback-ms", ""))
    return int(pushback[:9]) / 1000 if pushback.isascii() and pushback.isdigit() else None
