"""When a record comes too late: what drops it is the first thing above its stream that keeps state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from daggersql.ir.relations import Join, Picked, Query, Relation, Select, Stream, Union, Unnest
from daggersql.plan import Window

# Spark drops a row on its way to a join as soon as the watermark has reached the row itself.
_JOIN = Window("JOIN", timedelta(), timedelta())


def closing(query: Select | Union) -> dict[str, tuple[Window, ...]]:
    """By table: the windows that a record comes too late for once they are closed, each once.

    Of windows inside windows and joins the innermost, wherever the table stands; none where rows only pass.
    """
    by_table: dict[str, dict[Window, None]] = {}
    for select in query.branches if isinstance(query, Union) else (query,):
        own = select.window.window if select.window else None
        for table, window in _nearest(select.relation, own):
            windows = by_table.setdefault(table, {})
            if window is not None:
                windows[window] = None
    return {table: tuple(windows) for table, windows in by_table.items()}


def _nearest(of: Relation, above: Window | None) -> Iterator[tuple[str, Window | None]]:
    """Each stream at its bottom, and what stands nearest above it."""
    match of:
        case Stream(table=table):
            yield table.name, above
        case Unnest(below=below) | Picked(below=below):
            yield from _nearest(below, above)
        case Join(left=left, right=right):
            yield from _nearest(left, _JOIN)
            yield from _nearest(right, _JOIN)
        case Query(below=below_all, windows=windows):
            for below, window in zip(below_all, windows, strict=True):
                yield from _nearest(below, window or above)
