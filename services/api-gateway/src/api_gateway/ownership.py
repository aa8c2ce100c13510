"""Whether daggers write where their team may: what another team owns is not theirs by any name of its server.

A destination is owned as the log says (`fleet.ownership`). Where a dagger's request was never judged, as
before destinations had owners, what it writes to is its team's while it lives, unless an older dagger of
another team writes there. Containers of a cluster's own address are the platform's until they are given to a
team; the one that the cluster names is everybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from daggers.v1 import access_pb2, spec_pb2

from api_gateway.writer import refused
from chassis.egress.addresses import Address
from daggerspec import defaults, sinks
from daggerspec.destination import Destination
from daggerspec.kind import Asked
from daggerspec.violation import Violation
from fleet import Dagger, Fleet, Refusal
from fleet.ownership import FOREIGN, foreign, overlapping, owned_by_other, read
from fleet.phases import DELETED
from fleet.resolve import Registered

BOUNDLESS: Final = "DESTINATION_BOUNDLESS"
Addresses = Callable[[str], Awaitable[Collection[Address]]]
"""The addresses of host:port; none where they are not known here."""


@dataclass(frozen=True, slots=True)
class _Unjudged:
    """What a dagger writes to whose request nobody judged."""

    version: int
    catalogue: int
    """Sequence of the newest registration of an address when this was found."""
    destinations: tuple[Destination, ...]


class Ownership:
    """Judges what sinks write to."""

    def __init__(self, fleet: Fleet, addresses: Addresses) -> None:
        self._fleet, self._addresses = fleet, addresses
        self._unjudged: dict[str, _Unjudged] = {}

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
                    f" team: an administrator can give it (`daggers team give '{_whole(place)}' {spec.team}`)"
                )
                yield Violation(field, text, FOREIGN, metadata={"destination": str(place)})
            elif self._is_boundless(place, sink, spec.team):
                text = (
                    "begins with a value of the row, so it may be anything on a server that others share: begin"
                    " with a text of your own, or have an administrator give you all of it"
                    f" (`daggers team give '{_whole(place)}' {spec.team}`)"
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
        for place in self._written(dagger):
            why = await self._refusal(place, dagger.spec.team, dagger.name, dagger.create_sequence)
            if why is not None:
                yield why

    async def _refusal(self, place: Destination, team: str, name: str, since: int | None) -> Refusal | None:
        """Why a place is another team's; `since` is when the dagger was created that asks, None: not yet."""
        for server in sorted(self._servers(place.kind) | {place.server}):
            same = replace(place, server=server)
            owned = owned_by_other(self._fleet.catalogue, same, team)
            if owned is not None and await self._is_same(server, place.server):
                return foreign(str(place), owned.value)
        for other, theirs in self._of_unjudged(team, name, since):
            overlaps = replace(theirs, server=place.server).overlaps(place)
            if overlaps and await self._is_same(theirs.server, place.server):
                return foreign(str(place), access_pb2.Destination(name=str(theirs), team=other.spec.team))
        return None

    def _servers(self, kind: str) -> set[str]:
        """The servers of a kind that have a destination with an owner."""
        begin = f"{kind}://"
        texts = (text for text in self._fleet.catalogue.destinations if text.startswith(begin))
        cut = {text[len(begin) :].partition("/")[0] for text in texts}
        return {place.server for part in cut if (place := read(f"{begin}{part}//")) is not None}

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
        if shared.container == place.container:
            return False
        return not any(
            read(entry.value.name) == _whole(place) for entry in overlapping(self._fleet.catalogue, place)
        )

    def _is_boundless(self, place: Destination, sink: spec_pb2.ResolvedSink, team: str) -> bool:
        """Whether it is all of a container of a registered server that was not given to the team."""
        is_shared = bool(sink.sink.registered) or not sink.HasField("egress")
        if not is_shared or not place.is_prefix or place.name.strip("/"):
            return False
        owned = self._fleet.catalogue.destinations.get(str(_whole(place)))
        return owned is None or owned.value.team != team

    def _of_unjudged(self, team: str, name: str, since: int | None) -> Iterator[tuple[Dagger, Destination]]:
        """What living daggers of other teams write to that nobody judged, of those older than `since`."""
        for other in self._fleet.daggers.values():
            if other.destinations or other.name == name or other.spec.team == team:
                continue
            if other.phase != DELETED and (since is None or other.create_sequence < since):
                yield from ((other, place) for place in self._written(other))

    def _written(self, dagger: Dagger) -> tuple[Destination, ...]:
        """What a dagger writes to, as its request said, or else as its addresses are now."""
        if dagger.destinations:
            return tuple(place for text in dagger.destinations if (place := read(text)) is not None)
        catalogue = self._fleet.catalogue
        sequences = [entry.sequence for entry in catalogue.clusters.values()]
        newest = max([*sequences, *(entry.sequence for entry in catalogue.sinks.values())], default=-1)
        known = self._unjudged.get(dagger.name)
        if known is None or (known.version, known.catalogue) != (dagger.version, newest):
            spec = defaults.filled(dagger.name, dagger.spec)
            held = sinks.all_resolved("", Asked(dagger.name, spec, Registered(self._fleet)))
            places = (sinks.destination(sink) for sink, _ in held)
            known = _Unjudged(dagger.version, newest, tuple(place for place in places if place))
            self._unjudged[dagger.name] = known
        return known.destinations


def destinations(held: Sequence[spec_pb2.ResolvedSink]) -> tuple[str, ...]:
    """What sinks write to, each once, as a request says it."""
    places = (sinks.destination(sink) for sink in held)
    return tuple(dict.fromkeys(str(place) for place in places if place is not None))


def _whole(place: Destination) -> Destination:
    """All that is in the container of a destination."""
    return replace(place, name="", is_prefix=True)


def _is_loopback(addresses: Collection[Address]) -> bool:
    return bool(addresses) and all(address.is_loopback or address.is_unspecified for address in addresses)
