"""Keep connections to one HTTP server open, and map its failures to errors.

    TemporaryError              the server does not answer: SINK_UNAVAILABLE
    JobError, to be waited out  SINK_TLS, SINK_ADDRESS_REFUSED, SECRET_MISSING, SECRET_UNUSABLE

No redirect is followed, no cookie is stored. The environment says which servers are called by a proxy (ADR
185).
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

from chassis.egress.addresses import PORTS, AddressRefused, EgressRules
from chassis.egress.connector import connector
from chassis.egress.pools import Judge, judge_target
from runtime.clients import handshake
from runtime.clients.credentials import address_refused
from runtime.clients.egress import destination, judge, proxy_of
from runtime.clients.inflight import InFlightLimit
from runtime.errors import TemporaryError

ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Limit of a body that is read; after a longer one the connection is closed."""
_SENT_AT_ONCE: Final = 1024 * 1024
"""Larger bodies are sent in pieces, so that one does not block the event loop."""
_JUDGED_S: Final = 30.0
"""Time for which a check of a name's addresses counts where a proxy connects."""
_HEADERS: Final = {"User-Agent": "daggers", "Accept-Encoding": "identity"}
_ALLOW_ALL: Final[Judge] = lambda why: None  # noqa: E731 - an administrator registered the address
_UNTRUSTED: Final = (
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ClientConnectorSSLError,
    ssl.SSLError,
)


@dataclass(frozen=True, slots=True)
class Server:
    """Address of a server, and how to authenticate. Equal servers share connections."""

    name: str
    """Name of the server in texts for people: HTTP at https://crm.example."""
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
    """Upper bound of requests in flight."""
    share: bytes = b""
    """A serialised `RateLimit` of the writes."""

    @classmethod
    def of(
        cls, resolved: spec_pb2.ResolvedSink, kind: str, url: str, auth: spec_pb2.HttpAuth, **more: Any
    ) -> Self:
        """Build the server of a resolved sink, with its egress rules and rate limit. more: other fields."""
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
    """Return the fields of a Server for TLS: trusted certificates, and the client's own."""
    return {
        "ca_file": sink.tls.ca_file,
        "client_tls": sink.client_tls.SerializeToString(deterministic=True),
    }


@dataclass(frozen=True, slots=True)
class Request:
    """Method, URL, headers and body of one request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool = True
    """True if the body was read to its end: it is at most ANSWER_BYTES long."""

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait; None where it does not."""
        return _parse_retry_after(self.headers.get("Retry-After", ""), datetime.now(UTC))


class Connection:
    """Connections to one server. Raises: JobError for unusable certificates."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._context = _context(server)
        self._server_name = spec_pb2.ClientTls.FromString(server.client_tls).server_name or None
        self._session: aiohttp.ClientSession | None = None
        self._proxy = proxy_of(server.url)
        self._judged_until = 0.0

    async def send(self, request: Request, credentials: Mapping[str, str]) -> HttpAnswer:
        """Send a request with the credentials' headers, and return its answer of any status.

        Raises: the errors of the module's table.
        """
        name = self.server.name
        try:
            session = self._session = self._session or self._open_session()
            if self._proxy is not None:
                await self._judge()
            async with session.request(
                request.method,
                URL(request.url if self._proxy is None else _with_path(request.url), encoded=True),
                data=request.body if len(request.body) < _SENT_AT_ONCE else io.BytesIO(request.body),
                headers={**_HEADERS, **request.headers, **credentials},
                allow_redirects=False,
                server_hostname=self._server_name,
                proxy=self._proxy,
            ) as response:
                body = await _read_body(response)
                is_whole = response.content.at_eof()
                if not is_whole:
                    response.close()
                return HttpAnswer(response.status, response.headers, body, is_whole)
        except AddressRefused as why:
            raise address_refused(name, str(why)) from None
        except _UNTRUSTED:  # some are ValueErrors, too
            raise handshake.untrusted_error(name) from None
        except (aiohttp.InvalidURL, ValueError):
            raise address_refused(name, "that is no address as addresses are written") from None
        except (TimeoutError, aiohttp.ClientError, OSError) as silence:
            if handshake.is_refusal(str(silence)):
                raise handshake.rejected_error(name) from None
            detail = f"{name} does not answer ({type(silence).__name__})."
            raise TemporaryError("SINK_UNAVAILABLE", detail) from None

    async def _judge(self) -> None:
        """Check now and then the addresses of a server that a proxy calls: its connections cannot be seen.

        Raises: AddressRefused.
        """
        if (now := time.monotonic()) < self._judged_until:
            return
        allowed, target_judge = self._rules()
        await asyncio.to_thread(judge_target, *destination(self.server.url), allowed, target_judge)
        self._judged_until = now + _JUDGED_S

    def _rules(self) -> tuple[EgressRules, Judge]:
        if self.server.egress is None:
            return EgressRules(plain=True), _ALLOW_ALL
        rules = spec_pb2.Egress.FromString(self.server.egress)
        return EgressRules.parse(rules.hosts, rules.networks), judge(rules, self.server.name)

    def _open_session(self) -> aiohttp.ClientSession:
        """Open a session, which must happen in the event loop. Raises: AddressRefused, ValueError."""
        url, (allowed, target_judge) = URL(self.server.url), self._rules()
        port = url.port or PORTS[url.scheme]
        session_connector = (
            connector(url.scheme, url.host or "", port, self._context, allowed, target_judge)
            if self._proxy is None
            else aiohttp.TCPConnector(limit=0, ssl=self._context)
        )
        return aiohttp.ClientSession(
            connector=session_connector,
            timeout=aiohttp.ClientTimeout(total=self.server.timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


def _with_path(url: str) -> str:
    """Return the URL with a path, which a proxy needs."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path or "/"))


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """Read the first ANSWER_BYTES of a body."""
    if response.content_length is not None and response.content_length <= ANSWER_BYTES:
        return await response.read()
    read = bytearray()
    while len(read) < ANSWER_BYTES and (more := await response.content.read(ANSWER_BYTES - len(read))):
        read += more
    return bytes(read)


def _context(server: Server) -> ssl.SSLContext:
    """Build the TLS context; of a server without TLS it reads no files. Raises: JobError."""
    if not server.url.startswith("https"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls = spec_pb2.ClientTls.FromString(server.client_tls)
    return handshake.context(server.ca_file, tls, server.url, server.name)


def _parse_retry_after(header: str, now: datetime) -> float | None:
    """Parse a Retry-After header, seconds or a date, to seconds from `now`; None where it is neither."""
    if header.isascii() and header.isdigit():
        return float(header[:9])
    with suppress(ValueError):
        until = parsedate_to_datetime(header)
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        return max((until - now).total_seconds(), 0.0)
    return None
