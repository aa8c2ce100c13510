"""Which addresses a notification may go to: the check against server-side request forgery. Pure.

Hosts are checked by what they resolve to, whatever they look like (decimal, octal, a name somebody rebinds),
and the connection is made to the very address that was checked: see `egress`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import urlsplit

Address: TypeAlias = IPv4Address | IPv6Address

PORTS: Final = {"http": 80, "https": 443}
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE: Final = IPv6Network("::/96")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The hosts an administrator vouches for, as DAGGERS_ALLOWED_HOSTS lists them."""

    hosts: frozenset[tuple[str, int | None]] = frozenset()
    """Host as it stands in a URL, lower case, and its port; None: any port."""

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """From `host[:port], …`; an IPv6 address in brackets. Raises: ValueError naming the entry."""
        hosts = set()
        for entry in filter(None, (part.strip() for part in text.split(","))):
            try:
                parts = urlsplit(f"//{entry}")
                host, port = parts.hostname, parts.port
            except ValueError:
                host, port = None, None
            if (
                not host
                or " " in entry
                or entry.lower() not in (host, f"[{host}]", f"{host}:{port}", f"[{host}]:{port}")
            ):
                raise ValueError(f"{entry!r} is not a host or host:port")
            hosts.add((host, port))
        return cls(frozenset(hosts))

    def has(self, host: str, port: int) -> bool:
        """Whether the host is vouched for, at this port."""
        return not self.hosts.isdisjoint({(host.lower(), None), (host.lower(), port)})


def refusal(scheme: str, host: str, port: int, addresses: Sequence[Address], allowed: Allowed) -> str | None:
    """Why nothing may be sent to a host with these addresses, one sentence; None when it may.

    One forbidden address among several is enough. The sentence names no host: URLs may be secrets.
    """
    if allowed.has(host, port):
        return None
    if scheme != "https":
        return "it is not https, and its host is not in DAGGERS_ALLOWED_HOSTS"
    if not all(public(address) for address in addresses):
        return "its host has a private, loopback or reserved address, and is not in DAGGERS_ALLOWED_HOSTS"
    return None


def public(address: Address) -> bool:
    """Whether an address is of the public internet, seen through every form that embeds another address."""
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    embedded: list[IPv4Address] = []
    if address.ipv4_mapped is not None:
        embedded.append(address.ipv4_mapped)
    elif address.sixtofour is not None:
        embedded.append(address.sixtofour)
    elif address.teredo is not None:
        embedded.extend(address.teredo)
    elif address in _COMPATIBLE or any(address in network for network in _NAT64):
        embedded.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    if embedded:
        return all(public(inner) for inner in embedded)
    return address.is_global and not address.is_multicast and address.scope_id is None


def parse(address: str) -> Address:
    """An address as a resolver writes it."""
    return ip_address(address)
