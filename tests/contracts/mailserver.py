"""A mail server that keeps to the protocol: STARTTLS before anything else, a login before any message."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "daggers", "canary-of-the-mail-password"


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Certificate of a name that signs itself, and its key."""
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-days", "1",
         "-out", str(paths[0]), "-keyout", str(paths[1])],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return paths


@dataclass
class MailServer:
    """Behaviour of a server, and what it has received."""

    answers: dict[str, str] = field(default_factory=dict)
    """Reply in place of its own: to `MAIL`, `DATA`, or a recipient."""
    offers_tls: bool = True
    mailbox: dict[str, EmailMessage] = field(default_factory=dict)
    """By Message-ID: a message that comes twice is one."""
    submitted: int = 0
    port: int = 0

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        good = isinstance(data, LoginPassword) and (data.login, data.password) == (
            USER.encode(),
            PASSWORD.encode(),
        )
        return AuthResult(success=good, handled=False)

    async def handle_MAIL(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        return self.answers.get("MAIL", "250 2.1.0 Ok")

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = self.answers.get(address, "250 2.1.5 Ok")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        self.submitted += 1
        if "DATA" in self.answers:
            return self.answers["DATA"]
        content = envelope.content
        assert isinstance(content, bytes)
        message = message_from_bytes(content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.mailbox[str(message["Message-ID"])] = message
        return "250 2.0.0 Ok: queued as 12345"


class Connection(SMTP):
    """A connection that says when it is gone."""

    def __init__(self, others: set[Connection], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._others = others

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._others.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._others.discard(self)


@asynccontextmanager
async def serving(
    server: MailServer, paths: tuple[Path, Path], *, implicit: bool = False
) -> AsyncIterator[None]:
    """Let a server listen on loopback."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*paths)

    open_connections: set[Connection] = set()

    def protocol() -> SMTP:
        return Connection(
            open_connections,
            server,
            hostname="mail.example",
            ident="strict",
            tls_context=context if server.offers_tls and not implicit else None,
            require_starttls=server.offers_tls and not implicit,
            auth_required=server.offers_tls and not implicit,  # it warns of this beside TLS of another layer
            auth_require_tls=server.offers_tls and not implicit,
            authenticator=server.authenticate if server.offers_tls else None,
        )

    loop = asyncio.get_running_loop()
    listening = await loop.create_server(protocol, "127.0.0.1", 0, ssl=context if implicit else None)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        listening.close()
        for connection in open_connections:
            if connection.transport is not None:
                connection.transport.abort()
        with suppress(TimeoutError):  # aiosmtpd does not notice the end of a handshake that failed
            async with asyncio.timeout(1):
                while open_connections:  # noqa: ASYNC110 - it is another's callback that ends it
                    await asyncio.sleep(0.01)
