"""Checked expressions: every one knows its type, its place, and the Spark SQL it becomes.

An expression is built only by the check, from templates of our own; the user's text reaches Spark as
constants (quoted here) and never otherwise. Two expressions that mean the same have the same `text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from daggersql.findings import Span
from daggersql.ir.types import BOOLEAN, UNKNOWN, Type


class Kind(Enum):
    """What an expression is, for those who look into it."""

    COLUMN = auto()
    CONSTANT = auto()
    CALL = auto()
    AGGREGATE = auto()
    WINDOW = auto()
    """A bound of the query's window."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """One checked expression.

    `template` holds {0}, {1} … for `args`; that of a column or a constant is taken as it is.
    """

    template: str
    type: Type
    span: Span
    args: tuple[Expr, ...] = ()
    kind: Kind = Kind.CALL
    value: object = None
    """A constant's value in Python; None for NULL."""
    read: tuple[str, str] | None = None
    """Stream and dotted Protobuf path, when it denotes one."""
    function: str | None = None
    """Name of the function of our own that it calls."""
    text: str = field(init=False)
    has_aggregate: bool = field(init=False)
    size: int = field(init=False)
    """How many nodes it has."""

    def __post_init__(self) -> None:
        leaf = self.kind in (Kind.COLUMN, Kind.CONSTANT)
        text = self.template if leaf else self.template.format(*(each.text for each in self.args))
        object.__setattr__(self, "text", text)
        has_aggregate = self.kind is Kind.AGGREGATE or any(each.has_aggregate for each in self.args)
        object.__setattr__(self, "has_aggregate", has_aggregate)
        object.__setattr__(self, "size", 1 + sum(each.size for each in self.args))

    @property
    def wrong(self) -> bool:
        """Whether a mistake was already found in it."""
        return self.type is UNKNOWN or any(each.type is UNKNOWN for each in self.args)

    @property
    def is_constant(self) -> bool:
        """Whether it is written out in the query."""
        return self.kind is Kind.CONSTANT

    def nodes(self) -> Iterator[Expr]:
        """Itself and all below, itself first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.args)

    def rebuild(self, change: Callable[[Expr], Expr | None]) -> Expr:
        """Itself with every topmost part that `change` answers for replaced."""
        changed = change(self)
        if changed is not None:
            return changed
        args = tuple(each.rebuild(change) for each in self.args)
        same = all(new is old for new, old in zip(args, self.args, strict=True))
        return self if same else replace(self, args=args)


def wrong(span: Span) -> Expr:
    """What stands for an expression that was found to be wrong."""
    return Expr("NULL", UNKNOWN, span, kind=Kind.CONSTANT)


def call(template: str, kind: Type, span: Span, *args: Expr) -> Expr:
    """An operator or function over its arguments."""
    return Expr(template, kind, span, args)


def constant(sql: str, value: object, kind: Type, span: Span) -> Expr:
    """A constant; `sql` is how Spark writes it."""
    return Expr(sql, kind, span, kind=Kind.CONSTANT, value=value)


def text_constant(value: str, kind: Type, span: Span) -> Expr:
    """A text constant."""
    return constant(quote_text(value), value, kind, span)


def quote_text(value: str) -> str:
    """The text as a Spark literal. The dollar is escaped: Spark fills in ${…} even inside literals."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def quote_name(name: str) -> str:
    """The name as a Spark identifier."""
    return "`" + name.replace("`", "``") + "`"


def cast(value: Expr, to: Type) -> Expr:
    """The value as another type; NULL when it has none there. Itself when nothing changes."""
    if value.type.spark == to.spark or value.type is UNKNOWN:
        return value
    return replace(call(f"try_cast({{0}} AS {to.spark})", to, value.span, value), value=value.value)


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """Both conditions, where there are two."""
    if first is None or second is None:
        return first or second
    return call("({0} AND {1})", BOOLEAN, second.span, first, second)
