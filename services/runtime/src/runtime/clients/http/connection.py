"""Connections to one HTTP server that stay open, and what its silence means.

    TemporaryError              it does not answer: SINK_UNAVAILABLE
    JobError, to be waited out  SINK_TLS, SINK_ADDRESS_REFUSED, SECRET_MISSING, SECRET_UNUSABLE

No redirect is followed, no cookie is kept. Who is called by a proxy, the environment says (ADR 185).
"""

from __future__ import annotations

import asyncio
import io
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from daggers.v1 import spec_pb2
from yarl import URL

from chassis.egress.addresses import PORTS, AddressRefused, Allowed
from chassis.egress.connector import connector
from chassis.egress.pools import Judge, judge_target
from runtime.clients import handshake
from runtime.clients.credentials import forbidden
from runtime.clients.egress import destination, judge, proxy_of
from runtime.clients.inflight import InFlightLimit
from runtime.errors import TemporaryError

ANSWER_BYTES: Final = 4 * 1024 * 1024
"""What is read of an answer; of a longer one the connection is closed."""
_SENT_AT_ONCE: Final = 1024 * 1024
"""More would keep the loop from all else."""
_JUDGED_S: Final = 30.0
"""How long it holds what a name resolved to, where a proxy calls it."""
_HEADERS: Final = {"User-Agent": "daggers", "Accept-Encoding": "identity"}
_VOUCHED: Final[Judge] = lambda why: None  # noqa: E731 - an administrator registered the address
_UNTRUSTED: Final = (
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ClientConnectorSSLError,
    ssl.SSLError,
)


@dataclass(frozen=True, slots=True)
class Server:
    """Where requests go, and what is shown of who calls. Equal ones share their connections."""

    name: str
    """The server, as a person knows it: HTTP at https://crm.example."""
    url: str
    auth: bytes = b""
    """A serialised `HttpAuth`."""
    ca_file: str = ""
    client_tls: bytes = b""
    """A serialised `ClientTls`."""
    egress: bytes | None = None
    """A serialised `Egress`; None: an administrator vouches for the address."""
    timeout_s: float = 10.0
    most: float = InFlightLimit().most
    """So many requests may be under way, at most."""
    share: bytes = b""
    """A serialised `RateLimit`: how much may be written there."""

    @classmethod
    def of(
        cls, resolved: spec_pb2.ResolvedSink, kind: str, url: str, auth: spec_pb2.HttpAuth, **more: Any
    ) -> Self:
        """That of a sink, which is told what it may do there; `more` are the other fields."""
        egress = (
            resolved.egress.SerializeToString(deterministic=True) if resolved.HasField("egress") else None
        )
        return cls(
            f"{kind} at {url}",
            url,
            auth.SerializeToString(deterministic=True),
            egress=egress,
            share=resolved.share.SerializeToString(deterministic=True),
            **more,
        )


def in_tls(sink: spec_pb2.HttpSink | spec_pb2.ElasticsearchSink) -> dict[str, Any]:
    """The fields of a Server that say how it is known, and what it is shown, in TLS."""
    return {
        "ca_file": sink.tls.ca_file,
        "client_tls": sink.client_tls.SerializeToString(deterministic=True),
    }


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool = True
    """Whether the body was read to its end."""

    @property
    def retry_after(self) -> float | None:
        """Seconds that it asks to be left alone for; None where it says none."""
        return _seconds(self.headers.get("Retry-After", ""), datetime.now(UTC))


class Connection:
    """Connections to one server. Raises: JobError for what its certificates are not."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._context = _context(server)
        self._server_name = spec_pb2.ClientTls.FromString(server.client_tls).server_name or None
        self._session: aiohttp.ClientSession | None = None
        self._proxy = proxy_of(server.url)
        self._judged_until = 0.0

    async def send(self, request: Request, shown: Mapping[str, str]) -> Answer:
        """One request with further headers, and its answer, whatever it says. Raises: JobError, as above."""
        name = self.server.name
        try:
            session = self._session = self._session or self._connected()
            if self._proxy is not None:
                await self._judge()
            async with session.request(
                request.method,
                URL(request.url if self._proxy is None else _whole(request.url), encoded=True),
                data=request.body if len(request.body) < _SENT_AT_ONCE else io.BytesIO(request.body),
                headers={**_HEADERS, **request.headers, **shown},
                allow_redirects=False,
                server_hostname=self._server_name,
                proxy=self._proxy,
            ) as response:
                body = await _read(response)
                whole = response.content.at_eof()
                if not whole:
                    response.close()
                return Answer(response.status, response.headers, body, whole)
        except AddressRefused as why:
            raise forbidden(name, str(why)) from None
        except _UNTRUSTED:  # some are ValueErrors, too
            raise handshake.untrusted(name) from None
        except (aiohttp.InvalidURL, ValueError):
            raise forbidden(name, "that is no address as addresses are written") from None
        except (TimeoutError, aiohttp.ClientError, OSError) as silence:
            if handshake.is_refusal(str(silence)):
                raise handshake.refused(name) from None
            detail = f"{name} does not answer ({type(silence).__name__})."
            raise TemporaryError("SINK_UNAVAILABLE", detail) from None

    async def _judge(self) -> None:
        """Judge now and then whom the proxy calls: where it connects is not seen. Raises: AddressRefused."""
        if (now := time.monotonic()) < self._judged_until:
            return
        allowed, judged = self._rules()
        await asyncio.to_thread(judge_target, *destination(self.server.url), allowed, judged)
        self._judged_until = now + _JUDGED_S

    def _rules(self) -> tuple[Allowed, Judge]:
        if self.server.egress is None:
            return Allowed(plain=True), _VOUCHED
        said = spec_pb2.Egress.FromString(self.server.egress)
        return Allowed.parse(said.hosts, said.networks), judge(said, self.server.name)

    def _connected(self) -> aiohttp.ClientSession:
        """In the loop, where alone a session is made. Raises: AddressRefused, ValueError."""
        url, (allowed, judged) = URL(self.server.url), self._rules()
        port = url.port or PORTS[url.scheme]
        made = (
            connector(url.scheme, url.host or "", port, self._context, allowed, judged)
            if self._proxy is None
            else aiohttp.TCPConnector(limit=0, ssl=self._context)
        )
        return aiohttp.ClientSession(
            connector=made,
            timeout=aiohttp.ClientTimeout(total=self.server.timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()


def _whole(url: str) -> str:
    """A URL as a proxy is told it: with a path."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path or "/"))


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of a body."""
    if response.content_length is not None and response.content_length <= ANSWER_BYTES:
        return await response.read()
    read = bytearray()
    while len(read) < ANSWER_BYTES and (more := await response.content.read(ANSWER_BYTES - len(read))):
        read += more
    return bytes(read)


def _context(server: Server) -> ssl.SSLContext:
    """What is trusted; nothing is read for a server that shows no certificates. Raises: JobError."""
    if not server.url.startswith("https"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    told = spec_pb2.ClientTls.FromString(server.client_tls)
    return handshake.context(server.ca_file, told, server.url, server.name)


def _seconds(header: str, now: datetime) -> float | None:
    """Of a Retry-After header: seconds, or a date."""
    if header.isascii() and header.isdigit():
        return float(header[:9])
    with suppress(ValueError):
        until = parsedate_to_datetime(header)
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        return max((until - now).total_seconds(), 0.0)
    return None
