"""Refuses groups and joins by results of sessions; see `daggersql.ir.results`."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span, instead
from daggersql.ir.expr import Expr
from daggersql.ir.relations import GroupWindow, Join, Relation
from daggersql.ir.results import lacks, made_of, mixed, of

_BY_KEYS = "of a session that began before the first record read they are not known"


def object_to_groups(window: GroupWindow, keys: Sequence[Expr], relation: Relation, report: Report) -> None:
    """Object to groups and windows by results of sessions."""
    session_results = of(relation)
    if lacks(relation):
        report.object_to(
            "UNSUPPORTED_JOIN",
            window.span,
            f"Rows that are joined by results of sessions cannot be grouped: {_BY_KEYS}; join by"
            " keys and times of the sessions; conditions on results are WHERE.",
        )
    if made_of(window.time, session_results):
        report.object_to(
            "UNSUPPORTED_WINDOW",
            window.time.span,
            f"Sessions of sessions cannot be grouped once more: when they end is a result, and {_BY_KEYS}.",
        )
    by = next((key for key in keys if made_of(key, session_results)), None)
    if by is not None and window.window.kind == "SESSION":
        report.object_to(
            "UNSUPPORTED_GROUPING",
            by.span,
            f"Sessions cannot go by results of sessions: {_BY_KEYS}; group them by TUMBLE or HOP.",
            "TUMBLE",
        )


def object_to_join(join: Join, span: Span, report: Report) -> None:
    """Object to a join by results of sessions."""
    if mixed(join.left) or mixed(join.right):
        report.object_to(
            "UNSUPPORTED_JOIN",
            span,
            f"Groups by results of sessions cannot be joined: {_BY_KEYS}; group by the sessions' keys.",
        )
    elif join.outer and (made_of(join.on, of(join.right)) or lacks(join.right)):
        report.object_to(
            "UNSUPPORTED_JOIN",
            span,
            f"Whether a row has no partner cannot go by results of sessions: {_BY_KEYS}; join by"
            " keys and times of the sessions, or use JOIN.",
            instead(span, "JOIN"),
        )
