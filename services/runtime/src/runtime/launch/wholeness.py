"""Drop rows that lack records: before the first one that was read, or where Kafka had deleted some."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from daggerspec.columns import RECORD_TIME, SINCE, SINCE_OF_WINDOW, WINDOW_END, WINDOW_START
from runtime.source.status import Gap

_LACKS = "__lacks"


def lacks_records(rows: DataFrame, gaps: Sequence[Gap], lookahead: timedelta) -> Column | None:
    """Build the condition that a row needs a record of one of these gaps in event time; None where none can.

    A row needs the records since the time in its column, up to `lookahead` after the end of its window or its
    own time. In a window whose rows are written together, one row that lacks records makes all lack them.
    """
    since_column = next(
        (name for name in (SINCE_OF_WINDOW, SINCE, WINDOW_START) if name in rows.columns), None
    )
    if not gaps or since_column is None:
        return None
    since = F.col(since_column)
    if since_column == SINCE_OF_WINDOW:
        since = F.min(since_column).over(Window.partitionBy(WINDOW_START, WINDOW_END))
    names = (name for name in (WINDOW_END, RECORD_TIME) if name in rows.columns)
    last = next((F.col(name) + F.lit(lookahead) for name in names), None)
    lacking = F.lit(False)
    for gap in gaps:
        touches = since < F.lit(gap.end)
        if gap.begin is not None and last is not None:
            touches &= F.coalesce(last > F.lit(gap.begin), F.lit(True))
        lacking |= touches
    return F.coalesce(lacking, F.lit(False))


def drop_incomplete(rows: DataFrame, gaps: Sequence[Gap], lookahead: timedelta) -> DataFrame:
    """Drop rows of windows that were read only in part: in the sink they would replace complete ones."""
    lacking = lacks_records(rows, gaps, lookahead)
    if lacking is None:
        return rows
    marked = rows.withColumn(_LACKS, lacking)  # window functions are not allowed in a filter
    return marked.filter(~F.col(_LACKS)).drop(_LACKS)
