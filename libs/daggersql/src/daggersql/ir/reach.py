"""How far rows reach in time: what state needs of the past, and how old what is in a row may be."""

from __future__ import annotations

from datetime import timedelta

from daggersql.ir.expr import Ref
from daggersql.ir.relations import Join, Picked, Query, Relation, Stream, Unnest

_NOTHING = timedelta()


def horizon(of: Relation) -> timedelta:
    """How far behind the newest record its state still needs records."""
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below) | Picked(below=below):
            return horizon(below)
        case Join(left=left, right=right):
            return max(horizon(left), horizon(right)) + of.reach
        case Query(below=below_all, horizon=own):
            return max((horizon(query) for query in below_all), default=_NOTHING) + own


def has_join(of: Relation) -> bool:
    """Whether rows wait in it for partners."""
    match of:
        case Stream():
            return False
        case Unnest(below=below) | Picked(below=below):
            return has_join(below)
        case Join():
            return True
        case Query(below=below_all):
            return any(map(has_join, below_all))


def lookback(of: Relation, time: Ref) -> timedelta:
    """How long before `time` a record may lie that is in a row of it, or is not and should be.

    `time` is an event time of the row. Of a session only its gap counts, which says when one is
    missing altogether: where its records began, its row tells (`__since`).
    """
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below):
            return lookback(below, time)
        case Picked(below=below, name=name, columns=columns):
            inside = (value for column, value in columns.items() if Ref(name, (column,)) == time)
            value = next(inside, None)
            return furthest(below) if value is None else lookback(below, value.ref or Ref(""))
        case Join(left=left, right=right, lower=lower, upper=upper):
            own, other, before = (right, left, upper) if _has(right, time) else (left, right, -lower)
            return max(lookback(own, time), before + furthest(other), _NOTHING)
        case Query(lookback=own):
            return own


def furthest(of: Relation) -> timedelta:
    """The same for whichever event time of the row goes back furthest."""
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below) | Picked(below=below):
            return furthest(below)
        case Join(left=left, right=right):
            return max(furthest(left), furthest(right)) + of.reach
        case Query(lookback=own):
            return own


def ahead(of: Relation) -> timedelta:
    """How long after the time of a row of it a record may lie that is in it, or is not and should be."""
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below) | Picked(below=below):
            return ahead(below)
        case Join(left=left, right=right):
            return max(ahead(left), ahead(right)) + of.reach
        case Query(below=below_all):
            return max(map(ahead, below_all), default=_NOTHING)


def _has(of: Relation, column: Ref) -> bool:
    """Whether a column is of this relation."""
    match of:
        case Stream(name=name) | Picked(name=name) | Query(name=name):
            return column.relation == name
        case Unnest(below=below, name=name):
            return column.relation == name or _has(below, column)
        case Join(left=left, right=right):
            return _has(left, column) or _has(right, column)
