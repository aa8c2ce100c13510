"""A Java key store with the authorities that this Python trusts.

The wheel's Java brings a list of its own, which does not know a company's authority; Python's is the
system's, or what SSL_CERT_FILE names. The format is JKS, version 2: a header, an entry for each
certificate, and a digest.
"""

import hashlib
import ssl
import struct
from collections.abc import Sequence
from pathlib import Path

MAGIC, VERSION, TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
PASSWORD = "changeit"  # noqa: S105 - Java's own default; it protects nothing, the certificates are public
SALT = b"Mighty Aphrodite"


def trusted_certificates() -> list[bytes]:
    """Return the certificates, DER, of the authorities that this Python trusts."""
    return ssl.create_default_context().get_ca_certs(binary_form=True)


def write(file: Path, certificates: Sequence[bytes]) -> None:
    """Write a key store that holds these certificates."""
    body = struct.pack(">III", MAGIC, VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", TRUSTED_CERTIFICATE) + _text(f"authority-{number}") + struct.pack(">Q", 0)
        body += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    digest = hashlib.sha1(PASSWORD.encode("utf-16-be") + SALT + body)  # noqa: S324 - what the format asks for
    file.write_bytes(body + digest.digest())


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded
