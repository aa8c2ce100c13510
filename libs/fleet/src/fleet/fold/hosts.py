"""Hosts of drivers by the control topic: their addresses, registrations and losses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2

from fleet.fold.answers import Code, Refusal, about, missing

AGENT: Final = 2
"""Level of this version's agent, as HostRegistered.agent says it."""
_LAUNCHES: Final = 1
_LAUNCHES_BESIDE: Final = 2
HOST_REGISTERED: Final = "HOST_REGISTERED"
"""Reason of a loss that is refused because the host has registered since."""
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
    cordon: gateway_pb2.HostCordon | None = None
    """That nothing new is placed there, and what a drain has moved (fleet.fold.cordons); None while it takes
    launches. Its messages must not be changed.
    """

    @property
    def is_draining(self) -> bool:
        """True while the daggers of the host move to other hosts."""
        return self.cordon is not None and self.cordon.drains

    @property
    def has_agent(self) -> bool:
        """True when a scheduler there carries out what intents and stops of any leader name."""
        return self._level >= _LAUNCHES and not self.is_gone

    @property
    def launches_beside(self) -> bool:
        """True when the agent there launches shadows and replays that a leader elsewhere intends."""
        return self._level >= _LAUNCHES_BESIDE and not self.is_gone

    @property
    def shares_checkpoints(self) -> bool:
        """True when the host has registered that its checkpoints are where all hosts reach them."""
        return self.registered is not None and self.registered.shared_checkpoints

    @property
    def _level(self) -> int:
        return self.registered.agent if self.registered is not None else 0

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
    """Replace the registration of a host, which begins a new epoch and ends a loss.

    Another boot id than before is a loss of its own: what was launched before this record is dead.
    """
    before = standings.get(event.host, UNREGISTERED)
    loss = (
        Loss(_build_reboot(before.epoch, event), sequence, time)
        if _has_rebooted(before, event)
        else before.loss
    )
    standings[event.host] = replace(before, epoch=sequence, registered=event, register_time=time, loss=loss)


def change_lacks(standings: Standings, event: events_pb2.HostLacksChanged) -> str:
    """Replace what a host lacks, in the epoch that it has; return why not, empty when it was done."""
    before = standings.get(event.host, UNREGISTERED)
    if before.registered is None or event.epoch != before.epoch:
        return f"it is of host epoch {event.epoch}, the newest of {event.host} is {before.epoch}"
    registered = events_pb2.HostRegistered()
    registered.CopyFrom(before.registered)
    registered.lacks[:] = event.lacks
    standings[event.host] = replace(before, registered=registered)
    return ""


def _has_rebooted(before: Standing, event: events_pb2.HostRegistered) -> bool:
    boot_id = before.registered.boot_id if before.registered is not None else ""
    return bool(boot_id and event.boot_id) and boot_id != event.boot_id


def _build_reboot(epoch: int, event: events_pb2.HostRegistered) -> events_pb2.HostGone:
    meta = events_pb2.RequestMeta(actor=event.scheduler_id)
    return events_pb2.HostGone(meta=meta, host=event.host, epoch=epoch, cause=events_pb2.HOST_GONE_CAUSE_BOOT)


def record_loss(standings: Standings, event: events_pb2.HostGone, *, sequence: int, time: datetime) -> None:
    """Replace the newest loss of a host."""
    before = standings.get(event.host, UNREGISTERED)
    standings[event.host] = replace(before, loss=Loss(event, sequence, time))


def refuse_loss(
    standings: Mapping[str, Standing], event: events_pb2.HostGone, *, is_known: bool, leader: int
) -> Refusal | None:
    """Refuse a loss of an unknown host, or of an epoch that is not its newest; return None to accept it.

    is_known: True when the host is in `Fleet.host_names`.
    leader: newest epoch of the schedulers. A scheduler that has been replaced finds no host silent.
    """
    if not is_known:
        return missing("host", event.host)
    epoch = standings.get(event.host, UNREGISTERED).epoch
    if event.leader_epoch and event.leader_epoch != leader:
        metadata = {
            **about("host", event.host),
            "leader_epoch": str(event.leader_epoch),
            "newest": str(leader),
        }
        text = f"another scheduler leads since (epoch {leader}, not {event.leader_epoch})"
        return Refusal(Code.ABORTED, "LEADER_REPLACED", text, metadata)
    if event.epoch == epoch:
        return None
    metadata = {**about("host", event.host), "epoch": str(event.epoch), "newest_epoch": str(epoch)}
    text = (
        f"a scheduler of host {event.host} has registered it since (epoch {epoch}, not {event.epoch}):"
        " it is there; look at it again and decide again"
    )
    return Refusal(Code.ABORTED, HOST_REGISTERED, text, metadata)
