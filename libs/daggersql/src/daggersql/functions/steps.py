"""Steps over a list, as ArrayOperate and ArrayAggregate take them: 'distinct.sorted', 'distinct.sum'.

The list is first made one of a declared type: whole numbers, DOUBLE, or `other`, which leaves it as it is.
Text is read as numbers, what is none becomes NULL. The steps are those that a Java stream of that type has
without arguments and that mean something for a list. Letter case matters neither in types nor in steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from daggersql.findings import Report, instead_of_constant, instead_of_step, unless
from daggersql.functions.checks import is_null
from daggersql.ir.expr import Expr, call
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Form
from daggersql.ir.types import BIGINT, DOUBLE, INTEGERS, NULL, STRING, Array, Scalar
from daggersql.operators.coercion import describe

KINDS: Mapping[str, Scalar | None] = {
    "int": BIGINT, "integer": BIGINT, "long": BIGINT, "bigint": BIGINT, "float": DOUBLE, "double": DOUBLE,
    "other": None,
}  # fmt: skip
"""Types of elements, in lower case, and what elements become; None leaves them as they are."""
NOTHING = ("parallel", "sequential", "unordered")
"""Steps that say how Java goes about it, and change nothing."""
_SORTED = Form("array_sort({0})")
_SAME = {"distinct": Form("array_distinct({0})"), "sorted": _SORTED, "sort": _SORTED}
_NUMBERS = {kind: Form(f"transform({{0}}, x -> try_cast(x AS {kind.spark}))") for kind in (BIGINT, DOUBLE)}
_AS = {"asLongStream": "long", "asDoubleStream": "double"}
TRANSFORMS = (*_SAME, *NOTHING, "boxed", *_AS)
"""Steps that keep a list a list."""
NUMERIC = ("sum", "average", "min", "max")
ENDS = ("count", "findFirst", "findAny", "toArray", *NUMERIC)
"""Steps that make one value of a list; NUMERIC are those that only a list of numbers has."""
_ALL: Mapping[str, str] = {name.lower(): name for name in (*TRANSFORMS, *ENDS)}
_ORDERLESS = (Family.MAP, Family.ARRAY, Family.NULL)


def parse(steps: str) -> list[str]:
    """Split a text into steps, in the spelling of this module. As in Java, last dots are ignored."""
    names = [name.strip() for name in steps.split(".")]
    while len(names) > 1 and not names[-1]:
        names.pop()
    return [_ALL.get(name.lower(), name) for name in names]


def read_steps(steps: Expr, allowed: Collection[str], report: Report) -> list[str] | None:
    """Read the steps of a constant; None, with a finding, when one of them is not allowed."""
    if not isinstance(steps.value, str):
        report.error("INVALID_ARGUMENT", steps.span, "The steps are written as a constant.", "'distinct'")
        return None
    names = parse(steps.value)
    for name in names:
        if name not in allowed:
            near = report.nearest(name, allowed)
            text = f"There is no step {name!r}" + unless(near, f"; there are {', '.join(allowed)}")
            rewrite = instead_of_step(steps.span, names, name, near)
            report.error("UNSUPPORTED_OPERATION", steps.span, text, rewrite)
            return None
    return names


def read_kind(kind: Expr, report: Report) -> str | None:
    """Read the declared type of the elements, in lower case; None, with a finding, when it is none."""
    if not isinstance(kind.value, str):
        report.error("INVALID_ARGUMENT", kind.span, "The type is written as a constant.", "'other'")
        return None
    name = kind.value.lower()
    if name not in KINDS:
        hint = "text is 'other'" if name in ("string", "text", "varchar") else f"one of {', '.join(KINDS)}"
        report.error(
            "UNSUPPORTED_TYPE",
            kind.span,
            f"There is no type {kind.value!r}: {hint}.",
            instead_of_constant(kind.span, "other"),
        )
        return None
    return name


def elements_as(values: Expr, kind: str, report: Report) -> Expr | None:
    """Convert a list to elements of the declared type; None, with a finding, when that is not possible."""
    element = values.type.element if isinstance(values.type, Array) else STRING
    wanted = KINDS[kind]
    if wanted is None or element == wanted or (wanted == BIGINT and element in INTEGERS):
        return values
    takes = {Family.TEXT, Family.INTEGER, Family.DECIMAL} | ({Family.NUMBER} if wanted == DOUBLE else set())
    if family(element) not in takes:
        words = "whole numbers" if wanted == BIGINT else "numbers"
        report.error("TYPE_MISMATCH", values.span, f"{kind} is for {words}, not for {describe(values)}.")
        return None
    return call(_NUMBERS[wanted], Array(wanted), values.span, values)


def apply_steps(values: Expr, steps: Sequence[str], report: Report) -> Expr | None:
    """Apply steps that keep a list a list; None, with a finding, when its elements do not allow one."""
    for step in steps:
        result: Expr | None = values
        if step in _SAME:
            result = _same(values, step, report)
        elif step in _AS:
            result = elements_as(values, _AS[step], report)
        if result is None:
            return None
        values = result
    return values


def _same(values: Expr, step: str, report: Report) -> Expr | None:
    element = values.type.element if isinstance(values.type, Array) else STRING
    # Messages can be told apart, but not sorted.
    refused = (*_ORDERLESS, *(() if step == "distinct" else (Family.STRUCT,)))
    if (family(element) in refused or "map<" in element.spark) and not is_null(values):
        report.error("TYPE_MISMATCH", values.span, f"{step} does not work on {describe(values)}.")
        return None
    return call(_SAME[step], values.type, values.span, values)


def nothing(values: Expr) -> bool:
    """Tell whether a list is the constant NULL."""
    return values.type == NULL
