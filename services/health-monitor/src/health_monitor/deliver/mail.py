"""Submits mail: one message, one connection to a checked address, and nothing before it is encrypted.

Mail goes directly, by no HTTP proxy.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from datetime import timedelta
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from aiosmtplib import (
    SMTP,
    SMTPException,
    SMTPNotSupported,
    SMTPRecipientsRefused,
    SMTPResponseException,
    SMTPTimeoutError,
)

from chassis.egress.addresses import Address, EgressRules, refusal
from chassis.egress.transport import Resolve
from chassis.logging import logger
from health_monitor.receivers import MailAnswer, MailRequest, Temporary

PORTS: Final = {"smtp": 587, "smtps": 465}
"""Default port of each scheme."""
_QUIT_S: Final = 1.0


async def submit(
    request: MailRequest,
    *,
    allowed: EgressRules,
    resolver: Resolve,
    context: ssl.SSLContext,
    limit: timedelta,
) -> MailAnswer | Temporary:
    """Submit a message, within `limit` in all. Temporary: no reply came, or it was not asked for one.
    Never raises, whatever network and server do.
    """
    server = urlsplit(request.url)
    try:
        async with asyncio.timeout(limit.total_seconds()):
            connection = await _connect(server, allowed, resolver)
            if isinstance(connection, Temporary):
                return connection
            return await _converse(request, server, connection, context)
    except (TimeoutError, SMTPTimeoutError):
        seconds = limit.total_seconds()
        return Temporary("TIMEOUT", f"it did not answer in {seconds:g} s; it may have it all the same")
    except SMTPRecipientsRefused as refused:
        # One that is refused for now is a reason to try again; otherwise all are refused for good.
        reply = min(refused.recipients, key=lambda recipient: recipient.code)
        return MailAnswer(reply.code, reply.message)
    except SMTPResponseException as refused:
        return MailAnswer(refused.code, refused.message)
    except SMTPNotSupported:
        return Temporary("NOT_SUPPORTED", "it does not offer what its URL asks for, such as to log in")
    except (SMTPException, OSError) as error:
        return Temporary("NOT_REACHED", f"it could not be reached ({type(error).__name__})")


async def _connect(server: SplitResult, allowed: EgressRules, resolver: Resolve) -> socket.socket | Temporary:
    """Connect to the first address of the server that answers. Raises: OSError of the last one."""
    host, port = _host(server), _port(server)
    try:
        addresses = await resolver(host, port)
    except (OSError, UnicodeError):
        addresses = []
    if not addresses:
        return Temporary("NOT_REACHED", "its host has no address")
    # It is judged as https is: nothing is sent that is not encrypted.
    why = refusal("https", host, port, addresses, allowed)
    if why is not None:
        return Temporary("ADDRESS_REFUSED", why)
    failure: OSError = ConnectionError()
    for address in addresses:
        try:
            return await _connect_to(address, port)
        except OSError as error:
            failure = error
    raise failure


async def _connect_to(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    except BaseException:  # a timeout cancels
        connection.close()
        raise
    return connection


async def _converse(
    request: MailRequest, server: SplitResult, connection: socket.socket, context: ssl.SSLContext
) -> MailAnswer | Temporary:
    """Encrypt, log in, submit. Raises: SMTPException, OSError."""
    client = SMTP(
        hostname=_host(server),  # the name in its certificate
        local_hostname=_own_name(connection),
        sock=connection,
        use_tls=server.scheme == "smtps",
        start_tls=False,
        tls_context=context,
        timeout=None,  # the caller's is for all steps together
    )
    try:
        await client.connect()
        if server.scheme == "smtp":
            await client.ehlo()
            if not client.supports_extension("starttls"):
                return Temporary("NOT_ENCRYPTED", "it offers no STARTTLS, and nothing is sent without")
            await client.starttls()
        if server.username is not None:
            await client.login(unquote(server.username), unquote(server.password or ""))
        refused, text = await client.sendmail(request.sender, list(request.recipients), request.message)
        if refused:
            codes = sorted({reply.code for reply in refused.values()})
            logger().warning("mail.recipients_refused", refused=len(refused), codes=codes)
        await _quit(client)
        return MailAnswer(250, text)
    finally:
        client.close()  # its transport closes the connection


async def _quit(client: SMTP) -> None:
    """Take leave, as RFC 5321, 4.1.1.10 asks for; the message is accepted, whatever the server says to it."""
    with suppress(SMTPException, OSError, TimeoutError):
        async with asyncio.timeout(_QUIT_S):
            await client.quit()


def _own_name(connection: socket.socket) -> str:
    """Return the literal of this end's address (RFC 5321, 4.1.3): to ask for a name may take long."""
    address = connection.getsockname()[0].partition("%")[0]
    return f"[{address}]" if connection.family == socket.AF_INET else f"[IPv6:{address}]"


def _host(server: SplitResult) -> str:
    return server.hostname or ""


def _port(server: SplitResult) -> int:
    return server.port or PORTS[server.scheme]
