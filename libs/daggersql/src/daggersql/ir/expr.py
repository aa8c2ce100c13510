"""Checked expressions: an operator over arguments, with its type. Data without SQL.

`daggersql.emit` writes the SQL, by templates of our own, into which user text comes as quoted constants only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TypeAlias

from daggersql.findings import Span
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import BINARY, BOOLEAN, EVENT_TIMES, NULL, UNKNOWN, Type


class ExprKind(Enum):
    """Kind of an expression."""

    COLUMN = auto()
    CONSTANT = auto()
    CALL = auto()
    AGGREGATE = auto()
    WINDOW = auto()
    """Bound of the query's window."""


_KINDS = {Op.COLUMN: ExprKind.COLUMN, Op.CONSTANT: ExprKind.CONSTANT, Op.BOUND: ExprKind.WINDOW}


@dataclass(frozen=True, slots=True)
class Ref:
    """Column of a relation, or a field of one."""

    relation: str
    path: tuple[str, ...] = ()
    """Column and fields; empty: every column."""

    def below(self, name: str) -> Ref:
        """Refer to a field of it."""
        return Ref(self.relation, (*self.path, name))

    def is_in(self, other: Ref) -> bool:
        """Tell whether it is the other one, or a field of it."""
        return self.relation == other.relation and self.path[: len(other.path)] == other.path


AS_WRITTEN = "as written"
"""`name` of a cast of a constant text that is compared with a time: missing parts are their least value."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Spelling of a constant: its digits or text, and the number of minus signs before it."""

    text: str
    minus: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """Checked expression. Nodes are compared by identity."""

    op: Op | Form
    type: Type
    span: Span
    args: tuple[Expr, ...] = ()
    aggregate: bool = False
    value: object = None
    """Python value of a constant; None for NULL."""
    literal: Literal | None = None
    """Spelling of a constant that is not NULL."""
    ref: Ref | None = None
    """Column that it names."""
    name: str = ""
    """Word that is part of the operator: a field, a unit of time, a bound, a variable."""
    read: tuple[str, str] | None = None
    """Stream and dotted Protobuf path, if it names a field of a record."""
    function: str | None = None
    """Name of our own function that it calls."""
    spelt: str | None = field(default=None, init=False, repr=False)
    """Cache of `daggersql.emit`: the emitted SQL."""
    spelt_originally: str | None = field(default=None, init=False, repr=False)
    """Cache of `daggersql.emit`: the SQL for the fingerprint of state."""
    has_aggregate: bool = field(init=False)
    size: int = field(init=False)
    """Number of its nodes."""

    def __post_init__(self) -> None:
        has_aggregate = self.aggregate or any(argument.has_aggregate for argument in self.args)
        object.__setattr__(self, "has_aggregate", has_aggregate)
        object.__setattr__(self, "size", 1 + sum(argument.size for argument in self.args))

    @property
    def kind(self) -> ExprKind:
        """Kind of the expression."""
        if self.aggregate:
            return ExprKind.AGGREGATE
        return _KINDS.get(self.op, ExprKind.CALL) if isinstance(self.op, Op) else ExprKind.CALL

    @property
    def wrong(self) -> bool:
        """True if an error was reported in it."""
        return self.type is UNKNOWN or any(argument.type is UNKNOWN for argument in self.args)

    @property
    def is_constant(self) -> bool:
        """True if it is a constant."""
        return self.op is Op.CONSTANT

    @property
    def is_event_time(self) -> bool:
        """True if it is a column that windows and joins can use as event time."""
        return self.type in EVENT_TIMES and self.kind is ExprKind.COLUMN

    def nodes(self) -> Iterator[Expr]:
        """Yield itself and all nodes below, depth first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.args)

    def rebuild(self, change: Callable[[Expr], Expr | None]) -> Expr:
        """Replace every topmost node for which `change` returns another one."""
        changed = change(self)
        if changed is not None:
            return changed
        args = tuple(argument.rebuild(change) for argument in self.args)
        same = all(new is old for new, old in zip(args, self.args, strict=True))
        return self if same else replace(self, args=args)


Spelling: TypeAlias = Callable[[Expr], str]
"""Writes an expression so that equal ones get equal texts; groups and their state are identified by it."""


def wrong(span: Span) -> Expr:
    """Build the placeholder of an expression with an error."""
    return Expr(Op.CONSTANT, UNKNOWN, span)


def call(op: Op | Form, kind: Type, span: Span, *args: Expr, name: str = "") -> Expr:
    """Build an operator or function over its arguments."""
    return Expr(op, kind, span, args, name=name)


def column(ref: Ref, kind: Type, span: Span, read: tuple[str, str] | None = None) -> Expr:
    """Build a column, or a field of one."""
    return Expr(Op.COLUMN, kind, span, ref=ref, read=read)


def variable(name: str, kind: Type, span: Span) -> Expr:
    """Build the variable of a lambda, or a part of it."""
    return Expr(Op.VARIABLE, kind, span, name=name)


def constant(text: str, value: object, kind: Type, span: Span) -> Expr:
    """Build a constant; `text`: its spelling in the query."""
    return Expr(Op.CONSTANT, kind, span, value=value, literal=Literal(text))


def null(span: Span) -> Expr:
    """Build the constant NULL."""
    return Expr(Op.CONSTANT, NULL, span)


def text_constant(value: str, kind: Type, span: Span) -> Expr:
    """Build a text constant."""
    return constant(value, value, kind, span)


def bytes_constant(digits: str, span: Span) -> Expr:
    """Build a constant of bytes, from hexadecimal digits."""
    return constant(digits, bytes.fromhex(digits), BINARY, span)


def cast(value: Expr, to: Type) -> Expr:
    """Cast a value to another type, NULL where that has no such value; return it unchanged if it has it."""
    if value.type.spark == to.spark or value.type is UNKNOWN:
        return value
    return replace(call(Op.CAST, to, value.span, value), value=value.value)


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """Join conditions by AND; None stands for no condition."""
    if first is None or second is None:
        return first or second
    return call(Op.AND, BOOLEAN, second.span, first, second)
