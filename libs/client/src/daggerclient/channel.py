"""A channel to a gateway: its address, the authority to trust, the token to show."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc

from daggerclient.errors import SettingError


def channel(address: str, ca_file: Path | None = None, proxy: str | None = None) -> grpc.Channel:
    """Open a channel to HOST:PORT, or to https://HOST:PORT for TLS. Raises SettingError.

    ca_file: PEM file of the authority to trust; the usual ones when None.
    proxy:   URL of an HTTP proxy that stands before the gateway; the environment's is never asked.
    """
    parts = urlsplit(address if "://" in address else f"http://{address}")
    try:
        well_formed = bool(parts.hostname and parts.port) and parts.scheme in ("http", "https")
    except ValueError:
        well_formed = False
    if not well_formed:
        raise SettingError("address", f"{address}: it must be HOST:PORT, or https://HOST:PORT for TLS")
    if parts.scheme == "http":
        return grpc.insecure_channel(parts.netloc, options=_options(proxy))
    authority = _read(ca_file, "ca_file").encode() if ca_file else None
    if authority is not None and b"-----BEGIN CERTIFICATE-----" not in authority:
        raise SettingError("ca_file", f"{ca_file} holds no certificate in PEM")
    credentials = grpc.ssl_channel_credentials(authority)
    return grpc.secure_channel(parts.netloc, credentials, options=_options(proxy))


def _options(proxy: str | None) -> list[tuple[str, Any]]:
    if proxy is None:
        return [("grpc.enable_http_proxy", 0)]
    return [("grpc.http_proxy", proxy)]


def token(file: Path) -> str:
    """Read the token in a file. Raises SettingError, which does not repeat what it holds."""
    text = _read(file, "token_file").strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingError("token_file", f"{file} must hold one token, and nothing else")
    return text


def _read(file: Path, setting: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(setting, f"{file} cannot be read") from error
