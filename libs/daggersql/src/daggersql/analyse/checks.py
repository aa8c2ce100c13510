"""Interface of a checker of a SELECT's expressions, for the rules of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from daggersql.analyse.scope import Scope
from daggersql.findings import Report, Suggestion
from daggersql.ir.expr import Expr
from daggersql.ir.relations import GroupWindow
from daggersql.syntax import tree


class Checks(Protocol):
    """Checks the expressions of one SELECT."""

    scope: Scope
    report: Report
    window: GroupWindow | None
    """Window that it groups by; None without one."""
    has_group: bool
    """True if the SELECT has a GROUP BY, even one with errors."""

    def group_by(self) -> Suggestion:
        """Suggest a window for the SELECT; None where there is no suggestion."""

    def check(self, node: tree.Node) -> Expr:
        """Check an expression."""

    def condition(self, node: tree.Node, where: str) -> Expr:
        """Check an expression that must be true or false. `where`: the clause, for messages."""


Rule: TypeAlias = Callable[[Any, Checks], Expr]
"""Checks nodes of one kind."""
