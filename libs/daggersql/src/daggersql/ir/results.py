"""What a session of which records were skipped leaves open: its results (ADR 27).

Its row has the keys and the end of the whole one, and says that it is partial (`__since`). So what
goes by keys and times is known to be partial where one of its sessions is. Its results are not those of the
whole one: by them it is in another group, or has other partners, and the row that lacks the whole one says
nothing. Groups of TUMBLE and HOP are written with one that does (`mixed`); all else is objected to
(`daggersql.analyse.results`).
"""

from __future__ import annotations

from collections.abc import Iterable

from daggersql.ir.expr import Expr, Ref
from daggersql.ir.relations import Join, Picked, Query, Relation, Stream, Unnest, Used


def of(relation: Relation) -> Used:
    """Its columns that are made of results of sessions; a field of one is one."""
    match relation:
        case Stream():
            return frozenset()
        case Unnest(below=below, value=value, name=name):
            known = of(below)
            return known | {Ref(name)} if made_of(value, known) else known
        case Picked(below=below, name=name, columns=columns):
            known = of(below)
            return frozenset(
                Ref(name, (column,)) for column, value in columns.items() if made_of(value, known)
            )
        case Join(left=left, right=right):
            return of(left) | of(right)
        case Query(results=own):
            return own


def made_of(value: Expr, columns: Iterable[Ref]) -> bool:
    """Whether an expression names one of the columns, or a field of it."""
    named = [node.ref for node in value.nodes() if node.ref is not None]
    return any(ref.is_in(column) for column in columns for ref in named)


def mixed(relation: Relation) -> bool:
    """Whether rows may be partial without a word, where another one of their window says so."""
    match relation:
        case Stream() | Join():
            return False  # such a side of a join was objected to
        case Unnest(below=below) | Picked(below=below):
            return mixed(below)
        case Query(mixed=own):
            return own


def lacks(relation: Relation) -> bool:
    """Whether rows may be missing without any that says so."""
    match relation:
        case Stream():
            return False
        case Unnest(below=below) | Picked(below=below):
            return lacks(below)
        case Join(left=left, right=right, on=on):
            return made_of(on, of(relation)) or lacks(left) or lacks(right)
        case Query(below=below_all, windows=windows):
            return any(lacks(below) for below, window in zip(below_all, windows, strict=True) if not window)
