"""Queries that are edited while they run, what each counts, and what is wrong with the rows. Pure."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

Event: TypeAlias = tuple[int, int]
"""When it was, in seconds after the epoch, and its city."""
Key: TypeAlias = tuple[int, int]
"""The end of a window, in seconds after the epoch, and a city."""
CITIES: Final = (1, 2, 3)
STEP_S: Final = 10
"""A window ends so often, whatever the query."""
FUNCTIONS: Final = {"COUNT(1)": len, "SUM(city_id)": sum, "MAX(city_id)": max}


@dataclass(frozen=True, slots=True)
class Query:
    """One revision of a dagger over a stream of bookings."""

    revision: int = 0
    """Which its rows say that they are of."""
    size: int = STEP_S
    """TUMBLE where it is STEP_S, else HOP."""
    function: str = "COUNT(1)"
    without: int = 0
    """A city that is filtered out."""

    @property
    def sql(self) -> str:
        """Its text."""
        window = f"TUMBLE(rowtime, INTERVAL '{STEP_S}' SECOND)"
        if self.size > STEP_S:
            window = f"HOP(rowtime, INTERVAL '{STEP_S}' SECOND, INTERVAL '{self.size}' SECOND)"
        where = f" WHERE city_id <> {self.without}" if self.without else ""
        return (
            f"SELECT city_id AS tag_city, {self.function} AS n, {self.revision} AS revision,"
            f" {window.replace('(', '_END(', 1)} AS window_timestamp"
            f" FROM data_stream{where} GROUP BY {window}, city_id"
        )

    def rows(self, end: int, events: Mapping[int, Sequence[int]]) -> dict[Key, int]:
        """The rows of the window that ends then; `events` are cities by second."""
        inside = [city for second in range(end - self.size, end) for city in events.get(second, ())]
        values = {city: [each for each in inside if each == city] for city in set(inside) - {self.without}}
        return {(end, city): FUNCTIONS[self.function](each) for city, each in values.items()}


def edited(query: Query, draw: random.Random) -> Query:
    """The query after an edit that recomputes its windows."""
    return replace(draw.choice(list(_others(query))), revision=query.revision + 1)


def _others(query: Query) -> Iterator[Query]:
    yield from (replace(query, size=n * STEP_S) for n in (1, 2, 3) if n * STEP_S != query.size)
    yield from (replace(query, function=each) for each in FUNCTIONS if each != query.function)
    yield from (replace(query, without=each) for each in (0, *CITIES) if each != query.without)


@dataclass(frozen=True, slots=True)
class Row:
    """What a sink has."""

    end: int
    city: int
    n: int
    revision: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with the rows of a sink."""

    missing: Sequence[str]
    """Rows that are not there, or not as they were counted."""
    doubled: Sequence[str]
    """Rows that are there more than once, or of a window that another revision wrote."""


def judged(rows: Iterable[Row], queries: Sequence[Query], events: Iterable[Event], last: int) -> Verdict:
    """The rows of windows that end up to `last`, beside what each revision counts, by its number.

    A window is of one revision, and of none that is older than that of a window before it; the first is where
    the rows begin.
    """
    by_second: dict[int, list[int]] = defaultdict(list)
    for second, city in events:
        by_second[second].append(city)
    found: dict[int, Counter[Row]] = defaultdict(Counter)
    for row in rows:
        found[row.end][row] += 1
    missing, doubled, newest = [], [], 0
    for end in range(min(found, default=last + 1), last + 1, STEP_S):
        revisions = sorted({row.revision for row in found[end]})
        if not revisions:
            missing.append(f"window {end}")
            continue
        if len(revisions) > 1:
            doubled.append(f"window {end} is of the revisions {revisions}")
        if revisions[0] < newest:
            doubled.append(f"window {end} is of revision {revisions[0]}, one before it of {newest}")
        newest = max(newest, revisions[-1])
        expected = queries[revisions[-1]].rows(end, by_second)
        values = {(row.end, row.city): row.n for row in found[end] if row.revision == revisions[-1]}
        missing += [
            f"{key} is {values.get(key)}, not {n}" for key, n in expected.items() if values.get(key) != n
        ]
        doubled += [f"{row} is there {count} times" for row, count in found[end].items() if count > 1]
        doubled += [f"{key} is of no record" for key in values.keys() - expected.keys()]
    return Verdict(missing, doubled)


def silence(arrivals: Mapping[int, float], last: int) -> float:
    """The longest time in s between the first rows of two windows that follow each other: when each window
    (by its end, up to `last`) first had a row.
    """
    times = [arrivals[end] for end in sorted(arrivals) if end <= last]
    return max((after - before for before, after in pairwise(times)), default=0.0)


def row_of(said: Mapping[str, Any], end: int) -> Row:
    """A row of a sink, by its columns."""
    return Row(end, int(said["tag_city"]), int(said["n"]), int(said["revision"]))
