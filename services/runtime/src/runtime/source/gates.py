"""Rows of windows that take late records: each window is grouped once for each of its gates.

A gate is a time at which a window's row is written (`daggersql.Window.gates`). A record counts for all gates
of its window that are not closed yet, and Spark closes the groups of each gate by itself: the row at a gate
is that of all records which came before. Of these rows those are written that say something new.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from daggerspec.columns import WINDOW_END
from daggersql.plan import CLOSED, GATE, LATE, WINDOW
from runtime.source.reader.control_rows import ROWTIME
from runtime.source.watermark import NEVER, Windows

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


def with_gates(rows: DataFrame, windows: Windows, gates: Sequence[int]) -> DataFrame:
    """Return a row for each window and gate of each row of a stream, with the columns WINDOW and GATE.

    gates: times in ms behind the end of a window. The counts of windows that a row is too late for stay with
    the first of its rows.
    """
    marks = [name for name in rows.columns if name.startswith(LATE)]
    size, slide = windows.size, windows.slide
    expanded = rows.withColumn(
        WINDOW, F.window(ROWTIME, f"{size} milliseconds", f"{slide} milliseconds")
    ).withColumn(GATE, F.explode(F.array(*(_later(f"`{WINDOW}`.`end`", gate) for gate in gates))))
    is_first = (F.col(GATE) == F.col(f"{WINDOW}.end")) & (
        _later(f"`{WINDOW}`.`start`", size - slide) <= F.col(ROWTIME)
    )
    for mark in marks:
        expanded = expanded.withColumn(mark, F.when(is_first, F.col(mark)))
    return expanded


def choose_rows(
    rows: DataFrame,
    windows: Windows | None,
    *,
    late_until: datetime | None,
    closes_until: datetime | None,
    written: datetime | None = None,
) -> DataFrame:
    """Drop rows that are written already, or say nothing new, and the column CLOSED.

    Of a window that closes at several gates in one batch, the row at the last of them is left; and at a gate
    behind its end, a row is left that has records which came after the last gate of batches before.
    late_until and closes_until: event times up to which windows were closed before the batch, and are behind
    it. written: event time up to which the query before, or a driver, has written windows.
    """
    if GATE not in rows.columns:
        if written is None or WINDOW_END not in rows.columns:
            return rows
        return rows.filter(F.col(WINDOW_END) > F.lit(written))
    assert windows is not None
    chosen = _is_news(windows.gates, late_until or _START, closes_until or _START, written)
    if written is not None:
        chosen &= F.col(GATE) > F.lit(written)
    return rows.filter(chosen).drop(CLOSED)


def _is_news(
    gates: Sequence[int], late_until: datetime, closes_until: datetime, written: datetime | None
) -> Column:
    """Build the condition that the row at a gate is the one to write."""
    conditions = []
    for number, gate in enumerate(gates):
        condition = F.col(GATE) == _after_end(gate)
        if number + 1 < len(gates):
            condition &= _after_end(gates[number + 1]) > F.lit(closes_until)
        if number:
            # The last gate that an earlier batch has closed; none where all of them close in this one.
            passed = (
                F.when(_after_end(before) <= F.lit(late_until), _after_end(before))
                for before in reversed(gates[:number])
            )
            before = F.coalesce(*passed)
            is_changed = F.unix_millis(before) <= F.coalesce(F.col(CLOSED), F.lit(NEVER))
            is_first = before.isNull()
            if written is not None:
                is_first |= before <= F.lit(written)
            condition &= is_changed | is_first
        conditions.append(condition)
    return reduce(or_, conditions)


def _after_end(gate: int) -> Column:
    return F.col(WINDOW_END) + F.lit(timedelta(milliseconds=gate))


def _later(time: str, ms: int) -> Column:
    return F.expr(f"timestampadd(MILLISECOND, {ms}, {time})")
