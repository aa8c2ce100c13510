"""Where the logs and rows of a host are read: what its schedulers said of themselves. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from daggers.v1 import events_pb2

KEPT: Final = 3
"""Addresses that are kept for each host: those of a leader, of a standby, and of who was there before."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one scheduler serves."""

    address: str
    """host:port."""
    tls: bool
    scheduler_id: str
    cutover: bool = False
    """Whether it replaces drivers by a cutover."""


Hosts = dict[str, tuple[Endpoint, ...]]
"""By name of the host, the newest first."""


def serving(hosts: Hosts, said: events_pb2.HostServing) -> None:
    """A scheduler says where it serves; an address is its newest owner's."""
    others = [host for host in hosts.get(said.host, ()) if host.address != said.address]
    endpoint = Endpoint(said.address, said.tls, said.scheduler_id, said.cutover)
    hosts[said.host] = (endpoint, *others)[:KEPT]
