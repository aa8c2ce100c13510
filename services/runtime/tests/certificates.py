"""Certificates of tests: each signs itself."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """PEM files: a certificate and its key, each by itself."""

    file: Path
    key: Path

    def with_key(self) -> Path:
        """Both in one file."""
        both = self.file.with_suffix(".both.pem")
        both.write_text(self.file.read_text() + self.key.read_text())
        return both


def self_signed(folder: Path, name: str, *, about: str = "IP:127.0.0.1", days: int = 2) -> Certificate:
    """`about` is its subject's alternative name; with `days` below zero it has expired."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    request = folder / f"{name}.request"
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", made.key, "-out", request, "-subj", f"/CN={name}",
         "-addext", f"subjectAltName={about}"],
        check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run(
        ["openssl", "x509", "-req", "-in", request, "-signkey", made.key, "-days", str(days),
         "-copy_extensions", "copy", "-out", made.file],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


def context_of_server(certificate: Certificate) -> ssl.SSLContext:
    """What a server shows that asks for no certificate itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    return context
