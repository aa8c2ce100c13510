"""Limits of the values of a group that aggregates accept."""

from __future__ import annotations

from collections.abc import Iterable

from daggersql.functions import collected, distinct, registry
from daggersql.ir.expr import Expr
from daggersql.ir.ops import Form, Keeps
from daggersql.plan import GroupBound

_MOST = {"list": collected.MOST, "distinct": distinct.MOST}
_ENDS = "When it closes the dagger ends with RESULT_TOO_LARGE: group by more."


def bounds(nodes: Iterable[Expr]) -> tuple[GroupBound, ...]:
    """Collect the bounds of a query's groups, one for each kind of state, from all of its expressions."""
    by_kind: dict[str, dict[str, Keeps]] = {}
    for node in nodes:
        if node.aggregate and isinstance(node.op, Form) and (keeps := node.op.keeps) is not None:
            own = registry.find(node.function) if node.function else None
            by_kind.setdefault(keeps.kind, {})[own.name if own else keeps.name] = keeps
    return tuple(
        GroupBound(kind, tuple(sorted(by_name)), _MOST[kind], _words(by_name.values()))
        for kind, by_name in sorted(by_kind.items())
    )


def _words(items: Iterable[Keeps]) -> str:
    return _ENDS if any(item.ends for item in items) else collected.BEYOND
