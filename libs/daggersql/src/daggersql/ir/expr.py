"""The checked form of an expression: an operator over arguments, with its type. Data, and no SQL.

How Spark is told is the business of `daggersql.emit`: by templates of our own, into which the user's text
comes as quoted constants and never otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TypeAlias

from daggersql.findings import Span
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import BINARY, BOOLEAN, EVENT_TIMES, NULL, UNKNOWN, Type


class Kind(Enum):
    """What an expression is, for those who look into it."""

    COLUMN = auto()
    CONSTANT = auto()
    CALL = auto()
    AGGREGATE = auto()
    WINDOW = auto()
    """A bound of the query's window."""


_KINDS = {Op.COLUMN: Kind.COLUMN, Op.CONSTANT: Kind.CONSTANT, Op.BOUND: Kind.WINDOW}


@dataclass(frozen=True, slots=True)
class Ref:
    """A column of a relation, or a field of one."""

    relation: str
    path: tuple[str, ...] = ()
    """None: every column."""

    def below(self, name: str) -> Ref:
        """A field of it."""
        return Ref(self.relation, (*self.path, name))

    def is_in(self, other: Ref) -> bool:
        """Whether it is the other one, or a field of it."""
        return self.relation == other.relation and self.path[: len(other.path)] == other.path


AS_WRITTEN = "as written"
"""The `name` of a cast of a constant text that is compared with a time: what lacks in it is the first."""


@dataclass(frozen=True, slots=True)
class Literal:
    """How a constant is written: its digits or its text, and how many minus signs stand before it."""

    text: str
    minus: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """One checked expression."""

    op: Op | Form
    type: Type
    span: Span
    args: tuple[Expr, ...] = ()
    aggregate: bool = False
    value: object = None
    """A constant's value in Python; None for NULL."""
    literal: Literal | None = None
    """Of a constant that is not NULL."""
    ref: Ref | None = None
    """The column that it is."""
    name: str = ""
    """A word that is part of the operator: a field, a unit of time, a bound, a variable."""
    read: tuple[str, str] | None = None
    """Stream and dotted Protobuf path, when it denotes one."""
    function: str | None = None
    """Name of the function of our own that it calls."""
    spelt: str | None = field(default=None, init=False, repr=False)
    """What `daggersql.emit` wrote for it, once it did; nobody else looks at it."""
    spelt_originally: str | None = field(default=None, init=False, repr=False)
    """The same, for the fingerprint of state."""
    has_aggregate: bool = field(init=False)
    size: int = field(init=False)
    """How many nodes it has."""

    def __post_init__(self) -> None:
        has_aggregate = self.aggregate or any(argument.has_aggregate for argument in self.args)
        object.__setattr__(self, "has_aggregate", has_aggregate)
        object.__setattr__(self, "size", 1 + sum(argument.size for argument in self.args))

    @property
    def kind(self) -> Kind:
        """What it is."""
        if self.aggregate:
            return Kind.AGGREGATE
        return _KINDS.get(self.op, Kind.CALL) if isinstance(self.op, Op) else Kind.CALL

    @property
    def wrong(self) -> bool:
        """Whether a mistake was already found in it."""
        return self.type is UNKNOWN or any(argument.type is UNKNOWN for argument in self.args)

    @property
    def is_constant(self) -> bool:
        """Whether it is written out in the query."""
        return self.op is Op.CONSTANT

    @property
    def is_event_time(self) -> bool:
        """Whether it is a column that windows and joins can go by."""
        return self.type in EVENT_TIMES and self.kind is Kind.COLUMN

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
        args = tuple(argument.rebuild(change) for argument in self.args)
        same = all(new is old for new, old in zip(args, self.args, strict=True))
        return self if same else replace(self, args=args)


Spelling: TypeAlias = Callable[[Expr], str]
"""Two expressions that mean the same are spelt the same; groups and their state go by it."""


def wrong(span: Span) -> Expr:
    """What stands for an expression that was found to be wrong."""
    return Expr(Op.CONSTANT, UNKNOWN, span)


def call(op: Op | Form, kind: Type, span: Span, *args: Expr, name: str = "") -> Expr:
    """An operator or function over its arguments."""
    return Expr(op, kind, span, args, name=name)


def column(ref: Ref, kind: Type, span: Span, read: tuple[str, str] | None = None) -> Expr:
    """A column, or a field of one."""
    return Expr(Op.COLUMN, kind, span, ref=ref, read=read)


def variable(name: str, kind: Type, span: Span) -> Expr:
    """The variable of a lambda, or a part of it."""
    return Expr(Op.VARIABLE, kind, span, name=name)


def constant(text: str, value: object, kind: Type, span: Span) -> Expr:
    """A constant; `text` is how the query writes it."""
    return Expr(Op.CONSTANT, kind, span, value=value, literal=Literal(text))


def null(span: Span) -> Expr:
    """The constant NULL."""
    return Expr(Op.CONSTANT, NULL, span)


def text_constant(value: str, kind: Type, span: Span) -> Expr:
    """A text constant."""
    return constant(value, value, kind, span)


def bytes_constant(digits: str, span: Span) -> Expr:
    """Bytes, from hexadecimal digits."""
    return constant(digits, bytes.fromhex(digits), BINARY, span)


def cast(value: Expr, to: Type) -> Expr:
    """The value as another type; NULL when it has none there. Itself when nothing changes."""
    if value.type.spark == to.spark or value.type is UNKNOWN:
        return value
    return replace(call(Op.CAST, to, value.span, value), value=value.value)


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """Both conditions, where there are two."""
    if first is None or second is None:
        return first or second
    return call(Op.AND, BOOLEAN, second.span, first, second)
