"""What daggers say of records that were deleted unread, and which rows that excuses. Pure."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.chaos.daggers import FROM_THE_FUTURE, NO_FIELDS, Rows, Subject
from tests.chaos.feeder import Fed
from tests.integration.bookings import NOON

_TOLD = re.compile(
    r"up to [\d,]+ records of \d+ partitions? \(([^)]*)\) were deleted [^\"]*?before they were read([^\"]*)"
)
_COUNTS = re.compile(r"([\w.-]+)/(\d+) ([\d,]+)")
_SPAN = re.compile(r"event times (?:from (\S+) |up )to (\S+) is left out")


@dataclass(frozen=True)
class Gap:
    """One sentence: how many records of which partitions, and the event times that are left out (ms after
    noon; none of a query that forwards).
    """

    counts: frozenset[tuple[str, int, int]]
    begin_ms: float = 0
    end_ms: float = 0


def gaps_in(text: str) -> set[Gap]:
    """The gaps that are told in the JSON of a dagger."""
    gaps = set()
    for counts, rest in _TOLD.findall(text):
        named = frozenset(
            (topic, int(n), int(count.replace(",", ""))) for topic, n, count in _COUNTS.findall(counts)
        )
        span = _SPAN.search(rest)
        begin, end = span.groups() if span else (None, None)
        gaps.add(
            Gap(
                named,
                -float("inf") if span and begin is None else _ms(begin or _NOON),
                # told in whole seconds: the end is up to one later
                _ms(end or _NOON) + 1000 if span else 0,
            )
        )
    return gaps


_NOON = datetime.fromtimestamp(NOON, UTC).isoformat()


def excused(subject: Subject, fed: Fed, missing: Rows, gaps: Iterable[Gap]) -> Rows:
    """Those of the missing rows that need an event time which a dagger has said to be left out; of a query
    that forwards, those whose own record was deleted, and no more of them than it said.
    """
    gaps = list(gaps)
    if subject.needs_ms is None:
        most = sum(count for gap in gaps for *_, count in gap.counts)
        mine = missing & subject.recount(Fed(asked=fed.gone()))
        return mine if mine.total() <= most else Counter()
    before, after = subject.needs_ms
    index = subject.columns.index("window_timestamp")
    return Counter(
        {
            row: count
            for row, count in missing.items()
            if any(_touches(row[index], before, after, gap) for gap in gaps)
        }
    )


def excused_aside(subject: Subject, fed: Fed, missing: Rows, gaps: Iterable[Gap]) -> Rows:
    """The same of what is missing from the quarantine: records that were deleted, rows of such windows."""
    gaps = list(gaps)
    partitions = {(topic, number) for gap in gaps for topic, number, _ in gap.counts}
    gone = {
        row: count
        for row, count in missing.items()
        if row[0] == FROM_THE_FUTURE and row[1:3] in partitions and fed.is_deleted((row[1], row[2]), row[3])
    }
    rows = Counter({row[1:]: count for row, count in missing.items() if row[0] == NO_FIELDS})
    windows = excused(subject, fed, rows, gaps) if rows else rows
    return Counter({**gone, **{(NO_FIELDS, *row): count for row, count in windows.items()}})


def _touches(time: Any, before: int, after: int, gap: Gap) -> bool:
    at = _ms(time)
    return at - before < gap.end_ms and at + after > gap.begin_ms


def _ms(text: str) -> float:
    """An instant in ISO 8601, in ms after noon."""
    return (datetime.fromisoformat(text).timestamp() - NOON) * 1000
