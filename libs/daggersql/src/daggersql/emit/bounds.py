"""How many values of a group its aggregates have an answer for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from daggersql.functions import collected, distinct, registry
from daggersql.ir.expr import Expr, Kind
from daggersql.plan import Bound

_LIST, _DISTINCT = "list", "distinct"
# What a template keeps values by: the kind, and the name of what is not our own.
_KEEPS: Mapping[str, tuple[str, str]] = {
    "collect_list(": (_LIST, "LISTAGG"),
    "collect_set(": (_LIST, "a list of DISTINCT values"),
    f", {distinct.KEPT}))": (_DISTINCT, "COUNT(DISTINCT …)"),
}
_MOST = {_LIST: collected.MOST, _DISTINCT: distinct.MOST}
_ENDING = frozenset(name for _, name in _KEEPS.values())
_ENDS = "When it closes the dagger ends with RESULT_TOO_LARGE: group by more."


def bounds(nodes: Iterable[Expr]) -> tuple[Bound, ...]:
    """The bounds of a query's groups, from all of its expressions."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        for text, (kind, name) in _KEEPS.items():
            if node.kind is Kind.AGGREGATE and text in node.template:
                own = registry.find(node.function) if node.function else None
                found.setdefault(kind, set()).add(own.name if own else name)
    return tuple(
        Bound(kind, tuple(sorted(names)), _MOST[kind], _ENDS if names & _ENDING else collected.BEYOND)
        for kind, names in sorted(found.items())
    )
