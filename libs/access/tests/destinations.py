"""What a team's dagger writes to, by who owns that: whether it may be asked for, launched, and read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Final

from daggers.v1 import access_pb2, events_pb2, spec_pb2
from libs.spec.tests.spec_destinations import CASES
from libs.spec.tests.spec_secrets import Known

from api_gateway.auth.destination_ownership import Ownership
from chassis.egress.addresses import Address
from chassis.errors import ApiError
from daggerspec import sinks
from daggerspec.destination import Destination
from daggerspec.kind import ValidationContext
from eventlog.testing import given
from fleet import Fleet
from fleet.fold import ownership

META: Final = events_pb2.RequestMeta(actor="root")
TEAM, OTHER = "pricing", "delivery"
ALIAS: Final = "another-name"
BY_ALIAS: Final = "another team's, by another name of the server"
HEAD: Final = """## What a dagger may write to
A dagger of the team `pricing`, by the owner of what its sink writes to. `yes`: it may be asked for (Validate,
plan, create, update, apply), launched, and its rows read; `·`: none of them; else what may be. The fold,
which judges launches, knows names alone; gateways, who judge all else, look up what they stand for.
"""


def within(place: Destination) -> Destination:
    """All that begins as the place does, but for its last letter."""
    return replace(place, name=place.name[:-1], is_prefix=True)


def part(place: Destination) -> Destination:
    """One of the places that begin as this one, which ends with a value, does."""
    return replace(place, name=f"{place.name}x", is_prefix=False) if place.is_prefix else place


OWNED: Final[Mapping[str, Callable[[Destination], tuple[Destination, str] | None]]] = {
    "nobody's": lambda _: None,
    "its team's": lambda place: (place, TEAM),
    "another team's": lambda place: (place, OTHER),
    "within another team's": lambda place: (within(place), OTHER),
    "a part is another team's": lambda place: (part(place), OTHER),
    "another team's whole container": lambda place: (place.whole(), OTHER),
    BY_ALIAS: lambda place: (
        place.on(f"{ALIAS}:{_port(place)}"),
        OTHER,
    ),
}
"""What has an owner, and which, by who that is to the dagger."""


def _port(place: Destination) -> str:
    return place.server.rpartition(":")[2]


async def _addresses(server: str) -> Collection[Address]:
    """One address for all names: that of the server, and its other name's."""
    return [ip_address("10.1.2.3")] if server else []


def specification(kind: str) -> tuple[spec_pb2.DaggerSpec, spec_pb2.ResolvedSink]:
    """The dagger `fares`, which has one sink of a kind, and that sink with its address."""
    said, _ = CASES[kind][0]
    spec = spec_pb2.DaggerSpec(team=TEAM, cluster="local", sinks=[{kind: said}])
    sinks.fill(spec.sinks[0], "fares", spec)
    return spec, sinks.resolve("", spec.sinks[0], ValidationContext("fares", spec, Known()))[0]


def allowed(kind: str, place: Destination, owned: tuple[Destination, str] | None) -> list[str]:
    """What may be done by a dagger that was there before something that it writes to got this owner."""
    fleet, (spec, sink) = Fleet(), specification(kind)
    events: list[Any] = [
        events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name=team)) for team in (TEAM, OTHER)
    ]
    events.append(events_pb2.DaggerRequested(meta=META, name="fares", spec=spec, destinations=[str(place)]))
    if owned is not None:
        gift = access_pb2.Destination(name=str(owned[0]), team=owned[1])
        events.append(events_pb2.DestinationGiven(meta=META, destination=gift))
    for record in given(*events):
        assert fleet.apply(record).changed, record

    async def judged() -> list[str]:
        judge = Ownership(fleet, _addresses)
        verdicts = {
            "ask": not [wrong async for wrong in judge.violations("spec", "fares", spec, [sink])],
            "launch": ownership.refuse_destination(fleet.catalogue, place, TEAM) is None,
            "read": True,
        }
        try:
            await judge.check_rows(fleet.daggers["fares"])
        except ApiError:
            verdicts["read"] = False
        return [verdict for verdict, is_allowed in verdicts.items() if is_allowed]

    return asyncio.run(judged())


def rows() -> Iterator[str]:
    """A row for each kind."""
    for kind in sinks.names():
        if (place := sinks.destination(specification(kind)[1])) is None:
            continue  # its rows stay with their dagger
        cells = [kind]
        for name, owner in OWNED.items():
            verdicts = allowed(kind, place, owner(place))
            is_nowhere = name == BY_ALIAS and not place.server
            cells.append("-" if is_nowhere else {3: "yes", 0: "·"}.get(len(verdicts)) or ", ".join(verdicts))
        yield f"| {' | '.join(cells)} |"


def table() -> str:
    """The table, with what it says."""
    head = ["kind", *OWNED]
    return "\n".join([HEAD, f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *rows()])
