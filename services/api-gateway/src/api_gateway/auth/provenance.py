"""By which requests the bytes were written that are shown of a dagger: what was sensitive then, they say.

A launch is known by its generation, and the revision that it runs is the newest before that. Rows lie where
others of the team's may lie, of earlier daggers and of other ones: the log remembers who has written there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from daggers.v1 import events_pb2

from api_gateway.auth.destination_ownership import Ownership
from api_gateway.watch_limits import damaged, unavailable
from eventlog import Log, LogDamaged, LogUnavailable
from fleet import Dagger, Fleet
from fleet.fold.dagger import REVISIONS
from fleet.fold.ownership import ELSEWHERE, read, writers

_REMEMBERED: Final = 1_024


class Provenance:
    """Finds requests. Raises, from every method that reads them: ApiError where the log cannot be read."""

    def __init__(self, fleet: Fleet, log: Log, ownership: Ownership) -> None:
        self._fleet, self._log, self._ownership = fleet, log, ownership
        self._known: dict[int, events_pb2.DaggerRequested] = {}

    async def of_generations(
        self, dagger: Dagger, generations: Iterable[int]
    ) -> dict[int, events_pb2.DaggerRequested | None]:
        """By launch of a dagger: the request that it runs; None where nobody remembers that."""
        sequences = {generation: _revision(dagger, generation) for generation in generations}
        requests = await self.requests(sequence for sequence in sequences.values() if sequence)
        return {generation: requests.get(sequence) for generation, sequence in sequences.items()}

    async def of_log(self, dagger: Dagger) -> list[events_pb2.DaggerRequested]:
        """The requests of a dagger's newest launch and its newest revision: one, or two."""
        sequences = {_revision(dagger, dagger.generation), dagger.revisions[-1].sequence} - {0}
        return list((await self.requests(sequences)).values())

    async def newest(self, dagger: Dagger) -> events_pb2.DaggerRequested:
        """The request of a dagger's newest revision."""
        sequence = dagger.revisions[-1].sequence
        return (await self.requests([sequence]))[sequence]

    async def of_all(self, dagger: Dagger) -> list[events_pb2.DaggerRequested] | None:
        """The requests of all revisions of a dagger; None where not all are remembered."""
        sequences = _all_of(dagger)
        return None if ELSEWHERE in sequences else list((await self.requests(sequences)).values())

    async def of_rows(self, dagger: Dagger) -> list[events_pb2.DaggerRequested] | None:
        """The requests whose rows may be where a dagger's are; None where not all are remembered."""
        own = await self.of_log(dagger)
        sequences = {_revision(dagger, dagger.generation), dagger.revisions[-1].sequence} - {0}
        places = {place for request in own for place in map(read, request.destinations) if place is not None}
        if not all(request.destinations for request in own):  # nobody has judged them: all that it ever wrote
            places |= set(self._ownership.written(dagger))
            sequences |= _all_of(dagger)
        for place in sorted(places):
            async for like in self._ownership.aliases(place):
                sequences |= writers(self._fleet.catalogue, like)
            for other in self._ownership.unjudged(place):
                sequences |= _all_of(other)
        if ELSEWHERE in sequences:
            return None
        return list((await self.requests(sequences)).values())

    async def of_destination(self, text: str) -> list[events_pb2.DaggerRequested] | None:
        """The requests whose rows may be in a destination; None where not all are remembered."""
        sequences = self._fleet.catalogue.writers.get(text, ())
        return None if ELSEWHERE in sequences else list((await self.requests(sequences)).values())

    async def requests(self, sequences: Iterable[int]) -> dict[int, events_pb2.DaggerRequested]:
        """The requests at these sequences of the log."""
        wanted = sorted(set(sequences))
        missing = [sequence for sequence in wanted if sequence not in self._known]
        try:
            records = await self._log.read(missing) if missing else []
        except LogUnavailable as error:
            raise unavailable(error, self._fleet.sequence) from error
        except LogDamaged as error:
            raise damaged(str(error), self._fleet.sequence) from error
        requests = {sequence: self._known[sequence] for sequence in wanted if sequence in self._known}
        for sequence, record in zip(missing, records, strict=True):
            assert isinstance(record.message, events_pb2.DaggerRequested)  # the fold has taken it for one
            requests[sequence] = self._known[sequence] = record.message
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return requests


def _revision(dagger: Dagger, generation: int) -> int:
    """Sequence of the revision that a launch runs; 0 for none, and for one that nobody remembers."""
    before = [revision.sequence for revision in dagger.revisions if revision.sequence < generation]
    return max(before, default=0)


def _all_of(dagger: Dagger) -> set[int]:
    """Sequences of all revisions of a dagger; ELSEWHERE among them where there were more."""
    sequences = {revision.sequence for revision in dagger.revisions}
    return sequences | {ELSEWHERE} if len(dagger.revisions) >= REVISIONS else sequences
