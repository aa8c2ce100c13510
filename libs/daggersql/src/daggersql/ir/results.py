"""Results of sessions: columns that differ when records at a session's begin were not read (ADR 27).

The row of such a partial session has the keys and the end of the whole one, and `__since` marks it as
partial. Groups and joins by keys and times are therefore marked, too. But its results are not those of the
whole one: grouped or joined by them, it lands in another group, or gets other partners, and the row that
lacks the whole session is not marked. Groups of TUMBLE and HOP are written together with one that is marked
(`mixed`); all else is refused (`daggersql.analyse.results`).
"""

from __future__ import annotations

from collections.abc import Iterable

from daggersql.ir.expr import Expr, Ref
from daggersql.ir.relations import Join, Projection, QueryRelation, Relation, Stream, Unnest, Used


def of(relation: Relation) -> Used:
    """Collect the columns that are made of results of sessions; their fields are such, too."""
    match relation:
        case Stream():
            return frozenset()
        case Unnest(below=below, value=value, name=name):
            results_below = of(below)
            return results_below | {Ref(name)} if made_of(value, results_below) else results_below
        case Projection(below=below, name=name, columns=columns):
            results_below = of(below)
            return frozenset(
                Ref(name, (column,)) for column, value in columns.items() if made_of(value, results_below)
            )
        case Join(left=left, right=right):
            return of(left) | of(right)
        case QueryRelation(results=own):
            return own


def made_of(value: Expr, columns: Iterable[Ref]) -> bool:
    """Tell whether an expression names one of the columns, or a field of it."""
    named = [node.ref for node in value.nodes() if node.ref is not None]
    return any(ref.is_in(column) for column in columns for ref in named)


def mixed(relation: Relation) -> bool:
    """Tell whether rows may be partial without a mark, if another row of their window is marked."""
    match relation:
        case Stream() | Join():
            return False  # `daggersql.analyse.results` refuses such a side of a join
        case Unnest(below=below) | Projection(below=below):
            return mixed(below)
        case QueryRelation(mixed=own):
            return own


def lacks(relation: Relation) -> bool:
    """Tell whether rows may be missing without any marked row."""
    match relation:
        case Stream():
            return False
        case Unnest(below=below) | Projection(below=below):
            return lacks(below)
        case Join(left=left, right=right, on=on):
            return made_of(on, of(relation)) or lacks(left) or lacks(right)
        case QueryRelation(below=below_all, windows=windows):
            return any(lacks(below) for below, window in zip(below_all, windows, strict=True) if not window)
