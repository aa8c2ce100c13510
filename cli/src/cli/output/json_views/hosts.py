"""Hosts of drivers, and the daggers on them."""

from collections.abc import Iterable
from typing import Any

from daggers.v1 import events_pb2, gateway_pb2

from daggerclient.times import iso

_CAUSES = {events_pb2.HOST_GONE_CAUSE_PERSON: "person"}


def host(what: gateway_pb2.Host) -> dict[str, Any]:
    """A host."""
    said = what.registered if what.HasField("registered") else None
    return {
        "name": what.name,
        "epoch": what.epoch,
        "leads": what.leads,
        "daggers": what.daggers,
        "boot_id": said.boot_id if said else None,
        "version": said.version if said else None,
        "cores": said.cores if said else None,
        "memory_mib": said.memory_mib if said else None,
        "shared_checkpoints": said.shared_checkpoints if said else None,
        "register_time": iso(what.register_time) if what.HasField("register_time") else None,
        "heard_time": iso(what.heard_time) if what.HasField("heard_time") else None,
        "gone": {
            "time": iso(what.gone.time),
            "cause": _CAUSES.get(what.gone.cause),
            "actor": what.gone.actor,
            "message": what.gone.message,
        }
        if what.HasField("gone")
        else None,
    }


def hosted(daggers: Iterable[gateway_pb2.HostedDagger]) -> list[dict[str, Any]]:
    """The daggers on a host."""
    return [
        {
            "name": dagger.name,
            "team": dagger.team,
            "phase": gateway_pb2.Phase.Name(dagger.phase),
            "keeps_state": dagger.keeps_state,
        }
        for dagger in daggers
    ]
