"""How many values of a group its aggregates have an answer for."""

from __future__ import annotations

from collections.abc import Iterable

from daggersql.functions import collected, distinct, registry
from daggersql.ir.expr import Expr
from daggersql.ir.ops import Form, Keeps
from daggersql.plan import Bound

_MOST = {"list": collected.MOST, "distinct": distinct.MOST}
_ENDS = "When it closes the dagger ends with RESULT_TOO_LARGE: group by more."


def bounds(nodes: Iterable[Expr]) -> tuple[Bound, ...]:
    """The bounds of a query's groups, from all of its expressions."""
    kept: dict[str, dict[str, Keeps]] = {}
    for node in nodes:
        if node.aggregate and isinstance(node.op, Form) and (keeps := node.op.keeps) is not None:
            own = registry.find(node.function) if node.function else None
            kept.setdefault(keeps.kind, {})[own.name if own else keeps.name] = keeps
    return tuple(
        Bound(kind, tuple(sorted(by_name)), _MOST[kind], _words(by_name.values()))
        for kind, by_name in sorted(kept.items())
    )


def _words(kept: Iterable[Keeps]) -> str:
    return _ENDS if any(item.ends for item in kept) else collected.BEYOND
