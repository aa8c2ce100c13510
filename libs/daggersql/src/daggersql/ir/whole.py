"""Since when records must be known for a row of a query to be whole, and how far back that may lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from daggersql.ir import reach, results
from daggersql.ir.expr import Expr, Ref
from daggersql.ir.relations import (
    GROUPS,
    Join,
    Picked,
    Query,
    Relation,
    Result,
    Select,
    Stream,
    Union,
    Unnest,
    bound_column,
)
from daggersql.plan import Window


def tells(query: Result) -> bool:
    """Whether rows say it, in the column `__since`: it is not the start of their window, or not always."""
    if isinstance(query, Union):
        return any(branch.window is not None or tells(branch) for branch in query.branches)
    if query.window is None:
        return _tells(query.relation)
    return remembers(query) or bool(before(query))


def has_session(of: Relation) -> bool:
    """Whether its rows are made of sessions."""
    match of:
        case Stream():
            return False
        case Unnest(below=below) | Picked(below=below):
            return has_session(below)
        case Join(left=left, right=right):
            return has_session(left) or has_session(right)
        case Query(sessions=sessions):
            return sessions


def _tells(of: Relation) -> bool:
    """Whether rows of a relation say it."""
    match of:
        case Stream():
            return False
        case Unnest(below=below) | Picked(below=below):
            return _tells(below)
        case Join(left=left, right=right, outer=outer):
            return outer or _tells(left) or _tells(right)
        case Query(since=since):
            return since


def remembers(select: Select) -> bool:
    """Whether its groups remember it: they are sessions, or made of sessions."""
    window = select.window
    return window is not None and (window.window.kind == "SESSION" or has_session(select.relation))


def has_sessions(select: Select) -> bool:
    """Whether its rows are made of sessions."""
    return remembers(select) or has_session(select.relation)


def results_of(query: Result) -> frozenset[int]:
    """The places of its outputs that are made of results of sessions."""
    if isinstance(query, Union):
        branches = zip(query.branches, query.values, strict=True)
        return frozenset(index for branch, values in branches for index in _places_of_results(branch, values))
    return frozenset(_places_of_results(query, [output.value for output in query.outputs]))


def _places_of_results(select: Select, values: Sequence[Expr]) -> Iterator[int]:
    known = _results_of_groups(select) if select.window else results.of(select.relation)
    return (index for index, value in enumerate(values) if results.made_of(value, known))


def _results_of_groups(select: Select) -> list[Ref]:
    """The columns of its groups that are results of sessions: all but keys, and when they end."""
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
        # Sessions that a filter should not have let through join others of theirs.
        if has_session(select.relation):
            refs += [bound_column("END"), bound_column("ROWTIME")]
    return refs


def mixed(query: Result) -> bool:
    """Whether rows may be partial without a word, where another one of their window says so."""
    if isinstance(query, Union):
        return any(map(mixed, query.branches))
    if query.window is None:
        return results.mixed(query.relation)
    below = results.of(query.relation)
    return any(results.made_of(key, below) for key in query.keys)


def before(select: Select) -> timedelta:
    """How long before the start of a group a record may lie that is in it, or is not and should be.

    A record joins a session that begins less than the gap after it.
    """
    assert select.window is not None
    gap = select.window.window.size if select.window.window.kind == "SESSION" else timedelta()
    return gap + reach.lookback(select.relation, select.window.time.ref or Ref(""))


def lookback(query: Result) -> timedelta:
    """How long before its window, or its own time, the oldest record may lie that a row needs.

    Where sessions began is not in it.
    """
    if isinstance(query, Union):
        return max(map(lookback, query.branches))
    return reach.furthest(query.relation) if query.window is None else before(query)


def lookahead(query: Result) -> timedelta:
    """How long after the end of its window, or its own time, the newest record may lie that a row needs."""
    if isinstance(query, Union):
        return max(map(lookahead, query.branches))
    return reach.ahead(query.relation)


def before_row(select: Select) -> timedelta:
    """The same before the event time of a row that another query reads: the last instant of its window."""
    if select.window is None:
        return reach.furthest(select.relation)
    inside = timedelta() if select.window.window.kind == "SESSION" else select.window.window.size
    return inside + before(select)


def horizon(query: Result) -> timedelta:
    """How far behind the newest record the query still needs records."""
    if isinstance(query, Union):
        return max(map(horizon, query.branches))
    return reach.horizon(query.relation) + size(query)


def size(select: Select) -> timedelta:
    """How long the groups of a query need a record."""
    return select.window.window.size if select.window else timedelta()


def window(query: Result) -> Window | None:
    """The window of the query, when it is one that decides alone what is late; None for all others."""
    if isinstance(query, Union) or query.window is None or reach.horizon(query.relation):
        return None
    return query.window.window
