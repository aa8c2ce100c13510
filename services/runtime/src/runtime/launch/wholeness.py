"""Which rows lack records that were never read: before the first one, or where Kafka had deleted some."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from daggerspec.columns import RECORD_TIME, SINCE, SINCE_OF_WINDOW, WINDOW_END, WINDOW_START
from runtime.source.status import Gap

_LACKS = "__lacks"


def lacks(rows: DataFrame, gaps: Sequence[Gap], lookahead: timedelta) -> Column | None:
    """Whether a row needs a record of one of these gaps in event time; None where none does.

    It needs those since the time that it says, up to `lookahead` after the end of its window, or its own
    time. Of a window whose rows are written at once, one that lacks some says so for all.
    """
    told = next((name for name in (SINCE_OF_WINDOW, SINCE, WINDOW_START) if name in rows.columns), None)
    if not gaps or told is None:
        return None
    since = F.col(told)
    if told == SINCE_OF_WINDOW:
        since = F.min(told).over(Window.partitionBy(WINDOW_START, WINDOW_END))
    names = (name for name in (WINDOW_END, RECORD_TIME) if name in rows.columns)
    last = next((F.col(name) + F.lit(lookahead) for name in names), None)
    lacking = F.lit(False)
    for gap in gaps:
        touches = since < F.lit(gap.end)
        if gap.begin is not None and last is not None:
            touches &= F.coalesce(last > F.lit(gap.begin), F.lit(True))
        lacking |= touches
    return F.coalesce(lacking, F.lit(False))


def whole(rows: DataFrame, gaps: Sequence[Gap], lookahead: timedelta) -> DataFrame:
    """Those that lack nothing: a part would overwrite the whole."""
    lacking = lacks(rows, gaps, lookahead)
    if lacking is None:
        return rows
    marked = rows.withColumn(_LACKS, lacking)  # a filter has no window functions
    return marked.filter(~F.col(_LACKS)).drop(_LACKS)
