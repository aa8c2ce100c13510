"""Index the destinations of daggers whose requests were never judged, so that none of them has an owner in
the log.

These are daggers from before destinations had owners, and those of a gateway that only observes. Every call
looks here, and there are thousands of daggers: only those that changed since the last look are read.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from daggerspec import defaults, sinks
from daggerspec.destination import Destination
from daggerspec.kind import ValidationContext
from fleet import Dagger, Fleet
from fleet.fold.resolve import FleetCatalogue

_PlaceIndex: TypeAlias = dict[tuple[str, str, str], set[str]]


class UnjudgedDestinations:
    """Destinations of daggers, by the addresses that their clusters and registered sinks have now."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._until, self._addresses = -1, -1
        self._written: dict[str, tuple[Destination, ...]] = {}
        # names of daggers by kind, container and name of their destinations; prefixes apart
        self._exact: _PlaceIndex = defaultdict(set)
        self._prefixes: _PlaceIndex = defaultdict(set)

    def destinations_of(self, dagger: Dagger) -> tuple[Destination, ...]:
        """Return the destinations of a dagger; none where its request was judged."""
        self._refresh()
        return self._written.get(dagger.name, ())

    def find_overlaps(self, place: Destination) -> list[tuple[Dagger, Destination]]:
        """Return destinations of living daggers that overlap a place, on any server, each with its dagger."""
        self._refresh()
        return [
            (dagger, other_place)
            for name in sorted(self._candidates(place))
            if (dagger := self._fleet.living(name)) is not None
            for other_place in self._written[name]
            if other_place.on(place.server).overlaps(place)
        ]

    def _candidates(self, place: Destination) -> set[str]:
        container = (place.kind, place.container)
        name_sets = [self._exact.get((*container, place.name), set())]
        name_sets += [names for key, names in self._prefixes.items() if key[:2] == container]
        if place.is_prefix:
            name_sets += [names for key, names in self._exact.items() if key[:2] == container]
        return set().union(*name_sets)

    def _refresh(self) -> None:
        """Index daggers requested since the last call; all of them where an address has changed."""
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
            # callers choose the names of places: entries without daggers would fill memory
            if not index[key]:
                del index[key]

    def _note(self, dagger: Dagger) -> None:
        spec = defaults.fill_defaults(dagger.name, dagger.spec)
        resolved = sinks.all_resolved("", ValidationContext(dagger.name, spec, FleetCatalogue(self._fleet)))
        places = tuple(place for sink, _ in resolved if (place := sinks.destination(sink)) is not None)
        self._written[dagger.name] = places
        for place in dict.fromkeys(places):
            index, key = self._index(place)
            index[key].add(dagger.name)

    def _index(self, place: Destination) -> tuple[_PlaceIndex, tuple[str, str, str]]:
        """Return the index and the key of the daggers that write to exactly this place, on any server."""
        index = self._prefixes if place.is_prefix else self._exact
        return index, (place.kind, place.container, place.name)
