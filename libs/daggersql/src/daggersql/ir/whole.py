"""Wholeness of rows: since when records must have been read, and how far back that may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from daggersql.ir import reach, results
from daggersql.ir.expr import Expr, Ref
from daggersql.ir.relations import (
    GROUPS,
    Join,
    Projection,
    QueryRelation,
    Relation,
    Result,
    Select,
    Stream,
    Union,
    Unnest,
    bound_column,
)
from daggersql.plan import Window


def exposes_since(query: Result) -> bool:
    """Tell whether rows need the column `__since`, as it is not always the start of their window."""
    if isinstance(query, Union):
        return any(branch.window is not None or exposes_since(branch) for branch in query.branches)
    if query.window is None:
        return _exposes_since(query.relation)
    return remembers(query) or bool(before(query))


def has_session(of: Relation) -> bool:
    """Tell whether a relation's rows are made of sessions."""
    match of:
        case Stream():
            return False
        case Unnest(below=below) | Projection(below=below):
            return has_session(below)
        case Join(left=left, right=right):
            return has_session(left) or has_session(right)
        case QueryRelation(sessions=sessions):
            return sessions


def _exposes_since(of: Relation) -> bool:
    """Tell whether rows of a relation have `__since`."""
    match of:
        case Stream():
            return False
        case Unnest(below=below) | Projection(below=below):
            return _exposes_since(below)
        case Join(left=left, right=right, outer=outer):
            return outer or _exposes_since(left) or _exposes_since(right)
        case QueryRelation(since=since):
            return since


def remembers(select: Select) -> bool:
    """Tell whether the state of the groups has `__since`: they are sessions, or made of sessions."""
    window = select.window
    return window is not None and (window.window.kind == "SESSION" or has_session(select.relation))


def has_sessions(select: Select) -> bool:
    """Tell whether a SELECT's rows are made of sessions."""
    return remembers(select) or has_session(select.relation)


def results_of(query: Result) -> frozenset[int]:
    """Return the indexes of outputs that are made of results of sessions."""
    if isinstance(query, Union):
        branches = zip(query.branches, query.values, strict=True)
        return frozenset(index for branch, values in branches for index in _places_of_results(branch, values))
    return frozenset(_places_of_results(query, [output.value for output in query.outputs]))


def _places_of_results(select: Select, values: Sequence[Expr]) -> Iterator[int]:
    columns = _results_of_groups(select) if select.window else results.of(select.relation)
    return (index for index, value in enumerate(values) if results.made_of(value, columns))


def _results_of_groups(select: Select) -> list[Ref]:
    """List the columns of the groups that are results of sessions: all but keys and end."""
    if not remembers(select):
        return []
    assert select.window is not None
    below = results.of(select.relation)
    refs = [Ref(GROUPS, (f"a{index}",)) for index in range(len(select.aggregates))]
    refs += [
        Ref(GROUPS, (f"k{index}",)) for index, key in enumerate(select.keys) if results.made_of(key, below)
    ]
    if select.window.window.kind == "SESSION":
        refs.append(bound_column("START"))
        # Partial sessions that pass a filter by mistake join other sessions.
        if has_session(select.relation):
            refs += [bound_column("END"), bound_column("ROWTIME")]
    return refs


def mixed(query: Result) -> bool:
    """Tell whether rows may be partial without a mark, if another row of their window is marked."""
    if isinstance(query, Union):
        return any(map(mixed, query.branches))
    if query.window is None:
        return results.mixed(query.relation)
    below = results.of(query.relation)
    return any(results.made_of(key, below) for key in query.keys)


def before(select: Select) -> timedelta:
    """Compute by how much a record of a group may be older than the group's start, read or missed.

    A record joins a session that begins less than the gap after it.
    """
    assert select.window is not None
    gap = select.window.window.size if select.window.window.kind == "SESSION" else timedelta()
    return gap + reach.lookback(select.relation, select.window.time.ref or Ref(""))


def lookback(query: Result) -> timedelta:
    """Compute by how much the oldest record of a row may be older than its window, or its own time.

    The begins of sessions are not included.
    """
    if isinstance(query, Union):
        return max(map(lookback, query.branches))
    return reach.furthest(query.relation) if query.window is None else before(query)


def lookahead(query: Result) -> timedelta:
    """Compute by how much the newest record of a row may be newer than its window's end, or its own time."""
    if isinstance(query, Union):
        return max(map(lookahead, query.branches))
    return reach.ahead(query.relation)


def before_row(select: Select) -> timedelta:
    """Compute `before` for the event time of a row in another query: the last instant of its window."""
    if select.window is None:
        return reach.furthest(select.relation)
    inside = timedelta() if select.window.window.kind == "SESSION" else select.window.window.size
    return inside + before(select)


def horizon(query: Result) -> timedelta:
    """Compute how far behind the newest record the query still needs records."""
    if isinstance(query, Union):
        return max(map(horizon, query.branches))
    return reach.horizon(query.relation) + size(query)


def size(select: Select) -> timedelta:
    """Return the time for which groups need a record; 0 without a window."""
    if select.window is None:
        return timedelta()
    return select.window.window.size + select.window.window.allowed_lateness


def window(query: Result) -> Window | None:
    """Return the window of the query if it alone decides which records are late; None otherwise."""
    if isinstance(query, Union) or query.window is None or reach.horizon(query.relation):
        return None
    return query.window.window
