"""Hosts of drivers by the control topic: their addresses, registrations and losses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from daggers.v1 import events_pb2

from fleet.fold.answers import Code, Refusal, about, missing

MAX_ENDPOINTS: Final = 3
"""Endpoints of each host: those of a leader, a standby, and a predecessor."""


def host_subject(host: str) -> str:
    """Return the subject of records about a host.

    It has a slash, as no dagger's name has: older readers take the subject of an unknown event for a dagger.
    """
    return f"host/{host}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address at which a scheduler serves HostService."""

    address: str
    """host:port."""
    tls: bool
    scheduler_id: str
    cutover: bool = False
    """True when the scheduler replaces drivers by a cutover."""


Hosts = dict[str, tuple[Endpoint, ...]]
"""Endpoints by name of the host, the newest first."""


def add_endpoint(hosts: Hosts, event: events_pb2.HostServing) -> None:
    """Add a scheduler's endpoint as the newest of its host; it replaces an older one with its address."""
    others = [host for host in hosts.get(event.host, ()) if host.address != event.address]
    endpoint = Endpoint(event.address, event.tls, event.scheduler_id, event.cutover)
    hosts[event.host] = (endpoint, *others)[:MAX_ENDPOINTS]


@dataclass(frozen=True, slots=True)
class Loss:
    """Record that a host was gone. It outlives the host's return: launches from before stay dead."""

    event: events_pb2.HostGone
    sequence: int
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Newest registration and newest loss of a host."""

    epoch: int = 0
    """Sequence of the record of `registered`; 0 without one."""
    registered: events_pb2.HostRegistered | None = None
    """Resources of the host, as its newest scheduler registered them; None before it does."""
    register_time: datetime | None = None
    """Time of the record of `registered`."""
    loss: Loss | None = None
    """Newest loss, also of a host that has returned."""

    @property
    def is_gone(self) -> bool:
        """True when the host has not registered since its loss."""
        return self.loss is not None and self.loss.sequence > self.epoch

    def has_lost(self, generation: int) -> bool:
        """Tell whether a launch on the host is dead, because the host was gone after it.

        generation: sequence of the launch.
        """
        return self.loss is not None and generation < self.loss.sequence


Standings = dict[str, Standing]
"""Standing of each host, by name."""
UNREGISTERED: Final = Standing()
"""Standing of a host whose schedulers are older than HostRegistered."""


def record_registration(
    standings: Standings, event: events_pb2.HostRegistered, *, sequence: int, time: datetime
) -> None:
    """Replace the registration of a host, which begins a new epoch and ends a loss."""
    before = standings.get(event.host, UNREGISTERED)
    standings[event.host] = replace(before, epoch=sequence, registered=event, register_time=time)


def record_loss(standings: Standings, event: events_pb2.HostGone, *, sequence: int, time: datetime) -> None:
    """Replace the newest loss of a host."""
    before = standings.get(event.host, UNREGISTERED)
    standings[event.host] = replace(before, loss=Loss(event, sequence, time))


def refuse_loss(
    standings: Mapping[str, Standing], event: events_pb2.HostGone, *, is_known: bool
) -> Refusal | None:
    """Refuse a loss of an unknown host, or of an epoch that is not its newest; return None to accept it.

    is_known: True when the host is in `Fleet.host_names`.
    """
    if not is_known:
        return missing("host", event.host)
    epoch = standings.get(event.host, UNREGISTERED).epoch
    if event.epoch == epoch:
        return None
    metadata = {**about("host", event.host), "epoch": str(event.epoch), "newest_epoch": str(epoch)}
    text = (
        f"a scheduler of host {event.host} has registered it since (epoch {epoch}, not {event.epoch}):"
        " it is there; look at it again and decide again"
    )
    return Refusal(Code.ABORTED, "HOST_REGISTERED", text, metadata)
