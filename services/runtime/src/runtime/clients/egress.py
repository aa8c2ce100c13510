"""The way out to addresses of tenants: connections are held to what a launch was told."""

from __future__ import annotations

import logging
from functools import lru_cache

from daggers.v1 import spec_pb2

from chassis.egress.addresses import Allowed
from chassis.egress.pools import Pools, pools, refuse

_log = logging.getLogger(__name__)


def checked(egress: spec_pb2.Egress, what: str) -> Pools:
    """Pools of urllib3 for connections to `what`, as a person knows it. They raise AddressRefused."""
    allowed = Allowed.parse(egress.hosts, egress.networks)

    @lru_cache(maxsize=8)  # a reason that goes on is said once
    def tell(why: str) -> None:
        _log.warning("%s would be refused: %s", what, why)

    return pools(allowed, refuse if egress.enforce else tell)
