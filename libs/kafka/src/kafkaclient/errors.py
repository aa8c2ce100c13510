"""Errors of Kafka's clients, as one sentence that names the setting to look at and no secret."""

from __future__ import annotations

import ssl

from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from kafkaclient.connection import Connection, SecretUnreadable

_TIMEOUT_MS = 5_000
_REFUSED = (AuthenticationFailedError, SaslAuthenticationFailed)
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_MECHANISM = (UnsupportedSaslMechanismError, IllegalSaslStateError)


def sentence(connection: Connection, error: BaseException | None) -> str:
    """Describe an error of a client: what it means, and the setting to check."""
    where, setting = f"Kafka at {connection.bootstrap_servers}", connection.setting
    if isinstance(error, SecretUnreadable):
        return str(error)
    if isinstance(error, _REFUSED):
        return (
            f"{where} refuses user {connection.sasl_username!r}: check {setting('sasl_username')} and"
            f" {setting('sasl_password_file')}"
        )
    if isinstance(error, _MECHANISM):
        return f"{where} does not take {connection.sasl_mechanism}: check {setting('sasl_mechanism')}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {where} is not to be trusted ({error.verify_message}): check"
            f" {setting('ssl_ca_file')}"
        )
    if isinstance(error, ssl.SSLError):
        return f"{where} speaks no TLS with us: check {setting('security_protocol')}"
    return f"{where} does not answer: {type(error).__name__}"


def is_refusal(error: BaseException) -> bool:
    """Tell whether an error means that a setting is wrong, here or at the broker: waiting mends nothing."""
    settings = (SecretUnreadable, ssl.SSLError, *_REFUSED, *_MECHANISM)
    return isinstance(error, settings) and not isinstance(error, _CUT_OFF)


async def underlying(connection: Connection, error: BaseException) -> BaseException:
    """Connect once and return the error of that, or `error` itself if there is none.

    aiokafka says of a start only that it failed, not why.
    """
    if connection.security_protocol == "PLAINTEXT" or isinstance(error, SecretUnreadable):
        return error
    options = connection.aiokafka()
    host, _, port = options.pop("bootstrap_servers").split(",")[0].strip().rpartition(":")
    try:
        (await create_conn(host, int(port), request_timeout_ms=_TIMEOUT_MS, **options)).close()
    except (KafkaError, OSError, TimeoutError, ValueError) as reason:
        return reason
    return error
