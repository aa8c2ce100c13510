"""Call one method of a gRPC server by a channel that stays open, and interpret its status.

    TemporaryError              the name has no address: SINK_UNAVAILABLE
    JobError, to be waited out  SINK_TLS, SINK_ADDRESS_REFUSED, SECRET_MISSING, SECRET_UNUSABLE

A channel gets checked addresses, and no name: gRPC reconnects by itself, and would resolve the name
unchecked. It retries no call and asks no proxy.
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
from runtime.clients.bisection import RefusalCause, Rows
from runtime.clients.client_pool import ClientPool
from runtime.clients.credentials import address_refused
from runtime.clients.http.caller import Caller
from runtime.clients.inflight import InFlightLimit
from runtime.clients.sending import Batches, BatchRequests, ComparableRequests, RequestSender
from runtime.encode.rows import Refusal
from runtime.errors import TemporaryError, external

ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Limit of an answer; a longer one still counts as an answer."""
HEALTH: Final = "grpc.health.v1.Health/Check"
NOT_SERVING: Final = b"\x08\x02"
"""Serialised answer of HEALTH that means NOT_SERVING."""
_UNTRUSTED: Final = re.compile(
    "CERTIFICATE_VERIFY_FAILED|Hostname Verification Check failed|(?:Tls|Ssl) handshake failed"
    "|security handshaker"
)
_TOO_LONG: Final = re.compile(r"CLIENT: (?:Received|Decompressed) message larger than max")
"""gRPC's text for an answer longer than ANSWER_BYTES: the call was accepted all the same."""
_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "daggers"),
    ("grpc.max_receive_message_length", ANSWER_BYTES),
    # Reconnect within a second of the server's return: the default backoff grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
_Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Server:
    """Address of a method, and how to authenticate. Equal servers share a channel."""

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
    """True if the connection is not encrypted."""
    egress: bytes | None = None
    """A serialised `Egress`; None: an administrator vouches for the address."""
    deadline_s: float = 10.0
    share: bytes = b""
    """A serialised `RateLimit` of the writes."""

    @property
    def name(self) -> str:
        """Name of the server in texts for people."""
        return f"gRPC at {self.target}"

    @property
    def address(self) -> tuple[str, int]:
        """Host, without brackets, and port."""
        host, _, port = self.target.rpartition(":")
        return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Request:
    """Message and metadata of one call."""

    message: bytes
    metadata: _Metadata = ()


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """Status and answer of a call."""

    status: StatusCode
    details: str = ""
    """Text of the status, by gRPC or by the server, which may quote a row: never log it."""
    retry_after: float | None = None
    """Seconds that the server asks to wait; None where it does not."""
    message: bytes = b""


_ACCEPTED: Final = CallAnswer(StatusCode.OK)


class GrpcClient:
    """Channel to one server. Raises: JobError for an unusable certificate or secret."""

    def __init__(self, server: Server) -> None:
        self.server = server
        share = spec_pb2.RateLimit.FromString(server.share)
        self.pace = pace.Pace(share)
        most = InFlightLimit().most
        self.limit = InFlightLimit(most=min(share.max_in_flight or most, most))
        """Calls that may be in flight, as learned from answers."""
        self.control: Request | None = None
        self._caller = Caller(server.auth, server.target, server.name, server.egress)
        self._client_tls = spec_pb2.ClientTls.FromString(server.client_tls)
        self._credentials = None if server.is_plain else _credentials(server, self._client_tls)
        self._turn = asyncio.Lock()
        self._channel: aio.Channel | None = None
        self._call: Callable[..., Any] | None = None

    async def send(self, request: Request) -> CallAnswer:
        """Call the method, and return any status. Raises: the errors of the module's table."""
        call, credentials = self._call or await self._open_method(), await self._metadata()
        try:
            message = await call(
                request.message, timeout=self.server.deadline_s, metadata=request.metadata + credentials
            )
        except aio.AioRpcError as error:
            return self._answer_of(error)
        return CallAnswer(StatusCode.OK, message=message) if message else _ACCEPTED

    async def ask(self) -> CallAnswer:
        """Call HEALTH, and return its answer. Raises: the errors of the module's table."""
        await self._open_method()
        assert self._channel is not None, "the channel is opened with the method"
        call: Callable[..., Any] = self._channel.unary_unary(f"/{HEALTH}")
        credentials = await self._metadata()
        try:
            message = await call(b"", timeout=self.server.deadline_s, metadata=credentials)
        except aio.AioRpcError as error:
            return self._answer_of(error)
        return CallAnswer(StatusCode.OK, message=message)

    async def _metadata(self) -> _Metadata:
        """Return the metadata that authenticates the caller. Raises: JobError where no token is given."""
        return tuple((name.lower(), value) for name, value in (await self._caller.headers()).items())

    def _answer_of(self, error: aio.AioRpcError) -> CallAnswer:
        """Convert a failed call to its status.

        Raises: JobError where the server is not the one in its certificates, or rejects ours.
        """
        status, details = error.code(), error.details() or ""
        if status == StatusCode.UNAVAILABLE and handshake.is_refusal(details):
            raise handshake.rejected_error(self.server.name)
        if status == StatusCode.UNAVAILABLE and _UNTRUSTED.search(details):
            detail = (
                f"{self.server.name} is not the server that its certificates speak of, or speaks no TLS: name"
                " their issuer by `ca_file`, or say `plaintext`."
            )
            raise external("SINK_TLS", detail, retryable=True)
        if status == StatusCode.RESOURCE_EXHAUSTED and _TOO_LONG.search(details):
            return _ACCEPTED
        return CallAnswer(status, details, _retry_after(error))

    async def _open_method(self) -> Callable[..., Any]:
        """Return the method; opens the channel, which must happen in the event loop. Raises: JobError."""
        async with self._turn:
            if self._call is None:
                self._channel = await self._open_channel()
                self._call = self._channel.unary_unary(f"/{self.server.method}")
            return self._call

    async def _open_channel(self) -> aio.Channel:
        server = self.server
        host, port = server.address
        rules = None if server.egress is None else spec_pb2.Egress.FromString(server.egress)
        scheme = "http" if server.is_plain else "https"
        proxy = egress.proxy_of(f"{scheme}://{server.target}")
        if proxy is not None and urlsplit(proxy).scheme != "http":  # gRPC would call the server itself
            detail = (
                f"gRPC cannot use an https proxy, and one is set for {server.target}: set one of http://."
            )
            raise external("SINK_ADDRESS_REFUSED", detail, retryable=True)
        try:
            addresses = await asyncio.to_thread(
                egress.resolve_addresses,
                rules,
                server.name,
                host,
                port,
                scheme,
                may_be_unknown=proxy is not None,
            )
        except AddressRefused as why:
            raise address_refused(server.name, str(why)) from None
        except (OSError, UnicodeError):
            raise TemporaryError("SINK_UNAVAILABLE", f"{server.name} has no address.") from None
        # gRPC takes one name for the call and for the certificate.
        authority = self._client_tls.server_name
        options = [
            *_OPTIONS,
            ("grpc.default_authority", f"{authority}:{port}" if authority else server.target),
        ]
        where = server.target if proxy else _format_target(addresses, port)
        if proxy is not None:
            options = [option for option in options if option[0] != "grpc.enable_http_proxy"]
            options.append(("grpc.http_proxy", proxy))
        if self._credentials is None:
            return aio.insecure_channel(where, options=options)
        options.append(("grpc.ssl_target_name_override", authority or host))
        return aio.secure_channel(where, self._credentials, options=options)

    async def close(self) -> None:
        """Close the channel, and the connections to the token server."""
        await self._caller.close()
        if self._channel is not None:
            await self._channel.close()


