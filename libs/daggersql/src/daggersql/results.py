"""What a session of which records were skipped leaves open: its results (ADR 27).

Its row has the keys and the end of the whole one, and says that it is partial (`rendering.sinces`). So what
goes by keys and times is known to be partial where one of its sessions is. Its results are not those of the
whole one: by them it is in another group, or has other partners, and the row that lacks the whole one says
nothing. Groups of TUMBLE and HOP are written with one that does (`mixed`); all else is objected to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from daggersql.findings import Report, Span
from daggersql.relations import Join, Picked, Query, Relation, Stream, Unnest
from daggersql.tree import Expr, quote_name
from daggersql.windows import GroupWindow

_BY_KEYS = "of a session that began before the first record read they are not known"


def of(relation: Relation) -> frozenset[str]:
    """Its columns that are made of results of sessions, as SQL; a field of one is one."""
    match relation:
        case Stream():
            return frozenset()
        case Unnest(below=below, value=value, name=name):
            known = of(below)
            return known | {f"`{name}`"} if made_of(value, known) else known
        case Picked(below=below, name=name, columns=columns):
            known = of(below)
            return frozenset(
                f"`{name}`.{quote_name(column)}" for column, value in columns.items() if made_of(value, known)
            )
        case Join(left=left, right=right):
            return of(left) | of(right)
        case Query(results=own):
            return own


def made_of(value: Expr, columns: Iterable[str]) -> bool:
    """Whether an expression names one of the columns, or a field of it."""
    texts = [node.text for node in value.nodes()]
    return any(text == each or text.startswith(f"{each}.") for each in columns for text in texts)


def mixed(relation: Relation) -> bool:
    """Whether rows may be partial without a word, where another one of their window says so."""
    match relation:
        case Stream() | Join():
            return False  # such a side of a join was objected to
        case Unnest(below=below) | Picked(below=below):
            return mixed(below)
        case Query(mixed=own):
            return own


def _lacks(relation: Relation) -> bool:
    """Whether rows may be missing without any that says so."""
    match relation:
        case Stream():
            return False
        case Unnest(below=below) | Picked(below=below):
            return _lacks(below)
        case Join(left=left, right=right, on=on):
            return made_of(on, of(relation)) or _lacks(left) or _lacks(right)
        case Query(below=below_all, windows=windows):
            return any(_lacks(below) for below, window in zip(below_all, windows, strict=True) if not window)


def object_to_groups(window: GroupWindow, keys: Sequence[Expr], relation: Relation, report: Report) -> None:
    """Say of groups what they may not be made of."""
    known = of(relation)
    if _lacks(relation):
        report.object_to(
            "UNSUPPORTED_JOIN",
            window.span,
            f"Rows that are joined by results of sessions cannot be grouped: {_BY_KEYS}. Join by"
            " keys and times of the sessions; conditions on results are WHERE.",
        )
    if made_of(window.time, known):
        report.object_to(
            "UNSUPPORTED_WINDOW",
            window.time.span,
            f"Sessions of sessions cannot be grouped once more: when they end is a result, and {_BY_KEYS}.",
        )
    by = next((key for key in keys if made_of(key, known)), None)
    if by is not None and window.window.kind == "SESSION":
        report.object_to(
            "UNSUPPORTED_GROUPING",
            by.span,
            f"Sessions cannot go by results of sessions: {_BY_KEYS}. Group them by TUMBLE or HOP.",
            "TUMBLE",
        )


def object_to_join(join: Join, place: Span, report: Report) -> None:
    """Say of a join what it may not go by."""
    if mixed(join.left) or mixed(join.right):
        report.object_to(
            "UNSUPPORTED_JOIN",
            place,
            f"Groups by results of sessions cannot be joined: {_BY_KEYS}. Group by the sessions' keys.",
        )
    elif join.outer and (made_of(join.on, of(join.right)) or _lacks(join.right)):
        report.object_to(
            "UNSUPPORTED_JOIN",
            place,
            f"Whether a row has no partner cannot go by results of sessions: {_BY_KEYS}. Join by"
            " keys and times of the sessions, or use JOIN.",
            "JOIN",
        )
