"""Addresses that a service binds to, host:port."""

from __future__ import annotations

import ipaddress


def host_and_port(bind: str) -> tuple[str, int]:
    """The two parts. Raises: ValueError."""
    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be host:port, for example 127.0.0.1:50051")
    return host, int(port)


def is_loopback(bind: str) -> bool:
    """Whether host:port can be reached from this machine only."""
    host = bind.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(bind: str) -> bool:
    """Whether host:port means every address of this machine."""
    try:
        return ipaddress.ip_address(bind.rpartition(":")[0].strip("[]")).is_unspecified
    except ValueError:
        return False
