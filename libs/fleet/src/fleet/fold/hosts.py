"""Hosts of drivers, as the log has them: where each is read, what it is, and whether it is gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from daggers.v1 import events_pb2

from fleet.fold.answers import Code, Refusal, about, missing

KEPT: Final = 3
"""Addresses that are kept for each host: those of a leader, of a standby, and of who was there before."""


def host_subject(host: str) -> str:
    """Return the subject of records about a host: an older reader takes that of what it does not know for a
    dagger's name, and none has a slash.
    """
    return f"host/{host}"


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


@dataclass(frozen=True, slots=True)
class Loss:
    """The word that a host was gone. It stays when the host returns: launches from before stay dead."""

    event: events_pb2.HostGone
    sequence: int
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What one host is, and whether it is there."""

    epoch: int = 0
    """The host's epoch: sequence of `registered`; 0 where no agent of it has said what it is."""
    registered: events_pb2.HostRegistered | None = None
    """What its newest agent said."""
    register_time: datetime | None = None
    """When."""
    loss: Loss | None = None
    """The newest word that it was gone."""

    @property
    def is_gone(self) -> bool:
        """Whether it is gone, and has not returned."""
        return self.loss is not None and self.loss.sequence > self.epoch

    def has_lost(self, generation: int) -> bool:
        """Whether a launch there is dead, because the host was gone after it."""
        return self.loss is not None and generation < self.loss.sequence


Standings = dict[str, Standing]
"""By name of the host."""
NOTHING_SAID: Final = Standing()
"""Of a host whose agents are older than what they say of it."""


def register(
    standings: Standings, event: events_pb2.HostRegistered, *, sequence: int, time: datetime
) -> None:
    """An agent says what its host is: it is there, and its epoch begins."""
    before = standings.get(event.host, NOTHING_SAID)
    standings[event.host] = replace(before, epoch=sequence, registered=event, register_time=time)


def lose(standings: Standings, event: events_pb2.HostGone, *, sequence: int, time: datetime) -> None:
    """A host is gone."""
    before = standings.get(event.host, NOTHING_SAID)
    standings[event.host] = replace(before, loss=Loss(event, sequence, time))


def refuse_loss(
    standings: Mapping[str, Standing], event: events_pb2.HostGone, *, is_known: bool
) -> Refusal | None:
    """Why a host is not gone; None when it may be. `is_known`: whether the log has the host at all."""
    if not is_known:
        return missing("host", event.host)
    epoch = standings.get(event.host, NOTHING_SAID).epoch
    if event.epoch == epoch:
        return None
    metadata = {**about("host", event.host), "epoch": str(event.epoch), "newest_epoch": str(epoch)}
    text = (
        f"a scheduler of host {event.host} has registered it since (epoch {epoch}, not {event.epoch}):"
        " it is there; look at it again and decide again"
    )
    return Refusal(Code.ABORTED, "HOST_REGISTERED", text, metadata)
