"""The way out to addresses of tenants: connections are held to what a launch was told."""

from __future__ import annotations

import logging
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from daggers.v1 import spec_pb2
from urllib3.util import make_headers

from chassis.egress.addresses import PORTS, Allowed, refusal
from chassis.egress.pools import Judge, Pools, Target, pools, refuse, resolve
from chassis.egress.proxies import Proxies

_log = logging.getLogger(__name__)


def checked(egress: spec_pb2.Egress, what: str, by_proxy: str = "") -> Pools:
    """Pools of urllib3 for connections to `what`, as a person knows it. They raise AddressRefused.

    by_proxy: the URL of what a ProxyManager calls through its proxy.
    """
    target = destination(by_proxy) if by_proxy else None
    return pools(Allowed.parse(egress.hosts, egress.networks), judge(egress, what), by_proxy=target)


def destination(url: str) -> Target:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)


def proxy_of(url: str) -> str | None:
    """The URL of the proxy by which this process calls a server, by its environment; None: none."""
    return Proxies.of_environment().of(*destination(url))


def credentials_for(proxy: str) -> dict[str, str]:
    """The headers of urllib3 that show a proxy who calls, where its URL says that."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    shown = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    headers: dict[str, str] = make_headers(proxy_basic_auth=shown)
    return headers


def addresses(
    egress: spec_pb2.Egress | None,
    what: str,
    host: str,
    port: int,
    scheme: str = "https",
    *,
    may_be_unknown: bool = False,
) -> list[str]:
    """The addresses of a host, for a client that connects to no others; `scheme` is http where it does not
    encrypt. All of them without `egress`: an administrator vouches for the host.

    may_be_unknown: whether a proxy calls it, which may know it where this machine does not.
    Raises: OSError where it has none, AddressRefused.
    """
    try:
        resolved = resolve(host, port)
    except (OSError, UnicodeError):
        if not may_be_unknown:
            raise
        resolved = []
    if egress is not None:
        why = refusal(scheme, host, port, resolved, Allowed.parse(egress.hosts, egress.networks))
        if why is not None:
            judge(egress, what)(why)
    return list(map(str, resolved))


def judge(egress: spec_pb2.Egress, what: str) -> Judge:
    """Who hears why `what` may not be reached: refuses, or tells the log."""

    @lru_cache(maxsize=8)  # a reason that goes on is said once
    def tell(why: str) -> None:
        _log.warning("%s would be refused: %s", what, why)

    return refuse if egress.enforce else tell
