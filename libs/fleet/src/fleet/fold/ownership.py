"""Ownership of destinations by teams. Pure.

A destination is a team's from the first request on that was judged and written, until it is released or given
away: no dagger's end ends that. The catalogue has each by its text (`daggerspec.destination`), and parts of a
text are as in a URL: one begins with the other where the destinations overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from daggers.v1 import access_pb2, events_pb2

from daggerspec.destination import Destination, parse
from fleet.fold.answers import Code, Refusal
from fleet.fold.catalogue import Catalogue, Entry

FOREIGN: Final = "FOREIGN_DESTINATION"
WRITERS: Final = 1_000
"""Requests whose rows are in a destination that the fold remembers."""
ELSEWHERE: Final = -1
"""Sequence in place of those that it does not remember: they stand in the log alone."""
Owned = Entry[access_pb2.Destination]


def overlapping(catalogue: Catalogue, destination: Destination) -> Iterator[Owned]:
    """Yield the owned destinations that a row of this one may be in: itself, those that it is a part of, its
    parts.
    """
    owned = catalogue.destinations
    for length in range(len(destination.name) + 1):
        above = Destination(
            destination.kind, destination.server, destination.container, destination.name[:length], True
        )
        if (entry := owned.get(str(above))) is not None:
            yield entry
    own = str(destination)
    if not destination.is_prefix:
        if (entry := owned.get(own)) is not None:
            yield entry
        return
    # Its parts: what begins so. Few sinks have names that depend on the row, so this is asked seldom.
    begins = own.removesuffix("*")
    yield from (entry for text, entry in owned.items() if text != own and text.startswith(begins))


def owned_by_other(catalogue: Catalogue, destination: Destination, team: str) -> Owned | None:
    """Return the oldest overlapping destination of another team; None where all are nobody's or this
    team's.
    """
    others = [entry for entry in overlapping(catalogue, destination) if entry.value.team != team]
    return min(others, key=lambda entry: entry.since, default=None)


def refuse_request(catalogue: Catalogue, request: events_pb2.DaggerRequested) -> Refusal | None:
    """Refuse a dagger whose destination became another team's after the gateway had validated the request."""
    destinations = filter(None, map(read, request.destinations))
    reasons = (refuse_destination(catalogue, destination, request.spec.team) for destination in destinations)
    return next(filter(None, reasons), None)


def refuse_destination(catalogue: Catalogue, destination: Destination, team: str) -> Refusal | None:
    """Refuse a team a destination that another one owns; return None where it may write there."""
    owned = owned_by_other(catalogue, destination, team)
    return None if owned is None else build_foreign_refusal(str(destination), owned.value)


def build_foreign_refusal(text: str, owned: access_pb2.Destination) -> Refusal:
    """Build the refusal of another team's destination."""
    metadata = {"destination": text, "owned": owned.name, "team": owned.team}
    detail = (
        f"{text} is team {owned.team}'s ({owned.name}): write elsewhere, or have an owner of that team"
        " release it, or an administrator give it to yours"
    )
    return Refusal(Code.FAILED_PRECONDITION, FOREIGN, detail, metadata)


def take(catalogue: Catalogue, request: events_pb2.DaggerRequested, sequence: int) -> None:
    """Make what a request writes to, that was accepted, its team's, and remember that its rows are there."""
    for text in request.destinations:
        if text not in catalogue.destinations:
            owned = access_pb2.Destination(name=text, team=request.spec.team)
            catalogue.put("destination", text, owned, sequence)
        before = catalogue.writers.get(text, ())
        more = (ELSEWHERE, *before[-WRITERS + 1 :]) if len(before) >= WRITERS else before
        catalogue.writers[text] = (*more, sequence)


def add_replayed(
    catalogue: Catalogue, destinations: Iterable[str], revisions: Sequence[int], *, is_all: bool
) -> None:
    """Remember that rows of a dagger's revisions, by their sequences, come to where it writes now: a replay
    writes what any of them made. Not `is_all`: it had more than these.
    """
    for text in destinations:
        if text in catalogue.destinations:  # else it was released: nobody asks who wrote there
            before = catalogue.writers.get(text, ())
            more = sorted({*before, *revisions, *(() if is_all else (ELSEWHERE,))})
            newest = more if len(more) <= WRITERS else [ELSEWHERE, *more[-WRITERS + 1 :]]
            catalogue.writers[text] = tuple(newest)


def writers(catalogue: Catalogue, destination: Destination) -> frozenset[int]:
    """Return sequences of the requests whose rows may be where those of a destination are; ELSEWHERE is among
    them where not all are remembered.
    """
    remembered = (
        catalogue.writers.get(entry.value.name, ()) for entry in overlapping(catalogue, destination)
    )
    return frozenset(sequence for some in remembered for sequence in some)


def read(text: str) -> Destination | None:
    """Parse the text of a destination; return None for one that no gateway writes."""
    try:
        return parse(text)
    except ValueError:
        return None
