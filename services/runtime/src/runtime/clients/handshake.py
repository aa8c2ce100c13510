"""What a server shows in a handshake of TLS, and is shown: SINK_TLS where that cannot be used."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path
from typing import Final

from daggers.v1 import spec_pb2

from runtime.clients.secrets import resolve
from runtime.errors import JobError, external

_REFUSED: Final = re.compile(
    r"ALERT_\w*(?:CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE)", re.IGNORECASE
)
"""What OpenSSL says when a server ends a handshake for the sake of a certificate of ours, or of none."""


def is_refusal(said: str) -> bool:
    """Whether words of OpenSSL say that the server does not take what it was shown."""
    return bool(_REFUSED.search(said))


def refused(name: str) -> JobError:
    """A server that does not take the certificate that it was shown, or wants one."""
    detail = f"{name} does not take the certificate of who calls: see `tls.client_certificate_file`."
    return external("SINK_TLS", detail, retryable=True)


def untrusted(name: str, remedy: str = "name their issuer by `ca_file`") -> JobError:
    """A server whose certificate is of another name, or of an issuer that nobody here trusts."""
    detail = f"{name} is not the server that its certificates speak of: {remedy}."
    return external("SINK_TLS", detail, retryable=True)


def untrusted_here(name: str) -> JobError:
    """The same of a server that is known by the issuers of this host alone."""
    return untrusted(name, "their issuer must be one that the driver's host trusts")


def client_key(told: spec_pb2.ClientTls, to: str) -> bytes:
    """The private key; empty where none is said. Raises: JobError."""
    return resolve(told.client_key, to).encode() if told.HasField("client_key") else b""


def context(ca_file: str, told: spec_pb2.ClientTls, to: str, name: str) -> ssl.SSLContext:
    """What is trusted, and shown to the server at `to`, which people know by `name`. Raises: JobError."""
    try:
        made = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError):
        detail = f"{ca_file}, by which {name} is to be known, cannot be read as certificates."
        raise external("SINK_TLS", detail, retryable=True) from None
    if told.client_certificate_file:
        _show(made, told, client_key(told, to), name)
    return made


def certificate(told: spec_pb2.ClientTls, name: str) -> bytes:
    """The certificates that a server is shown. Raises: JobError."""
    try:
        return Path(told.client_certificate_file).read_bytes()
    except OSError:
        raise _unusable(told, name) from None


def _show(made: ssl.SSLContext, told: spec_pb2.ClientTls, key: bytes, name: str) -> None:
    """Raises: JobError."""
    memory = os.memfd_create("key")  # OpenSSL takes keys of files alone; this one is on no disk
    try:
        os.write(memory, key)
        # An empty passphrase: without one it would ask the terminal.
        made.load_cert_chain(told.client_certificate_file, f"/proc/self/fd/{memory}", password="")
    except (OSError, ssl.SSLError):
        raise _unusable(told, name) from None
    finally:
        os.close(memory)


def _unusable(told: spec_pb2.ClientTls, name: str) -> JobError:
    detail = (
        f"{told.client_certificate_file}, which {name} is to be shown, cannot be read as certificates, or its"
        " client_key is not theirs."
    )
    return external("SINK_TLS", detail, retryable=True)
