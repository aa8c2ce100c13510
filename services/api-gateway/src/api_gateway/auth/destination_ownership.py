"""Whether daggers write where their team may: what another team owns is not theirs by any name of its server.

A destination is owned as the log says (`fleet.fold.ownership`). Where a dagger's request was never judged, as
before destinations had owners, what it writes to is its team's while it lives, unless an older dagger of
another team writes there. Containers of a cluster's own address are the platform's until they are given to a
team; the one that the cluster names is everybody's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from itertools import takewhile
from typing import Final

from daggers.v1 import access_pb2, spec_pb2

from api_gateway.auth.unjudged_destinations import Unjudged
from api_gateway.state.writer import refused
from chassis.egress.addresses import Address
from daggerspec import sinks
from daggerspec.destination import Destination
from daggerspec.violation import Violation
from fleet import Dagger, Fleet, Refusal
from fleet.fold.ownership import FOREIGN, foreign, owned_by_other, read

_SPARE: Final = 100
"""So many servers more may be known than there are destinations."""
BOUNDLESS: Final = "DESTINATION_BOUNDLESS"
Addresses = Callable[[str], Awaitable[Collection[Address]]]
"""The addresses of host:port; none where they are not known here."""


class Ownership:
    """Judges what sinks write to."""

    def __init__(self, fleet: Fleet, addresses: Addresses) -> None:
        self._fleet, self._addresses = fleet, addresses
        self._unjudged = Unjudged(fleet)
        self._servers: defaultdict[str, set[str]] = defaultdict(set)
        self._servers_until = -1

    async def violations(
        self, path: str, name: str, spec: spec_pb2.DaggerSpec, held: Sequence[spec_pb2.ResolvedSink]
    ) -> AsyncIterator[Violation]:
        """What is another team's of what the dagger `name` writes to; `held` are its sinks, resolved."""
        living = self._fleet.living(name)
        since = living.create_sequence if living else None
        for number, sink in enumerate(held):
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
        """Raises: ApiError where a dagger writes to what is another team's, as is what is read there."""
        async for why in self._conflicts(dagger):
            raise refused(why)

    async def conflicts(self) -> AsyncIterator[tuple[Dagger, Refusal]]:
        """Living daggers that write to what is another team's, by name, each with why it may not."""
        for name in sorted(self._fleet.daggers):
            if (dagger := self._fleet.living(name)) is not None:
                async for why in self._conflicts(dagger):
                    yield dagger, why
            await asyncio.sleep(0)  # others are served meanwhile

    async def _conflicts(self, dagger: Dagger) -> AsyncIterator[Refusal]:
        for place in self.written(dagger):
            why = await self._refusal(place, dagger.spec.team, dagger.name, dagger.create_sequence)
            if why is not None:
                yield why

    async def _refusal(self, place: Destination, team: str, name: str, since: int | None) -> Refusal | None:
        """Why a place is another team's; `since` is when the dagger was created that asks, None: not yet."""
        for server in sorted({*self._servers_of(place.kind), place.server}):
            owned = owned_by_other(self._fleet.catalogue, place.on(server), team)
            if owned is not None and await self._is_same(server, place.server):
                return foreign(str(place), owned.value)
        for other, theirs in self._unjudged.like(place):
            is_older = other.name != name and (since is None or other.create_sequence < since)
            if other.spec.team != team and is_older and await self._is_same(theirs.server, place.server):
                return foreign(str(place), access_pb2.Destination(name=str(theirs), team=other.spec.team))
        return None

    async def aliases(self, place: Destination) -> AsyncIterator[Destination]:
        """A place by each name of its server under which something has an owner, its own among them."""
        for server in sorted({*self._servers_of(place.kind), place.server}):
            if await self._is_same(server, place.server):
                yield place.on(server)

    def unjudged(self, place: Destination) -> list[Dagger]:
        """Living daggers whose requests nobody judged, and that may write to a place."""
        return [dagger for dagger, _ in self._unjudged.like(place)]

    def _servers_of(self, kind: str) -> set[str]:
        """The servers of a kind on which something has, or had, an owner."""
        destinations = self._fleet.catalogue.destinations
        entries = destinations.items()
        if sum(map(len, self._servers.values())) > _SPARE + len(destinations):  # of many that were released
            self._servers.clear()
            self._servers_until = -1
        # What is new stands at the end.
        for text, _ in takewhile(lambda item: item[1].since > self._servers_until, reversed(entries)):
            if (place := read(text)) is not None:
                self._servers[place.kind].add(place.server)
        self._servers_until = self._fleet.sequence
        return self._servers[kind]

    async def _is_same(self, one: str, other: str) -> bool:
        """Whether two servers are one: by name, or by what their names stand for, at one port."""
        parts = one.split(","), other.split(",")
        if not set(parts[0]).isdisjoint(parts[1]):
            return True
        for mine in parts[0]:
            for theirs in parts[1]:
                if mine.rpartition(":")[2] == theirs.rpartition(":")[2] and "" not in (mine, theirs):
                    known = set(await self._addresses(mine)), set(await self._addresses(theirs))
                    if not known[0].isdisjoint(known[1]) or all(map(_is_loopback, known)):
                        return True
        return False

    def _is_platforms(
        self, place: Destination, sink: spec_pb2.ResolvedSink, spec: spec_pb2.DaggerSpec
    ) -> bool:
        """Whether it is in another container than the cluster's own, and that was given to nobody."""
        cluster = self._fleet.clusters.get(spec.cluster)
        shared = sinks.shared_container(place.kind, cluster.value) if cluster else None
        if shared is None or (shared.server, sink.sink.registered) != (place.server, ""):
            return False
        is_given = str(place.whole()) in self._fleet.catalogue.destinations
        return shared.container != place.container and not is_given

    def _is_boundless(self, place: Destination, sink: spec_pb2.ResolvedSink, team: str) -> bool:
        """Whether it is all of a container of a registered server that was not given to the team."""
        is_shared = bool(sink.sink.registered) or not sink.HasField("egress")
        if not is_shared or not place.is_prefix or place.name.strip("/"):
            return False
        owned = self._fleet.catalogue.destinations.get(str(place.whole()))
        return owned is None or owned.value.team != team

    def written(self, dagger: Dagger) -> Iterable[Destination]:
        """What a dagger writes to, as its request said, or else as its addresses are now."""
        if not dagger.destinations:
            return self._unjudged.written_by(dagger)
        return filter(None, map(read, dagger.destinations))


def destinations(held: Sequence[spec_pb2.ResolvedSink]) -> tuple[str, ...]:
    """What sinks write to, each once, as a request says it."""
    places = (sinks.destination(sink) for sink in held)
    return tuple(dict.fromkeys(str(place) for place in places if place is not None))


def _is_loopback(addresses: Collection[Address]) -> bool:
    return bool(addresses) and all(address.is_loopback or address.is_unspecified for address in addresses)
