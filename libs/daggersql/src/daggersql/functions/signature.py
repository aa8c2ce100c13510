"""How a function is declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from daggersql.findings import Report, Span
from daggersql.tree import Expr
from daggersql.types import Family, Type

Result: TypeAlias = Type | int
"""A type, or the number of the argument whose type the result has."""
Check: TypeAlias = Callable[[Sequence[Expr], Span, Report], None]
"""Looks at the arguments, constants above all, and at the call's place; says what is wrong."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function. `template` has {0}, {1} … for the arguments, {type} for the result's."""

    parameters: tuple[Family, ...]
    result: Result
    template: str
    variadic: bool = False
    """The last parameter may be repeated; `template` then has {rest} for all of them, separated by commas."""
    same: bool = False
    """All arguments are made one type first, which the result has too."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function, under the name that the documentation gives it."""

    name: str
    signatures: tuple[Signature, ...]
    aggregate: bool = False
    own: bool = False
    """One of ours: a file of runtime/udfs/ brings it to Spark."""
    check: Check | None = None
    warning: str | None = None
    """What the plan says to whoever uses it."""


def scalar(
    name: str, parameters: Sequence[Family], result: Result, template: str, **options: bool
) -> Function:
    """A function with one signature."""
    return Function(name, (Signature(tuple(parameters), result, template, **options),))


def overloaded(name: str, *signatures: Signature, check: Check | None = None) -> Function:
    """A function with several."""
    return Function(name, signatures, check=check)
