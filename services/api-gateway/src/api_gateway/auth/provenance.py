"""Find the requests by which a dagger's bytes were written: they say what was sensitive at that time.

A launch is identified by its generation, and runs the newest revision before it. A destination may contain
rows of earlier daggers and of other ones of the team: the log remembers who has written there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from daggers.v1 import events_pb2

from api_gateway.auth.destination_ownership import Ownership
from api_gateway.watch_limits import damage_error, unavailable_error
from eventlog import Log, LogDamaged, LogUnavailable
from fleet import Dagger, Fleet
from fleet.fold.dagger import REVISIONS
from fleet.fold.ownership import ELSEWHERE, read, writers

_CACHED_REQUESTS: Final = 1_024


class Provenance:
    """Finds requests of daggers. Raises, from every method that reads the log: ApiError where it cannot be
    read.
    """

    def __init__(self, fleet: Fleet, log: Log, ownership: Ownership) -> None:
        self._fleet, self._log, self._ownership = fleet, log, ownership
        self._requests_cache: dict[int, events_pb2.DaggerRequested] = {}

    async def of_generations(
        self, dagger: Dagger, generations: Iterable[int]
    ) -> dict[int, events_pb2.DaggerRequested | None]:
        """Return, by generation of a launch, the request that it runs; None where that
        revision is forgotten.
        """
        sequences = {generation: _revision(dagger, generation) for generation in generations}
        requests = await self.requests(sequence for sequence in sequences.values() if sequence)
        return {generation: requests.get(sequence) for generation, sequence in sequences.items()}

    async def of_log(self, dagger: Dagger) -> list[events_pb2.DaggerRequested]:
        """Return the requests of a dagger's newest launch and its newest revision: one, or two."""
        sequences = {_revision(dagger, dagger.generation), dagger.revisions[-1].sequence} - {0}
        return list((await self.requests(sequences)).values())

    async def newest(self, dagger: Dagger) -> events_pb2.DaggerRequested:
        """Return the request of a dagger's newest revision."""
        sequence = dagger.revisions[-1].sequence
        return (await self.requests([sequence]))[sequence]

    async def of_all(self, dagger: Dagger) -> list[events_pb2.DaggerRequested] | None:
        """Return the requests of all revisions of a dagger; None where some are forgotten."""
        sequences = _all_of(dagger)
        return None if ELSEWHERE in sequences else list((await self.requests(sequences)).values())

    async def of_rows(self, dagger: Dagger) -> list[events_pb2.DaggerRequested] | None:
        """Return the requests whose rows may lie at a dagger's destinations; None where some
        are forgotten.
        """
        own = await self.of_log(dagger)
        sequences = {_revision(dagger, dagger.generation), dagger.revisions[-1].sequence} - {0}
        places = {place for request in own for place in map(read, request.destinations) if place is not None}
        # never judged: the destinations of all its revisions
        if not all(request.destinations for request in own):
            places |= set(self._ownership.find_destinations(dagger))
            sequences |= _all_of(dagger)
        for place in sorted(places):
            async for like in self._ownership.aliases(place):
                sequences |= writers(self._fleet.catalogue, like)
            for other in self._ownership.find_unjudged_writers(place):
                sequences |= _all_of(other)
        if ELSEWHERE in sequences:
            return None
        return list((await self.requests(sequences)).values())

    async def of_destination(self, text: str) -> list[events_pb2.DaggerRequested] | None:
        """Return the requests whose rows may lie in a destination; None where some are forgotten."""
        sequences = self._fleet.catalogue.writers.get(text, ())
        return None if ELSEWHERE in sequences else list((await self.requests(sequences)).values())

    async def requests(self, sequences: Iterable[int]) -> dict[int, events_pb2.DaggerRequested]:
        """Return the requests at these sequences of the log, from the cache or read."""
        wanted = sorted(set(sequences))
        missing = [sequence for sequence in wanted if sequence not in self._requests_cache]
        try:
            records = await self._log.read(missing) if missing else []
        except LogUnavailable as error:
            raise unavailable_error(error, self._fleet.sequence) from error
        except LogDamaged as error:
            raise damage_error(str(error), self._fleet.sequence) from error
        requests = {
            sequence: self._requests_cache[sequence]
            for sequence in wanted
            if sequence in self._requests_cache
        }
        for sequence, record in zip(missing, records, strict=True):
            # the fold took these sequences from DaggerRequested records
            assert isinstance(record.message, events_pb2.DaggerRequested)
            requests[sequence] = self._requests_cache[sequence] = record.message
        while len(self._requests_cache) > _CACHED_REQUESTS:
            del self._requests_cache[next(iter(self._requests_cache))]
        return requests


def _revision(dagger: Dagger, generation: int) -> int:
    """Return the sequence of the revision that a launch runs; 0 where it has none, or it is forgotten."""
    before = [revision.sequence for revision in dagger.revisions if revision.sequence < generation]
    return max(before, default=0)


def _all_of(dagger: Dagger) -> set[int]:
    """Return the sequences of all revisions of a dagger, with ELSEWHERE among them where older ones are
    forgotten.
    """
    sequences = {revision.sequence for revision in dagger.revisions}
    return sequences | {ELSEWHERE} if len(dagger.revisions) >= REVISIONS else sequences
