"""Declarations of functions: signatures, documentation, checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from daggerspec.columns import Cell
from daggersql.findings import Report, Span
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import Type

Result: TypeAlias = Type | int
"""A type, or the number of the argument whose type the result has."""
Check: TypeAlias = Callable[[Sequence[Expr], Span, Report], None]
"""Looks at the arguments, constants above all, and at the call's place; says what is wrong."""
Build: TypeAlias = Callable[[Sequence[Expr], Span, Report, Expr | None], Expr]
"""Makes the call from its arguments, its place and, for an aggregate, the condition of its FILTER."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function, and how Spark is told: an operator, a form, or its template."""

    parameters: tuple[Family, ...]
    result: Result
    target: Form | Op | str
    """Form, operator or template to which a call is compiled."""
    variadic: bool = False
    """The last parameter may be repeated: {rest} of the template."""
    same: bool = False
    """All arguments are made one type first, which the result has too."""
    computed: tuple[Type, ...] = ()
    """Of a function of ours that whoever reads a stream may compute (see `computed`): what its arguments are
    made first."""
    form: Form | Op = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", Form(self.target) if isinstance(self.target, str) else self.target)


@dataclass(frozen=True, slots=True)
class Doc:
    """Documentation of a function in the generated reference."""

    about: str
    """Result, in a sentence or two: units, NULLs, bad data."""
    parameters: tuple[tuple[str, str], ...]
    """Name of each parameter, and what it takes."""
    examples: tuple[tuple[str, str], ...]
    """A call with constants only, and its answer as SQL shows it; run as tests."""
    dagger: str | None = None
    """Differences from Dagger's own function."""
    state: str | None = None
    """An aggregate's state per group: what it holds and its bound."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function, under the name that the documentation gives it."""

    name: str
    signatures: tuple[Signature, ...]
    aggregate: bool = False
    own: bool = False
    """One of ours: a file of runtime/functions/ brings it to Spark."""
    cells: Cell | None = None
    """Kind of map cells that its results name."""
    check: Check | None = None
    warning: str | None = None
    """Warning of the plan to queries that use it."""
    build: Build | None = None
    """For a call that no single form can tell, as when a constant decides the type; the counts and families
    of `signatures` have been checked by then, and none of the arguments is wrong."""
    rows: tuple[tuple[str, Type], ...] | None = None
    """A table function, which stands in FROM: the columns of the rows it gives. To Spark the call is a list
    of structs."""
    doc: Doc | None = None
    """For the function reference; every function of our own has one."""

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms of its signatures; operators have none."""
        return tuple(signature.form for signature in self.signatures if isinstance(signature.form, Form))


def row_function(name: str, parameters: Sequence[Family], result: Type, takes: tuple[Type, ...]) -> Signature:
    """Build the signature of our own function that the reader of a stream may compute.

    Its result depends on one row alone, and NULL marks a bad value if no argument is NULL.
    """
    casts = ", ".join(f"CAST({{{index}}} AS {kind.spark.upper()})" for index, kind in enumerate(takes))
    return Signature(tuple(parameters), result, f"{name}({casts})", computed=takes)


def corrected_form(template: str, original: str, *, total: bool = False) -> Form:
    """Build a form whose template was corrected: fingerprints of state still use `original` (ADR 171)."""
    return Form(template, total=total, original=original)


def scalar(
    name: str, parameters: Sequence[Family], result: Result, target: Form | Op | str, *, same: bool = False
) -> Function:
    """Build a function with one signature."""
    return Function(name, (Signature(tuple(parameters), result, target, same=same),))


def overloads(name: str, *signatures: Signature, check: Check | None = None) -> Function:
    """Build a function with several signatures."""
    return Function(name, signatures, check=check)
