"""Addresses in settings: host:port that a service binds to, URLs that it is reached at."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def host_and_port(bind: str) -> tuple[str, int]:
    """Split host:port. Raises: ValueError."""
    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be host:port, for example 127.0.0.1:50051")
    return host, int(port)


def is_loopback(bind: str) -> bool:
    """Tell whether host:port can be reached from this machine only."""
    host = bind.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_secure_url(url: str) -> str:
    """Check that a URL is https, or http on loopback, and return it. Raises: ValueError."""
    parts = urlsplit(url)
    local = parts.scheme == "http" and is_loopback(f"{parts.hostname}:0")
    if not parts.hostname or not (parts.scheme == "https" or local):
        raise ValueError("must begin with https://, or with http:// on loopback")
    return url


def is_wildcard(bind: str) -> bool:
    """Tell whether host:port stands for all addresses of this machine."""
    try:
        return ipaddress.ip_address(bind.rpartition(":")[0].strip("[]")).is_unspecified
    except ValueError:
        return False
