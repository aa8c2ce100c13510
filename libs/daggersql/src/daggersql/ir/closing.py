"""When a record comes too late: what drops it is the first thing above its stream that keeps state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from daggersql.ir.conditions import are_read
from daggersql.ir.relations import Join, Picked, Query, Relation, Select, Stream, Union, Unnest
from daggersql.plan import Window

_NOTHING: Final = timedelta()


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


def of_join(of: Join) -> Window:
    """A join as what a row comes too late for: Spark drops it as soon as the join's watermark has reached it.

    That is behind the query's by as long as joins on its sides wait for partners.
    """
    return Window("JOIN", max(_behind(of.left), _behind(of.right)), _NOTHING)


def _behind(of: Relation) -> timedelta:
    """How far the watermark of its rows is behind the query's."""
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below) | Picked(below=below):
            return _behind(below)
        case Join(left=left, right=right, lower=lower, upper=upper):
            return max(_behind(left), _behind(right)) + max(upper, -lower, _NOTHING)
        case Query(below=below_all):
            return max(map(_behind, below_all), default=_NOTHING)


def is_counted_where_read(query: Select | Union) -> bool:
    """Whether every row that whoever reads passes on comes to what drops it: nothing in between filters rows,
    or makes more or fewer of them.
    """
    if isinstance(query, Union) or not isinstance(query.relation, Stream):
        return False
    return query.window is None or are_read(query)


def _nearest(of: Relation, above: Window | None) -> Iterator[tuple[str, Window | None]]:
    """Each stream at its bottom, and what stands nearest above it."""
    match of:
        case Stream(table=table):
            yield table.name, above
        case Unnest(below=below) | Picked(below=below):
            yield from _nearest(below, above)
        case Join(left=left, right=right):
            yield from _nearest(left, of_join(of))
            yield from _nearest(right, of_join(of))
        case Query(below=below_all, windows=windows):
            for below, window in zip(below_all, windows, strict=True):
                yield from _nearest(below, window or above)
