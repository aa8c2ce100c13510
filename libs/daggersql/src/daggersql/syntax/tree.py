"""The tree that the grammar makes of a text: nodes with named parts, each at its place."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Any, Self


class Node:
    """A node of the tree. `meta` has its place (`start`, `end`), and what else the grammar noted there."""

    __slots__ = ("args", "meta")

    def __init__(self, **parts: Any) -> None:
        self.args: dict[str, Any] = parts
        self.meta: dict[str, Any] = {}

    @property
    def this(self) -> Any:
        """The part that most nodes are about."""
        return self.args.get("this")

    @property
    def expression(self) -> Any:
        """The right side of what has two."""
        return self.args.get("expression")

    @property
    def expressions(self) -> list[Any]:
        """The parts of what has any number of them."""
        return self.args.get("expressions") or []

    @property
    def name(self) -> str:
        """The word that it is, or is about; empty for anything else."""
        match self.this:
            case str() as word:
                return word
            case Identifier() | Literal() | Var() as node:
                return str(node.this)
        return ""

    def set(self, part: str, value: Any) -> None:
        """Add a part."""
        self.args[part] = value

    def children(self) -> Iterator[Node]:
        """Yield the nodes directly below it."""
        for part in self.args.values():
            for child in part if isinstance(part, list) else (part,):
                if isinstance(child, Node):
                    yield child

    def copy(self) -> Self:
        """Copy the node and all below it."""
        twin = type(self)(**{name: _copy(part) for name, part in self.args.items()})
        twin.meta.update(self.meta)
        return twin


def _copy(part: Any) -> Any:
    if isinstance(part, list):
        return [_copy(child) for child in part]
    return part.copy() if isinstance(part, Node) else part


class TypeName(Enum):
    """The types that CAST and constants name."""

    BOOLEAN = auto()
    TINYINT = auto()
    SMALLINT = auto()
    INT = auto()
    BIGINT = auto()
    FLOAT = auto()
    DOUBLE = auto()
    DECIMAL = auto()
    STRING = auto()
    BINARY = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    UNKNOWN = auto()


# --- names and constants --------------------------------------------------------------------------------


class Identifier(Node):
    """A name."""


class Literal(Node):
    """A text or a number."""

    @classmethod
    def string(cls, text: str) -> Literal:
        """Build a text constant."""
        return cls(this=text, is_string=True)

    @classmethod
    def number(cls, digits: str) -> Literal:
        """Build a number, from its digits."""
        return cls(this=digits, is_string=False)

    @property
    def is_string(self) -> bool:
        """True for a text, False for a number."""
        return bool(self.args["is_string"])


class HexString(Node):
    """Bytes."""


class Boolean(Node):
    """TRUE or FALSE."""


class Null(Node):
    """NULL."""


class Star(Node):
    """`*`."""


class Var(Node):
    """A word that stands for itself, as a unit of time."""


class Interval(Node):
    """A span of time."""


class DataType(Node):
    """The name of a type, and the numbers in its brackets."""


# --- expressions ---------------------------------------------------------------------------------------


class Column(Node):
    """A column, by its first name."""


class Dot(Node):
    """A field of what stands before the dot."""


class Bracket(Node):
    """An element of a list or a map."""


class Array(Node):
    """ARRAY[…]."""


class Map(Node):
    """MAP[…]."""


class Neg(Node):
    """Minus."""


class Not(Node):
    """NOT."""


class Case(Node):
    """CASE."""


class If(Node):
    """A branch of CASE."""


class Cast(Node):
    """CAST, or a constant with its type before it."""


class Is(Node):
    """IS NULL, IS TRUE."""


class In(Node):
    """IN."""


class Between(Node):
    """BETWEEN."""


class Like(Node):
    """LIKE."""


class SimilarTo(Node):
    """SIMILAR TO."""


class Escape(Node):
    """A pattern with its ESCAPE."""


class Exists(Node):
    """EXISTS."""


class Anonymous(Node):
    """A call of a function."""


class NamedArgument(Node):
    """An argument of a call with its name: `band => 4`."""


class Distinct(Node):
    """DISTINCT, and what stands behind it."""


class Filter(Node):
    """A call with its FILTER."""


class Window(Node):
    """A call with its OVER: `partition` and `order` where it numbers rows."""


class SortKey(Node):
    """Key of ORDER BY."""


class Subquery(Node):
    """A query in brackets."""


# --- operators -----------------------------------------------------------------------------------------


class Binary(Node):
    """Two sides."""


class Add(Binary):
    """`+`."""


class Sub(Binary):
    """`-`."""


class Mul(Binary):
    """`*`."""


class Div(Binary):
    """`/`."""


class Mod(Binary):
    """`%`."""


class DPipe(Binary):
    """`||`."""


class And(Binary):
    """AND."""


class Or(Binary):
    """OR."""


class EQ(Binary):
    """`=`."""


class NEQ(Binary):
    """`<>`."""


class LT(Binary):
    """`<`."""


class LTE(Binary):
    """`<=`."""


class GT(Binary):
    """`>`."""


class GTE(Binary):
    """`>=`."""


class NullSafeEQ(Binary):
    """IS NOT DISTINCT FROM."""


class NullSafeNEQ(Binary):
    """IS DISTINCT FROM."""


# --- queries -------------------------------------------------------------------------------------------


class Select(Node):
    """A SELECT with its clauses."""


class SetOperation(Node):
    """Two queries, one below the other."""


class Union(SetOperation):
    """UNION."""


class Except(SetOperation):
    """INTERSECT, EXCEPT, MINUS."""


class With(Node):
    """WITH."""


class CTE(Node):
    """A query under WITH."""


class From(Node):
    """FROM."""


class Join(Node):
    """Join, with its kind and condition."""


class Where(Node):
    """Condition of WHERE."""


class Group(Node):
    """GROUP BY."""


class Having(Node):
    """HAVING."""


class Alias(Node):
    """An expression with the name that it is given."""


class TableAlias(Node):
    """The name that a table is given, and those of its columns."""


class Table(Node):
    """A stream, or a query under WITH."""


class TableFromRows(Node):
    """TABLE(…): a window over a stream."""


class Lateral(Node):
    """LATERAL TABLE(…): a function that gives rows."""


class Unnest(Node):
    """UNNEST(…)."""
