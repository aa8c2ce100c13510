"""The way out to addresses of tenants: connections are held to what a launch was told."""

from __future__ import annotations

import logging
from functools import lru_cache

from daggers.v1 import spec_pb2

from chassis.egress.addresses import Allowed, refusal
from chassis.egress.pools import Judge, Pools, pools, refuse, resolve

_log = logging.getLogger(__name__)


def checked(egress: spec_pb2.Egress, what: str) -> Pools:
    """Pools of urllib3 for connections to `what`, as a person knows it. They raise AddressRefused."""
    return pools(Allowed.parse(egress.hosts, egress.networks), judge(egress, what))


def addresses(
    egress: spec_pb2.Egress | None, what: str, host: str, port: int, scheme: str = "https"
) -> list[str]:
    """The addresses of a host, for a client that connects to no others; `scheme` is http where it does not
    encrypt. All of them without `egress`: an administrator vouches for the host.

    Raises: OSError where it has none, AddressRefused.
    """
    resolved = resolve(host, port)
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
