"""Reach of rows in time: how long state needs records, and how old records of a row may be."""

from __future__ import annotations

from datetime import timedelta

from daggersql.ir.expr import Ref
from daggersql.ir.relations import Join, Projection, QueryRelation, Relation, Stream, Unnest

_NOTHING = timedelta()


def horizon(of: Relation) -> timedelta:
    """Compute how far behind the newest record a relation's state still needs records."""
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below) | Projection(below=below):
            return horizon(below)
        case Join(left=left, right=right):
            return max(horizon(left), horizon(right)) + of.reach
        case QueryRelation(below=below_all, horizon=own):
            return max((horizon(query) for query in below_all), default=_NOTHING) + own


def has_join(of: Relation) -> bool:
    """Tell whether rows wait for partners in it."""
    match of:
        case Stream():
            return False
        case Unnest(below=below) | Projection(below=below):
            return has_join(below)
        case Join():
            return True
        case QueryRelation(below=below_all):
            return any(map(has_join, below_all))


def lookback(of: Relation, time: Ref) -> timedelta:
    """Compute by how much a record of a row may be older than the row's `time`, read or missed.

    `time` is an event time of the row. Of a session only the gap counts, after which it would be missing
    as a whole: the begin of its records is in the row (`__since`).
    """
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below):
            return lookback(below, time)
        case Projection(below=below, name=name, columns=columns):
            inside = (value for column, value in columns.items() if Ref(name, (column,)) == time)
            value = next(inside, None)
            return furthest(below) if value is None else lookback(below, value.ref or Ref(""))
        case Join(left=left, right=right, lower=lower, upper=upper):
            own, other, before = (right, left, upper) if _has(right, time) else (left, right, -lower)
            return max(lookback(own, time), before + furthest(other), _NOTHING)
        case QueryRelation(lookback=own):
            return own


def furthest(of: Relation) -> timedelta:
    """Compute `lookback` for the event time of the row that has the longest."""
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below) | Projection(below=below):
            return furthest(below)
        case Join(left=left, right=right):
            return max(furthest(left), furthest(right)) + of.reach
        case QueryRelation(lookback=own):
            return own


def ahead(of: Relation) -> timedelta:
    """Compute by how much a record of a row may be newer than the row's time, read or missed."""
    match of:
        case Stream():
            return _NOTHING
        case Unnest(below=below) | Projection(below=below):
            return ahead(below)
        case Join(left=left, right=right):
            return max(ahead(left), ahead(right)) + of.reach
        case QueryRelation(below=below_all):
            return max(map(ahead, below_all), default=_NOTHING)


def _has(of: Relation, column: Ref) -> bool:
    """Tell whether a column belongs to this relation."""
    match of:
        case Stream(name=name) | Projection(name=name) | QueryRelation(name=name):
            return column.relation == name
        case Unnest(below=below, name=name):
            return column.relation == name or _has(below, column)
        case Join(left=left, right=right):
            return _has(left, column) or _has(right, column)
