"""Set up TLS to servers: trusted certificates and the client's own; SINK_TLS where they are unusable."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path
from typing import Final

from daggers.v1 import spec_pb2

from runtime.clients.secrets import resolve
from runtime.errors import JobError, external

_REJECTED: Final = re.compile(
    r"ALERT_\w*(?:CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE)", re.IGNORECASE
)
"""OpenSSL's texts for a server that rejects the client's certificate, or misses one."""


def is_refusal(text: str) -> bool:
    """Tell whether a text of OpenSSL means that the server rejects the client's certificate."""
    return bool(_REJECTED.search(text))


def rejected_error(name: str) -> JobError:
    """Build the error of a server that rejects the client's certificate, or wants one."""
    detail = f"{name} does not take the certificate of who calls: see `tls.client_certificate_file`."
    return external("SINK_TLS", detail, retryable=True)


def untrusted_error(name: str, remedy: str = "name their issuer by `ca_file`") -> JobError:
    """Build the error of a server whose certificate has another name, or an untrusted issuer."""
    detail = f"{name} is not the server that its certificates speak of: {remedy}."
    return external("SINK_TLS", detail, retryable=True)


def untrusted_here_error(name: str) -> JobError:
    """Build the error of an untrusted server for which only this host's issuers count."""
    return untrusted_error(name, "their issuer must be one that the driver's host trusts")


def client_key(tls: spec_pb2.ClientTls, to: str) -> bytes:
    """Resolve the private key, in PEM; empty where the sink has none. Raises: JobError."""
    return resolve(tls.client_key, to).encode() if tls.HasField("client_key") else b""


def context(ca_file: str, tls: spec_pb2.ClientTls, to: str, name: str) -> ssl.SSLContext:
    """Build the TLS context for the server at `to`. name: for people. Raises: JobError."""
    try:
        ssl_context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError):
        detail = f"{ca_file}, by which {name} is to be known, cannot be read as certificates."
        raise external("SINK_TLS", detail, retryable=True) from None
    if tls.client_certificate_file:
        _load_client_certificate(ssl_context, tls, client_key(tls, to), name)
    return ssl_context


def certificate(tls: spec_pb2.ClientTls, name: str) -> bytes:
    """Read the client's certificates, in PEM. Raises: JobError."""
    try:
        return Path(tls.client_certificate_file).read_bytes()
    except OSError:
        raise _unusable(tls, name) from None


def _load_client_certificate(
    ssl_context: ssl.SSLContext, tls: spec_pb2.ClientTls, key: bytes, name: str
) -> None:
    """Load the client's certificates and key into the context. Raises: JobError."""
    memory = os.memfd_create("key")  # OpenSSL takes keys only from files; this one never reaches a disk
    try:
        os.write(memory, key)
        # without an empty passphrase OpenSSL would prompt on the terminal
        ssl_context.load_cert_chain(tls.client_certificate_file, f"/proc/self/fd/{memory}", password="")
    except (OSError, ssl.SSLError):
        raise _unusable(tls, name) from None
    finally:
        os.close(memory)


def _unusable(tls: spec_pb2.ClientTls, name: str) -> JobError:
    detail = (
        f"{tls.client_certificate_file}, which {name} is to be shown, cannot be read as certificates, or its"
        " client_key is not theirs."
    )
    return external("SINK_TLS", detail, retryable=True)
