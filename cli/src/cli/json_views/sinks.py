"""Registered sinks and secrets."""

from typing import Any

from daggers.v1 import spec_pb2

from daggerclient.daggerfile.sinks import show, shown_secret
from daggerclient.sinkfile import LIMITS


def secret(what: spec_pb2.Secret) -> dict[str, Any]:
    """A secret; without its place for who may not see that."""
    place = shown_secret(what.place) if what.HasField("place") else None
    return {"name": what.name, "team": what.team, "place": place, "addresses": list(what.addresses)}


def sink(what: spec_pb2.RegisteredSink) -> dict[str, Any]:
    """A registered sink."""
    return {
        "name": what.name,
        "sink": show(what.sink),
        "teams": list(what.teams),
        "limit": {name: getattr(what.limit, name) for name in LIMITS},
        "exempt": what.exempt,
    }
