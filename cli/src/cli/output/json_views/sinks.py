"""Registered sinks and secrets."""

from typing import Any

from daggers.v1 import gateway_pb2, spec_pb2

from daggerclient.daggerfile.sinks import LIMITS, show, shown_secret
from daggerclient.sinkfile import shown_by_team
from daggerspec.keys import every
from daggerspec.kind import Kind
from daggerspec.reference import needed
from daggerspec.sinks import about


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
        "by_team": shown_by_team(what),
    }


def step(what: gateway_pb2.SinkStep) -> dict[str, Any]:
    """What was tried with a sink."""
    return {
        "sink": what.sink,
        "what": what.what,
        "outcome": gateway_pb2.SinkStep.Outcome.Name(what.outcome).removeprefix("OUTCOME_").lower(),
        "reason": what.reason,
        "detail": what.detail,
    }


def kind(name: str, what: Kind) -> dict[str, Any]:
    """A kind of sinks: what it does and promises, and its keys in a dagger file."""
    can = what.CAPABILITIES
    return {
        "kind": name,
        "about": about(what),
        "guarantee": str(can.guarantee),
        "because": can.because,
        "emit_early": can.upserts,
        "repeats_tellable": can.repeats_tellable,
        "records": can.records,
        "max_rows": can.max_rows,
        "max_bytes": can.max_bytes,
        "keys": [
            {"key": key, "needed": needed(inner), "address": inner.address, "about": inner.about}
            for key, inner in every(what.KEYS)
        ],
    }
