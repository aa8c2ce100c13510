"""What a batch read, dropped and set aside, from its progress: exact, once for each committed batch.

Each reader's rows pass one `observe`, named for the reader, between watermark and SQL. A job must run the
plan of a batch once (materialise it for all sinks): Spark adds up what is observed each time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everyone gives it
from pyspark.sql.streaming.listener import StreamingQueryProgress

from runtime.source.offsets import Offsets
from runtime.source.rows import KIND, REASONS, ROWTIME, Kind

_PREFIX = "source."


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """One batch, all readers together.

    `rows` were read and passed on, those `late` (after their last window was closed: Spark drops them) among
    them; `quarantined` counts by reason; `lag` is what is not read yet by "topic/partition".
    """

    rows: int
    late: int
    ticks: int
    quarantined: Mapping[str, int]
    lag: Mapping[str, int]


def metric(key: str) -> str:
    """The name under which the reader `key` is observed."""
    return _PREFIX + key


def metrics() -> list[Column]:
    """What is observed of each reader's rows."""
    kind = F.col(KIND)
    return [
        F.count_if(kind <= Kind.LATE).alias("rows"),
        F.count_if(kind == Kind.LATE).alias("late"),
        F.count_if(kind == Kind.TICK).alias("ticks"),
        *(F.count_if(kind == reason).alias(reason.name) for reason in REASONS),
        F.max(ROWTIME).alias("reached"),
        F.max(F.when(kind <= Kind.LATE, F.col(ROWTIME))).alias("data"),
    ]


def read(progress: StreamingQueryProgress) -> SourceCounts:
    """The counts of a batch."""
    observed = [row for name, row in progress.observedMetrics.items() if name.startswith(_PREFIX)]
    lag: dict[str, int] = {}
    for source in progress.sources:
        lag |= _lag(source.endOffset, source.latestOffset)
    return SourceCounts(
        rows=sum(row["rows"] for row in observed),
        late=sum(row["late"] for row in observed),
        ticks=sum(row["ticks"] for row in observed),
        quarantined={
            reason.name: count for reason in REASONS if (count := sum(row[reason.name] for row in observed))
        },
        lag=lag,
    )


def seen(progress: StreamingQueryProgress) -> dict[str, tuple[int | None, int | None]]:
    """For each reader that had rows: the greatest rowtime of any row and of a record, in ms."""
    return {
        name.removeprefix(_PREFIX): (_ms(row["reached"]), _ms(row["data"]))
        for name, row in progress.observedMetrics.items()
        if name.startswith(_PREFIX)
    }


def _lag(end: str | None, latest: str | None) -> dict[str, int]:
    # Of a batch that is repeated after a restart Spark knows no latest offset, and says so in other words.
    if not (end and latest and end.startswith("{") and latest.startswith("{")):
        return {}
    read_, there = (Offsets.from_json(json.loads(text)).next for text in (end, latest))
    return {str(partition): max(0, offset - read_.get(partition, 0)) for partition, offset in there.items()}


def _ms(time: Any) -> int | None:
    # Rows travel from the JVM with naive local times; markers carry a time before everything.
    return None if time is None or time.year < 1900 else int(time.timestamp() * 1000)
