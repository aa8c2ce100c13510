"""Restrict connections to tenants' addresses by the egress rules of a launch."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote, urlsplit

from daggers.v1 import spec_pb2
from urllib3.util import make_headers

from chassis.egress.addresses import PORTS, EgressRules, refusal
from chassis.egress.pools import Judge, Pools, Target, pools, refuse, resolve
from chassis.egress.proxies import Proxies
from chassis.logging import logger


def checked_pools(egress: spec_pb2.Egress, name: str, by_proxy: str = "") -> Pools:
    """Build urllib3 pools that check each address they connect to, and raise AddressRefused.

    name: the server's, for people. by_proxy: the URL that a ProxyManager calls through its proxy.
    """
    target = destination(by_proxy) if by_proxy else None
    return pools(EgressRules.parse(egress.hosts, egress.networks), judge(egress, name), by_proxy=target)


def destination(url: str) -> Target:
    """Split a URL into scheme, host and port; 0 for a scheme without a default port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)


def proxy_of(url: str) -> str | None:
    """Return the URL of the proxy that the environment sets for a server; None where it sets none."""
    return Proxies.of_environment().of(*destination(url))


def proxy_credentials(proxy: str) -> dict[str, str]:
    """Return urllib3's headers with the user and password of the proxy's URL; empty where it has none."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    user_and_password = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    headers: dict[str, str] = make_headers(proxy_basic_auth=user_and_password)
    return headers


def resolve_addresses(
    egress: spec_pb2.Egress | None,
    name: str,
    host: str,
    port: int,
    scheme: str = "https",
    *,
    may_be_unknown: bool = False,
) -> list[str]:
    """Resolve a host to the addresses that a client may connect to; it must connect to no others.

    egress: rules; None: an administrator vouches for the host. scheme: http where the client does not
    encrypt. may_be_unknown: a proxy calls the host, and may resolve it where this machine cannot. Raises:
    OSError where it has no address, AddressRefused.
    """
    try:
        resolved = resolve(host, port)
    except (OSError, UnicodeError):
        if not may_be_unknown:
            raise
        resolved = []
    if egress is not None:
        why = refusal(scheme, host, port, resolved, EgressRules.parse(egress.hosts, egress.networks))
        if why is not None:
            judge(egress, name)(why)
    return list(map(str, resolved))


def judge(egress: spec_pb2.Egress, name: str) -> Judge:
    """Return the reaction to a refused address: raise AddressRefused, or log it where rules only warn."""

    @lru_cache(maxsize=8)  # log a repeated reason once
    def log_reason(why: str) -> None:
        logger().warning("egress.refusal_observed", name=name, why=why)

    return refuse if egress.enforce else log_reason
