"""What a batch read, dropped and quarantined, from its progress: exact, once for each committed batch.

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
from runtime.source.reader.control_rows import STATISTICS, Reason, function_of, invalid_inputs

_PREFIX = "source."


@dataclass(frozen=True, slots=True)
class NewestRecord:
    """The record with the greatest event time of some: times in ms, `place` for a person."""

    time: int
    position: str
    ahead: int
    """How far it is ahead of the earlier of its Kafka time and the time its batch was planned."""


@dataclass(frozen=True, slots=True)
class ReaderMetrics:
    """One batch of one reader: `late` rows, the event time (ms) of the newest of them, and the newest of all
    records; None without any.
    """

    late: int
    late_newest: int | None
    newest: NewestRecord | None


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """One batch, all readers together, and `readers` each by its key.

    `rows` were read and passed on, those `late` (after their last window was closed: Spark drops them) among
    them; `quarantined` counts by reason, `invalid_inputs` by the function that could not use a value; `lag`
    is what is not read yet by "topic/partition".
    """

    rows: int
    late: int
    idle_advances: int
    quarantined: Mapping[str, int]
    invalid_inputs: Mapping[str, int]
    lag: Mapping[str, int]
    readers: Mapping[str, ReaderMetrics]


def name(key: str) -> str:
    """The name under which the reader `key` is observed."""
    return _PREFIX + key


def columns(computed: Sequence[str]) -> list[Column]:
    """What is observed of each reader's rows: their statistics together; `computed` are its own functions."""
    field = F.col(STATISTICS)
    summed = ("rows", "late", "idle_advances", *Reason, *map(invalid_inputs, computed))
    return [
        *(F.sum(field[name]).alias(name) for name in summed),
        *(F.max(field[name]).alias(name) for name in ("newest", "observed", "late_newest")),
        *(F.max_by(field[name], field["newest"]).alias(name) for name in ("newest_record", "ahead_ms")),
    ]


def of(progress: StreamingQueryProgress) -> SourceMetrics:
    """The metrics of a batch."""
    rows_by_key = _observed(progress)
    rows = list(rows_by_key.values())
    lag: dict[str, int] = {}
    for source in progress.sources:
        lag |= _lag(source.endOffset, source.latestOffset)
    return SourceMetrics(
        rows=_sum(rows, "rows"),
        late=_sum(rows, "late"),
        idle_advances=_sum(rows, "idle_advances"),
        quarantined={reason.value: count for reason in Reason if (count := _sum(rows, reason))},
        invalid_inputs=_invalid_inputs(rows),
        lag=lag,
        readers={key: _reader(row) for key, row in rows_by_key.items()},
    )


def observed(progress: StreamingQueryProgress) -> dict[str, tuple[int | None, int | None]]:
    """For each reader that had rows: the greatest event time of any row and of a record, in ms."""
    return {key: (_ms(row["observed"]), _ms(row["newest"])) for key, row in _observed(progress).items()}


def _observed(progress: StreamingQueryProgress) -> dict[str, Row]:
    """What was observed, by the reader's key."""
    return {
        name.removeprefix(_PREFIX): row
        for name, row in progress.observedMetrics.items()
        if name.startswith(_PREFIX)
    }


def _reader(row: Row) -> ReaderMetrics:
    time = _ms(row["newest"])
    newest = None if time is None else NewestRecord(time, row["newest_record"] or "", row["ahead_ms"] or 0)
    return ReaderMetrics(row["late"] or 0, _ms(row["late_newest"]), newest)


def _invalid_inputs(rows: Iterable[Row]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for row in rows:
        for name, count in row.asDict().items():
            function = function_of(name)
            if function is not None:
                counts[function] += count or 0
    return dict(+counts)


def _lag(end: str | None, latest: str | None) -> dict[str, int]:
    # Of a batch that is repeated after a restart Spark knows no latest offset, and says so in other words.
    if not (end and latest and end.startswith("{") and latest.startswith("{")):
        return {}
    read_, there = (Offsets.from_json(json.loads(text)).next for text in (end, latest))
    return {str(partition): max(0, offset - read_.get(partition, 0)) for partition, offset in there.items()}


def _sum(rows: Iterable[Row], name: str) -> int:
    # Without control rows the sum is NULL.
    return sum(row[name] or 0 for row in rows)


def _ms(micros: int | None) -> int | None:
    return None if micros is None else micros // 1000
