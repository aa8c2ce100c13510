"""Windows that make records late: the first operator with state above a stream drops late rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from daggersql.ir.conditions import are_read
from daggersql.ir.relations import Join, Projection, QueryRelation, Relation, Select, Stream, Union, Unnest
from daggersql.plan import Window

_NOTHING: Final = timedelta()


def closing(query: Select | Union) -> dict[str, tuple[Window, ...]]:
    """Map tables to the windows whose closing makes a record late, each once.

    Of nested windows and joins only the innermost counts; a table whose rows only pass has none.
    """
    by_table: dict[str, dict[Window, None]] = {}
    for select in query.branches if isinstance(query, Union) else (query,):
        own = select.window.window if select.window else None
        for table, window in _nearest(select.relation, own):
            windows = by_table.setdefault(table, {})
            if window is not None:
                windows[window] = None
    return {table: tuple(windows) for table, windows in by_table.items()}


def window_of_join(of: Join) -> Window:
    """Describe a join as a window: Spark drops a row as late once the join's watermark has passed it.

    That watermark is behind the query's by the time that joins on its sides wait for partners.
    """
    return Window("JOIN", max(_behind(of.left), _behind(of.right)), _NOTHING)


def _behind(of: Relation) -> timedelta:
    """Compute how far the watermark of a relation's rows is behind the query's."""
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below) | Projection(below=below):
            return _behind(below)
        case Join(left=left, right=right, lower=lower, upper=upper):
            return max(_behind(left), _behind(right)) + max(upper, -lower, _NOTHING)
        case QueryRelation(below=below_all):
            return max(map(_behind, below_all), default=_NOTHING)


def is_counted_where_read(query: Select | Union) -> bool:
    """Tell whether late rows can be counted by the reader: nothing between the reader and the operator that
    drops them filters or multiplies rows.
    """
    if isinstance(query, Union) or not isinstance(query.relation, Stream):
        return False
    return query.window is None or are_read(query)


def _nearest(of: Relation, above: Window | None) -> Iterator[tuple[str, Window | None]]:
    """Yield the table of each stream, with the nearest window above it; None: there is none."""
    match of:
        case Stream(table=table):
            yield table.name, above
        case Unnest(below=below) | Projection(below=below):
            yield from _nearest(below, above)
        case Join(left=left, right=right):
            yield from _nearest(left, window_of_join(of))
            yield from _nearest(right, window_of_join(of))
        case QueryRelation(below=below_all, windows=windows):
            for below, window in zip(below_all, windows, strict=True):
                yield from _nearest(below, window or above)
