"""What a batch read, dropped and set aside, from its progress: exact, once for each committed batch.

Each reader's rows pass one `observe`, named for the reader, between watermark and SQL. A job must run the
plan of a batch once (materialise it for all sinks): Spark adds up what is observed each time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, Row
from pyspark.sql import functions as F  # noqa: N812 - the name everyone gives it
from pyspark.sql.streaming.listener import StreamingQueryProgress

from runtime.source.offsets import Offsets
from runtime.source.reader import control_rows as notes
from runtime.source.reader.control_rows import TALLY, Reason

_PREFIX = "source."


@dataclass(frozen=True, slots=True)
class Newest:
    """The record with the greatest event time of some: times in ms, `place` for a person."""

    time: int
    place: str
    ahead: int
    """How far it is ahead of the earlier of its Kafka time and the time its batch was planned."""


@dataclass(frozen=True, slots=True)
class ReaderCounts:
    """One batch of one reader: `late` rows, the event time (ms) of the newest of them, and the newest of all
    records; None without any.
    """

    late: int
    late_newest: int | None
    newest: Newest | None


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """One batch, all readers together, and `readers` each by its key.

    `rows` were read and passed on, those `late` (after their last window was closed: Spark drops them) among
    them; `quarantined` counts by reason, `bad` values by the function that could not use them; `lag` is what
    is not read yet by "topic/partition".
    """

    rows: int
    late: int
    ticks: int
    quarantined: Mapping[str, int]
    bad: Mapping[str, int]
    lag: Mapping[str, int]
    readers: Mapping[str, ReaderCounts]


def metric(key: str) -> str:
    """The name under which the reader `key` is observed."""
    return _PREFIX + key


def metrics(computed: Sequence[str]) -> list[Column]:
    """What is observed of each reader's rows: their notes added up; `computed` are its own functions."""
    note = F.col(TALLY)
    summed = ("rows", "late", "ticks", *Reason, *map(notes.bad, computed))
    return [
        *(F.sum(note[name]).alias(name) for name in summed),
        *(F.max(note[name]).alias(name) for name in ("data", "reached", "late_newest")),
        *(F.max_by(note[name], note["data"]).alias(name) for name in ("place", "ahead_ms")),
    ]


def read(progress: StreamingQueryProgress) -> SourceCounts:
    """The counts of a batch."""
    readers = {
        name.removeprefix(_PREFIX): row
        for name, row in progress.observedMetrics.items()
        if name.startswith(_PREFIX)
    }
    observed = list(readers.values())
    lag: dict[str, int] = {}
    for source in progress.sources:
        lag |= _lag(source.endOffset, source.latestOffset)
    return SourceCounts(
        rows=_sum(observed, "rows"),
        late=_sum(observed, "late"),
        ticks=_sum(observed, "ticks"),
        quarantined={reason.value: count for reason in Reason if (count := _sum(observed, reason))},
        bad=_bad(observed),
        lag=lag,
        readers={key: _reader(row) for key, row in readers.items()},
    )


def seen(progress: StreamingQueryProgress) -> dict[str, tuple[int | None, int | None]]:
    """For each reader that had rows: the greatest rowtime of any row and of a record, in ms."""
    return {
        name.removeprefix(_PREFIX): (_ms(row["reached"]), _ms(row["data"]))
        for name, row in progress.observedMetrics.items()
        if name.startswith(_PREFIX)
    }


def _reader(row: Row) -> ReaderCounts:
    time = _ms(row["data"])
    newest = None if time is None else Newest(time, row["place"] or "", row["ahead_ms"] or 0)
    return ReaderCounts(row["late"] or 0, _ms(row["late_newest"]), newest)


def _bad(observed: Iterable[Row]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in observed:
        for name, count in row.asDict().items():
            function = notes.function_of(name)
            if function is not None:
                found[function] += count or 0
    return dict(+found)


def _lag(end: str | None, latest: str | None) -> dict[str, int]:
    # Of a batch that is repeated after a restart Spark knows no latest offset, and says so in other words.
    if not (end and latest and end.startswith("{") and latest.startswith("{")):
        return {}
    read_, there = (Offsets.from_json(json.loads(text)).next for text in (end, latest))
    return {str(partition): max(0, offset - read_.get(partition, 0)) for partition, offset in there.items()}


def _sum(observed: Iterable[Row], name: str) -> int:
    # Of no notes at all the sum is NULL.
    return sum(row[name] or 0 for row in observed)


def _ms(micros: int | None) -> int | None:
    return None if micros is None else micros // 1000
