"""Read from a batch's progress what it read, dropped and quarantined: exact, once for each committed batch.

Each reader's rows pass one `observe`, named for the reader, between watermark and SQL; those of a stage
(`daggersql.StagedQuery`) another, where Spark drops what is late. A job must run the
plan of a batch once (materialise it for all sinks): Spark adds up what is observed each time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name everyone gives it
from pyspark.sql.streaming.listener import StreamingQueryProgress

from daggersql import Stage
from runtime.source.offsets import Offsets
from runtime.source.reader.control_rows import DECODED, STATISTICS, Reason, function_of, invalid_inputs
from runtime.source.status import ObservedTimes

_PREFIX = "source."
_STAGE = "late."
# Tasks of one batch of one reader, at most, whose event times are collected.
_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class NewestRecord:
    """The record with the greatest event time of some: times in ms, `place` for a person."""

    time: int
    position: str
    ahead: int
    """Milliseconds ahead of the earlier of its Kafka time and the time its batch was planned."""


@dataclass(frozen=True, slots=True)
class ReaderMetrics:
    """One batch of one reader: `late` rows, the event time (ms) of the newest of them, and the newest of all
    records; None without any.
    """

    late_newest: int | None
    newest: NewestRecord | None


@dataclass(frozen=True, slots=True)
class Late:
    """Rows that came after a window of theirs was closed, and each as often as there are `windows` that it is
    missing from: Spark drops it there.
    """

    rows: int = 0
    windows: int = 0

    def __add__(self, other: Late) -> Late:
        return Late(self.rows + other.rows, self.windows + other.windows)


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """One batch, all readers together, and `readers` each by its key.

    `rows` were read; `late_by_table` goes by the names in the query; `quarantined` counts by reason,
    `invalid_inputs` by the function that could not use a value; `lag` is what is not read yet by
    "topic/partition".
    """

    rows: int
    late_by_table: Mapping[str, Late]
    idle_advances: int
    quarantined: Mapping[str, int]
    invalid_inputs: Mapping[str, int]
    lag: Mapping[str, int]
    readers: Mapping[str, ReaderMetrics]

    @property
    def late(self) -> int:
        """Late rows, of all tables."""
        return sum(late.rows for late in self.late_by_table.values())

    @property
    def late_windows(self) -> int:
        """Count of the windows that late rows are missing from, each for itself."""
        return sum(late.windows for late in self.late_by_table.values())


def name(key: str) -> str:
    """Name the observation of the reader `key`."""
    return _PREFIX + key


def count_late(rows: DataFrame, stage: Stage) -> DataFrame:
    """Return the rows of a stage, with an observation of those that are late."""
    weight = F.col(stage.weight) if stage.weight else F.lit(1)
    observed = []
    for number, (column, _) in enumerate(stage.late):
        missed = F.col(column)
        observed += [
            F.sum(F.when(missed.isNotNull(), weight)).alias(f"rows{number}"),
            F.sum(missed * weight).alias(f"windows{number}"),
        ]
    return rows.observe(_STAGE + json.dumps([table for _, table in stage.late]) + stage.name, *observed)


def key(name: str) -> str | None:
    """Return the key of the reader that is observed under this name; None where it is none's."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def columns(computed: Sequence[str]) -> list[Column]:
    """Return the columns to observe of each reader's rows: their statistics together.

    `computed` are the functions that the reader computes itself.
    """
    field = F.col(STATISTICS)
    summed = (
        "rows",
        "late",
        "late_windows",
        "idle_advances",
        *Reason,
        *map(invalid_inputs, (*DECODED, *computed)),
    )
    return [
        *(F.sum(field[name]).alias(name) for name in summed),
        *(F.max(field[name]).alias(name) for name in ("newest", "observed", "late_newest")),
        *(F.max_by(field[name], field["newest"]).alias(name) for name in ("newest_record", "ahead_ms")),
        F.max(F.when(field["idle_advances"] > 0, field["observed"])).alias("advance"),
        F.max_by(field["partitions"], field["newest"], _TASKS).alias("partitions"),
    ]


def of(progress: StreamingQueryProgress) -> SourceMetrics:
    """Read the metrics of a batch."""
    rows_by_key = _observed_rows(progress)
    rows = list(rows_by_key.values())
    lag: dict[str, int] = {}
    for source in progress.sources:
        lag |= _lag(source.endOffset, source.latestOffset)
    return SourceMetrics(
        rows=_sum(rows, "rows"),
        late_by_table=_late(progress, rows_by_key),
        idle_advances=_sum(rows, "idle_advances"),
        quarantined={reason.value: count for reason in Reason if (count := _sum(rows, reason))},
        invalid_inputs=_invalid_inputs(rows),
        lag=lag,
        readers={key: _reader(row) for key, row in rows_by_key.items()},
    )


def event_times(observed: Mapping[str, Any]) -> ObservedTimes:
    """Read the event times of a reader's batch from the observed columns of its rows (`columns`)."""
    partitions: dict[str, int] = {}
    for text in observed.get("partitions") or ():
        for partition, micros in json.loads(text).items():
            partitions[partition] = max(micros // 1000, partitions.get(partition, micros // 1000))
    return ObservedTimes(_ms(observed.get("newest")), _ms(observed.get("advance")), partitions)


def _observed_rows(progress: StreamingQueryProgress) -> dict[str, Row]:
    """Return the observed rows, by the reader's key."""
    return {
        name.removeprefix(_PREFIX): row
        for name, row in progress.observedMetrics.items()
        if name.startswith(_PREFIX)
    }


def _reader(row: Row) -> ReaderMetrics:
    time = _ms(row["newest"])
    newest = None if time is None else NewestRecord(time, row["newest_record"] or "", row["ahead_ms"] or 0)
    return ReaderMetrics(_ms(row["late_newest"]), newest)


def _late(progress: StreamingQueryProgress, rows_by_key: Mapping[str, Row]) -> dict[str, Late]:
    """Count what was late, by table: where it was read, or in stages."""
    late: dict[str, Late] = {}
    for key, row in rows_by_key.items():
        table = key.rpartition(".")[0]
        late[table] = late.get(table, Late()) + Late(row["late"] or 0, row["late_windows"] or 0)
    for name, row in progress.observedMetrics.items():
        if name.startswith(_STAGE):
            tables, _ = json.JSONDecoder().raw_decode(name.removeprefix(_STAGE))
            for number, table in enumerate(tables):
                counted = Late(row[f"rows{number}"] or 0, row[f"windows{number}"] or 0)
                late[table] = late.get(table, Late()) + counted
    return {table: counted for table, counted in late.items() if counted.rows}


def _invalid_inputs(rows: Iterable[Row]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for row in rows:
        for name, count in row.asDict().items():
            function = function_of(name)
            if function is not None:
                counts[function] += count or 0
    return dict(+counts)


def ends(progress: StreamingQueryProgress) -> dict[str, int]:
    """Return the offset behind the last record read by a batch and those before it, by "topic/partition"."""
    read: dict[str, int] = {}
    for source in progress.sources:
        if source.endOffset and source.endOffset.startswith("{"):
            positions = Offsets.from_json(json.loads(source.endOffset)).next
            read |= {str(partition): offset for partition, offset in positions.items()}
    return read


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
