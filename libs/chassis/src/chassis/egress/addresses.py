"""Rules of the addresses that may be reached: the check against server-side request forgery. Pure.

Hosts are checked by the addresses that they resolve to, whatever their form (decimal, octal, a name that is
rebound), and connections are made to the checked address itself: see `transport` and `pools`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import urlsplit

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

PORTS: Final = {"http": 80, "https": 443}
METADATA: Final = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # AWS, Azure, Google, and who does as they do
            "169.254.170.2",  # AWS, credentials of a task
            "169.254.170.23",  # AWS, credentials of a pod
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "168.63.129.16",  # Azure's wire server, at a public address
        ),
    )
)
"""Addresses of the metadata services of clouds, which reveal secrets: no allowed network includes them."""
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_TRANSLATED: Final = IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_OWN: Final = frozenset({IPv6Address("::"), IPv6Address("::1")})
# What `is_global` of this Python says is of the public internet, and is not.
_RESERVED: Final = (
    IPv6Network("fec0::/10"),  # private, of old
    IPv6Network("3fff::/20"),  # documentation
    IPv6Network("5f00::/16"),  # segment routing
    IPv4Network("192.88.99.0/24"),  # relays of 6to4, of old
)


_VOUCHED: Final = "is neither in DAGGERS_ALLOWED_HOSTS nor in DAGGERS_ALLOWED_NETWORKS"


class AddressRefused(Exception):  # noqa: N818 - reads as what happened
    """Nothing may be sent there; the text is one sentence without the address."""


@dataclass(frozen=True, slots=True)
class EgressRules:
    """Hosts and networks that an administrator vouches for, beside the public internet."""

    hosts: frozenset[tuple[str, int | None]] = frozenset()
    """Host as it stands in a URL, lower case, and its port; None: any port. DAGGERS_ALLOWED_HOSTS."""
    networks: tuple[Network, ...] = ()
    """Networks in which plain http is allowed, too. DAGGERS_ALLOWED_NETWORKS."""
    plain: bool = False
    """True if plain http is allowed everywhere."""

    @classmethod
    def parse(cls, text: str, networks: str = "") -> EgressRules:
        """Parse `host[:port], …`, with IPv6 addresses in brackets, and `10.0.0.0/8, …`.

        Raises: ValueError naming the entry.
        """
        hosts = set()
        for entry in _split(text):
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
        return cls(frozenset(hosts), tuple(map(_network, _split(networks))))

    def has(self, host: str, port: int) -> bool:
        """Tell whether the host is vouched for at this port."""
        return not self.hosts.isdisjoint({(host.lower(), None), (host.lower(), port)})


INSIDE: Final = EgressRules(
    networks=tuple(
        map(
            ip_network,
            (
                *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8"),
                *("fc00::/7", "::1/128"),
            ),
        )
    ),
    plain=True,
)
"""For calls of the platform's own machines: they stand anywhere but where a cloud tells secrets."""


def refusal(
    scheme: str, host: str, port: int, addresses: Sequence[Address], allowed: EgressRules
) -> str | None:
    """Explain in a sentence why a host with these addresses may not be reached; None when it may.

    One forbidden address among several is enough. The sentence names no host: URLs may be secrets.
    """
    if allowed.has(host, port):
        return None
    inside = bool(addresses) and all(within(address, allowed) for address in addresses)
    if scheme != "https" and not allowed.plain and not inside:
        return f"it is not https, and its host {_VOUCHED}"
    if not all(public(address) or within(address, allowed) for address in addresses):
        return f"its host has a private, loopback or reserved address, and {_VOUCHED}"
    return None


def public(address: Address) -> bool:
    """Tell whether an address is of the public internet; addresses that embed others are judged by those."""
    if embedded := _embedded_addresses(address):
        return all(map(public, embedded))
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    if address in METADATA or any(address in network for network in _RESERVED):
        return False
    return address.is_global and not address.is_multicast


def within(address: Address, allowed: EgressRules) -> bool:
    """Tell whether an address, or each that it embeds, is in a network that is vouched for."""
    if embedded := _embedded_addresses(address):
        return all(within(address, allowed) for address in embedded)
    return address not in METADATA and any(address in network for network in allowed.networks)


def _embedded_addresses(address: Address) -> Sequence[IPv4Address]:
    """List the addresses that an address embeds; empty for a plain one."""
    if isinstance(address, IPv4Address) or address in _OWN:
        return ()
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if any(address in network for network in (_COMPATIBLE, _TRANSLATED, *_NAT64)):
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    return ()


def parse(address: str) -> Address:
    """Parse an address of a resolver."""
    return ip_address(address)


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a network such as 10.0.0.0/8") from None


def _split(text: str) -> Iterator[str]:
    return filter(None, (part.strip() for part in text.split(",")))