pool: Final = ClientPool(GrpcClient)
"""Clients of this process by server, each with its channel."""


@runtime_checkable
class CallRequests(ComparableRequests, Protocol):
    """Encodes the rows of a batch into calls, which can be compared with accepted ones."""

    def record_refused(self, rows: Rows, why: RefusalCause) -> None:
        """Record rows that are refused while others are accepted."""


class CallBatches(Batches):
    """Sends the batches of one partition to a method."""

    def __init__(
        self,
        server: Server,
        encode: Callable[[pa.RecordBatch], CallRequests],
        *,
        ordered: bool = False,
        may_refuse: bool = False,
    ) -> None:
        super().__init__(encode, pool, server, ordered, may_refuse)

    def _make_sender(self, requests: BatchRequests) -> RequestSender:
        """Build the sender of these calls; it records rows that a comparison refuses."""
        sender = super()._make_sender(requests)
        if isinstance(requests, CallRequests):
            sender.on_refused = requests.record_refused
        return sender

    def send(self, batch: pa.RecordBatch) -> list[Refusal]:
        """Send a batch. Where the server accepts nothing its client is dropped: its address may have changed.

        Raises: JobError.
        """
        try:
            return super().send(batch)
        except TemporaryError:
            self.pool.drop(self.server)
            raise


def ask(server: Server) -> CallAnswer:
    """Call HEALTH by a channel of its own, and return the answer. Raises: JobError."""

    async def ask_once() -> CallAnswer:
        own = GrpcClient(server)
        try:
            return await own.ask()
        finally:
            await own.close()

    return eventloop.run(ask_once())


def _format_target(addresses: list[str], port: int) -> str:
    """Format addresses as a gRPC target, which takes one family: that of the first."""
    family, form = ("ipv6", "[{}]:{}") if ":" in addresses[0] else ("ipv4", "{}:{}")
    own = [address for address in addresses if (":" in address) == (family == "ipv6")]
    return f"{family}:{','.join(form.format(address, port) for address in own)}"


def _credentials(server: Server, tls: spec_pb2.ClientTls) -> grpc.ChannelCredentials:
    """Load the trusted certificates, and the client's own. Raises: JobError."""
    handshake.context(
        server.ca_file, tls, server.target, server.name
    )  # check files first: gRPC reports unreadable ones only with a call
    place = server.ca_file or ssl.get_default_verify_paths().cafile
    roots = Path(place).read_bytes() if place else None
    if not tls.client_certificate_file:
        return grpc.ssl_channel_credentials(roots)
    key = handshake.client_key(tls, server.target)
    return grpc.ssl_channel_credentials(roots, key, handshake.certificate(tls, server.name))


def _retry_after(error: aio.AioRpcError) -> float | None:
    """Read the seconds that a status asks to wait, of its details, else of its metadata."""
    metadata = dict(error.trailing_metadata() or ())
    details = metadata.get("grpc-status-details-bin")
    if isinstance(details, bytes):
        with suppress(DecodeError, ValueError, OverflowError):
            for detail in status_pb2.Status.FromString(details).details:
                info = error_details_pb2.RetryInfo()
                if detail.Unpack(info):
                    return max(float(info.retry_delay.ToTimedelta().total_seconds()), 0.0)
    pushback = str(metadata.get("grpc-retry-pushback-ms", ""))
    return int(pushback[:9]) / 1000 if pushback.isascii() and pushback.isdigit() else None
