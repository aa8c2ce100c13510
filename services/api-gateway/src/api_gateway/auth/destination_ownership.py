"""Judge whether daggers write only where their team may: another team's destination is theirs by any name of
its server.

The log says who owns a destination (`fleet.fold.ownership`). A dagger whose request was never judged, as
before destinations had owners, owns what it writes to while it lives, unless an older dagger of another team
writes there. Containers of a cluster's own address belong to the platform until they are given to a team; the
container that the cluster names is everybody's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from itertools import takewhile
from typing import Final

from daggers.v1 import access_pb2, spec_pb2

from api_gateway.auth.unjudged_destinations import UnjudgedDestinations
from api_gateway.state.writer import refusal_error
from chassis.egress.addresses import Address
from daggerspec import sinks
from daggerspec.destination import Destination
from daggerspec.violation import Violation
from fleet import Dagger, Fleet, Refusal
from fleet.fold.ownership import FOREIGN, build_foreign_refusal, owned_by_other, read

_SPARE: Final = 100
"""Number of server names that may be remembered beyond the number of destinations."""
BOUNDLESS: Final = "DESTINATION_BOUNDLESS"
Addresses = Callable[[str], Awaitable[Collection[Address]]]
"""Resolves host:port to its addresses; none where they cannot be resolved here."""


class Ownership:
    """Judges the destinations of sinks by the owners of the catalogue."""

    def __init__(self, fleet: Fleet, addresses: Addresses) -> None:
        self._fleet, self._addresses = fleet, addresses
        self._unjudged_destinations = UnjudgedDestinations(fleet)
        self._servers: defaultdict[str, set[str]] = defaultdict(set)
        self._servers_until = -1

    async def violations(
        self, path: str, name: str, spec: spec_pb2.DaggerSpec, resolved_sinks: Sequence[spec_pb2.ResolvedSink]
    ) -> AsyncIterator[Violation]:
        """Yield a violation for each destination of dagger `name` that its team may not write to;
        `resolved_sinks` are its sinks.
        """
        living = self._fleet.living(name)
        since = living.create_sequence if living else None
        for number, sink in enumerate(resolved_sinks):
            place = sinks.destination(sink)
            if place is None:
                continue
            field = f"{path}.sinks[{number}].{place.kind}"
            if self._is_platforms(place, sink, spec):
                text = (
                    f"{place} is in a container of cluster {spec.cluster}'s own address that was given to no"
                    f" team: an administrator can give it (`daggers team give '{place.whole()}' {spec.team}`)"
                )
                yield Violation(field, text, FOREIGN, metadata={"destination": str(place)})
            elif self._is_boundless(place, sink, spec.team):
                text = (
                    "begins with a value of the row, so it may be anything on a server that others share:"
                    " begin with a text of your own, or have an administrator give you all of it"
                    f" (`daggers team give '{place.whole()}' {spec.team}`)"
                )
                yield Violation(field, text, BOUNDLESS, metadata={"destination": str(place)})
            elif (why := await self._refusal(place, spec.team, name, since)) is not None:
                is_topic = place.kind == "kafka"  # which a sink of another kind cannot name
                field, reason = (f"{field}.topic", "FOREIGN_TOPIC") if is_topic else (field, why.reason)
                yield Violation(field, why.detail, reason, metadata=why.metadata)

    async def check_rows(self, dagger: Dagger) -> None:
        """Check that a dagger writes to no other team's destination, before its rows are read there.

        Raises: ApiError.
        """
        async for why in self._conflicts(dagger):
            raise refusal_error(why)

    async def conflicts(self) -> AsyncIterator[tuple[Dagger, Refusal]]:
        """Yield living daggers that write to another team's destination, by name, each with the refusal."""
        for name in sorted(self._fleet.daggers):
            if (dagger := self._fleet.living(name)) is not None:
                async for why in self._conflicts(dagger):
                    yield dagger, why
            await asyncio.sleep(0)  # other calls are served meanwhile

    async def _conflicts(self, dagger: Dagger) -> AsyncIterator[Refusal]:
        for place in self.find_destinations(dagger):
            why = await self._refusal(place, dagger.spec.team, dagger.name, dagger.create_sequence)
            if why is not None:
                yield why

    async def _refusal(self, place: Destination, team: str, name: str, since: int | None) -> Refusal | None:
        """Return why `team` may not write to a place; None where it may.

        `since`: sequence at which the asking dagger was created; None for one that does not exist yet.
        """
        for server in sorted({*self._servers_of(place.kind), place.server}):
            owned = owned_by_other(self._fleet.catalogue, place.on(server), team)
            if owned is not None and await self._is_same(server, place.server):
                return build_foreign_refusal(str(place), owned.value)
        for other, other_place in self._unjudged_destinations.find_overlaps(place):
            is_older = other.name != name and (since is None or other.create_sequence < since)
            if other.spec.team != team and is_older and await self._is_same(other_place.server, place.server):
                return build_foreign_refusal(
                    str(place), access_pb2.Destination(name=str(other_place), team=other.spec.team)
                )
        return None

    async def aliases(self, place: Destination) -> AsyncIterator[Destination]:
        """Yield the place under each name of its server that owned destinations use, its own among them."""
        for server in sorted({*self._servers_of(place.kind), place.server}):
            if await self._is_same(server, place.server):
                yield place.on(server)

    def find_unjudged_writers(self, place: Destination) -> list[Dagger]:
        """Return living daggers whose requests were never judged and that may write to a place."""
        return [dagger for dagger, _ in self._unjudged_destinations.find_overlaps(place)]

    def _servers_of(self, kind: str) -> set[str]:
        """Return the servers of a kind that owned destinations name, or named."""
        destinations = self._fleet.catalogue.destinations
        entries = destinations.items()
        # many have been released since
        if sum(map(len, self._servers.values())) > _SPARE + len(destinations):
            self._servers.clear()
            self._servers_until = -1
        # the catalogue keeps the order of the log: new destinations stand at its end
        for text, _ in takewhile(lambda item: item[1].since > self._servers_until, reversed(entries)):
            if (place := read(text)) is not None:
                self._servers[place.kind].add(place.server)
        self._servers_until = self._fleet.sequence
        return self._servers[kind]

    async def _is_same(self, one: str, other: str) -> bool:
        """Return whether two servers are one: they share a name, or an address at one port."""
        parts = one.split(","), other.split(",")
        if not set(parts[0]).isdisjoint(parts[1]):
            return True
        for mine in parts[0]:
            for theirs in parts[1]:
                if mine.rpartition(":")[2] == theirs.rpartition(":")[2] and "" not in (mine, theirs):
                    resolved = set(await self._addresses(mine)), set(await self._addresses(theirs))
                    if not resolved[0].isdisjoint(resolved[1]) or all(map(_is_loopback, resolved)):
                        return True
        return False

    def _is_platforms(
        self, place: Destination, sink: spec_pb2.ResolvedSink, spec: spec_pb2.DaggerSpec
    ) -> bool:
        """Return whether a place is in a container of the cluster's address that is neither the cluster's own
        nor given.
        """
        cluster = self._fleet.clusters.get(spec.cluster)
        shared = sinks.shared_container(place.kind, cluster.value) if cluster else None
        if shared is None or (shared.server, sink.sink.registered) != (place.server, ""):
            return False
        is_given = str(place.whole()) in self._fleet.catalogue.destinations
        return shared.container != place.container and not is_given

    def _is_boundless(self, place: Destination, sink: spec_pb2.ResolvedSink, team: str) -> bool:
        """Return whether a place is all of a shared server's container, which was not given to the team."""
        is_shared = bool(sink.sink.registered) or not sink.HasField("egress")
        if not is_shared or not place.is_prefix or place.name.strip("/"):
            return False
        owned = self._fleet.catalogue.destinations.get(str(place.whole()))
        return owned is None or owned.value.team != team

    def find_destinations(self, dagger: Dagger) -> Iterable[Destination]:
        """Return a dagger's destinations as its request names them, or else by the addresses of its clusters
        and sinks now.
        """
        if not dagger.destinations:
            return self._unjudged_destinations.destinations_of(dagger)
        return filter(None, map(read, dagger.destinations))


def destinations(resolved_sinks: Sequence[spec_pb2.ResolvedSink]) -> tuple[str, ...]:
    """Return the destinations of sinks as text, each once, as a request records them."""
    places = (sinks.destination(sink) for sink in resolved_sinks)
    return tuple(dict.fromkeys(str(place) for place in places if place is not None))


def _is_loopback(addresses: Collection[Address]) -> bool:
    return bool(addresses) and all(address.is_loopback or address.is_unspecified for address in addresses)
