"""Addresses of servers, as far as two of them can be told to be one: where a secret may be sent.

Compared as text: who writes an address in another form than it is allowed in is refused, never let through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_HOST: Final = r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])"
# Stricter than URLs are: what two libraries may read as two hosts is no address.
_URL: Final = re.compile(rf"(?P<scheme>https?)://{_HOST}(?::(?P<port>\d{{1,5}}))?(?P<path>/[!-~]*)?")
_PLAIN: Final = re.compile(rf"{_HOST}:(?P<port>\d{{1,5}})")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """One server."""

    scheme: str
    """http or https; empty where any will do."""
    host: str
    port: int


def parse(text: str) -> Address | None:
    """Parse the server of a URL, or of host:port; None for what is neither."""
    match = _URL.fullmatch(text)
    if match is not None:
        scheme = match["scheme"]
        if set(match["path"] or "") & set("?#\\"):
            return None
        return _address(scheme, match["host"], int(match["port"] or _PORTS[scheme]))
    match = _PLAIN.fullmatch(text)
    return None if match is None else _address("", match["host"], int(match["port"]))


def base(text: str) -> Address | None:
    """Parse an address without a path: host:port, or the base of a URL; None for anything else."""
    return None if text.count("/") not in (0, 2) else parse(text)


def covers(allowed: Iterable[str], to: str) -> bool:
    """Return whether all servers of `to` (a URL, or host:port,host:port …) are among the allowed ones."""
    permitted = [address for address in map(parse, allowed) if address is not None]
    servers = [parse(part.strip()) for part in to.split(",")]
    return all(server is not None and any(_is(one, server) for one in permitted) for server in servers)


def _is(allowed: Address, to: Address) -> bool:
    same = (allowed.host, allowed.port) == (to.host, to.port)
    return same and allowed.scheme in ("", to.scheme)


def _address(scheme: str, host: str, port: int) -> Address | None:
    return Address(scheme, host.lower().removesuffix("."), port) if 0 < port <= 65535 else None
