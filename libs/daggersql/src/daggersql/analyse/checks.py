"""Who checks the expressions of one SELECT, as the rules for their parts see it."""

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
    """What it groups by, if anything."""
    has_group: bool
    """Whether the SELECT has a GROUP BY, whatever is wrong with its window."""

    def group_by(self) -> Suggestion:
        """What gives the SELECT a window; None where nothing is known that does."""

    def check(self, node: tree.Node) -> Expr:
        """The checked expression."""

    def condition(self, node: tree.Node, where: str) -> Expr:
        """An expression that must be true or false."""


Rule: TypeAlias = Callable[[Any, Checks], Expr]
"""How nodes of one kind are checked."""
