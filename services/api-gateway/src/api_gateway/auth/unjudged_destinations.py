"""What daggers write to whose requests nobody judged, so that none of it has an owner in the log.

So it is of daggers from before destinations had owners, and of a gateway that only observes. Each call asks,
and there are thousands of daggers: what changed since the last one is looked at alone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from daggerspec import defaults, sinks
from daggerspec.destination import Destination
from daggerspec.kind import Asked
from fleet import Dagger, Fleet
from fleet.fold.resolve import Registered

_Named: TypeAlias = dict[tuple[str, str, str], set[str]]


class Unjudged:
    """Destinations of daggers, as their clusters and registered sinks have addresses now."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._until, self._addresses = -1, -1
        self._written: dict[str, tuple[Destination, ...]] = {}
        # Daggers, by kind, container and name of what they write to; those of prefixes apart.
        self._exact: _Named = defaultdict(set)
        self._prefixes: _Named = defaultdict(set)

    def written_by(self, dagger: Dagger) -> tuple[Destination, ...]:
        """What a dagger writes to; nothing where its request was judged."""
        self._refresh()
        return self._written.get(dagger.name, ())

    def like(self, place: Destination) -> list[tuple[Dagger, Destination]]:
        """What living daggers write to that overlaps a place, on whatever server."""
        self._refresh()
        return [
            (dagger, theirs)
            for name in sorted(self._candidates(place))
            if (dagger := self._fleet.living(name)) is not None
            for theirs in self._written[name]
            if theirs.on(place.server).overlaps(place)
        ]

    def _candidates(self, place: Destination) -> set[str]:
        container = (place.kind, place.container)
        looked = [self._exact.get((*container, place.name), set())]
        looked += [names for key, names in self._prefixes.items() if key[:2] == container]
        if place.is_prefix:
            looked += [names for key, names in self._exact.items() if key[:2] == container]
        return set().union(*looked)

    def _refresh(self) -> None:
        """Look at what was asked since the last look; at all where an address is another."""
        catalogue = self._fleet.catalogue
        registered = [entry.sequence for entry in catalogue.clusters.values()]
        registered += [entry.sequence for entry in catalogue.sinks.values()]
        newest = max(registered, default=-1)
        is_same = self._until >= 0 and newest == self._addresses
        changed = self._fleet.requested_since(self._until) if is_same else list(self._fleet.daggers)
        self._until, self._addresses = self._fleet.sequence, newest
        for name in changed:
            self._forget(name)
            dagger = self._fleet.living(name)
            if dagger is not None and not dagger.destinations:
                self._note(dagger)

    def _forget(self, name: str) -> None:
        for place in self._written.pop(name, ()):
            index, key = self._index(place)
            index[key].discard(name)
            if not index[key]:  # names of places are callers' to choose: none stays without a dagger
                del index[key]

    def _note(self, dagger: Dagger) -> None:
        spec = defaults.filled(dagger.name, dagger.spec)
        held = sinks.all_resolved("", Asked(dagger.name, spec, Registered(self._fleet)))
        places = tuple(place for sink, _ in held if (place := sinks.destination(sink)) is not None)
        self._written[dagger.name] = places
        for place in dict.fromkeys(places):
            index, key = self._index(place)
            index[key].add(dagger.name)

    def _index(self, place: Destination) -> tuple[_Named, tuple[str, str, str]]:
        """Where the daggers stand that write to exactly this place, on whatever server."""
        index = self._prefixes if place.is_prefix else self._exact
        return index, (place.kind, place.container, place.name)
