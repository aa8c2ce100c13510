"""Functions over numbers. What has no answer is NULL, never an error."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.signature import Function, Signature, overloads, scalar
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import BIGINT, DOUBLE, INT

NUMBER, WHOLE = Family.NUMBER, Family.INTEGER
MAX_PLACES = 18
_D = "CAST({0} AS DOUBLE)"
_LN = "CASE WHEN CAST({{{0}}} AS DOUBLE) > 0 THEN ln(CAST({{{0}}} AS DOUBLE)) END"
# Every double from here on is whole, and Spark's floor and ceil go through BIGINT.
_ALL_WHOLE = 2**53


def _check_places(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    """Spark rounds to a constant number of places."""
    for places in arguments[1:]:
        value = places.value
        if places.wrong:
            continue
        if not isinstance(value, int) or not -MAX_PLACES <= value <= MAX_PLACES:
            report.error(
                "INVALID_ARGUMENT",
                places.span,
                f"The number of places is a constant from -{MAX_PLACES} to {MAX_PLACES}.",
            )


def _over_double(name: str) -> Function:
    return scalar(name, [NUMBER], DOUBLE, f"{name.lower()}({_D})")


def _logarithm(name: str) -> Function:
    return scalar(name, [NUMBER], DOUBLE, f"CASE WHEN {_D} > 0 THEN {name.lower()}({_D}) END")


def _towards(name: str, spark: str) -> Function:
    small = f"abs({_D}) < {_ALL_WHOLE}"
    form = Form(f"CASE WHEN {small} THEN CAST({spark}({_D}) AS DOUBLE) ELSE {_D} END", total=True)
    return overloads(name, Signature((WHOLE,), 0, _ITSELF), Signature((NUMBER,), DOUBLE, form))


def _truncate(value: str, places: str) -> str:
    exact = f"try_cast({value} AS DECIMAL(38, 18))"
    cut = f"CASE WHEN {value} < 0 THEN ceil({exact}, {places}) ELSE floor({exact}, {places}) END"
    return f"coalesce(CAST({cut} AS DOUBLE), {value})"


_WHOLE_ROUND = Form("try_cast(round(CAST({0} AS DECIMAL(20, 0)), {1}) AS BIGINT)", total=True)
_ABSOLUTE = Form("CASE WHEN {0} < 0 THEN try_subtract({0} - {0}, {0}) ELSE {0} END", total=True)
_ITSELF = Form("{0}", total=True)

FUNCTIONS = (
    overloads(
        "ABS",
        Signature((WHOLE,), 0, _ABSOLUTE),
        Signature((NUMBER,), 0, Form("abs({0})", total=True)),
    ),
    _towards("CEIL", "ceil"),
    _towards("CEILING", "ceil"),
    _towards("FLOOR", "floor"),
    overloads(
        "SIGN",
        Signature((WHOLE,), INT, "CASE WHEN {0} > 0 THEN 1 WHEN {0} < 0 THEN -1 WHEN {0} = 0 THEN 0 END"),
        Signature((NUMBER,), DOUBLE, f"sign({_D})"),
    ),
    overloads(
        "ROUND",
        Signature((WHOLE,), 0, _ITSELF),
        Signature((NUMBER,), DOUBLE, Form(f"round({_D})", total=True)),
        Signature((WHOLE, WHOLE), BIGINT, _WHOLE_ROUND),
        Signature((NUMBER, WHOLE), DOUBLE, Form(f"round({_D}, {{1}})", total=True)),
        check=_check_places,
    ),
    overloads(
        "TRUNCATE",
        Signature((WHOLE,), 0, _ITSELF),
        Signature((NUMBER,), DOUBLE, Form(_truncate(_D, "0"), total=True)),
        Signature((NUMBER, WHOLE), DOUBLE, Form(_truncate(_D, "{1}"), total=True)),
        check=_check_places,
    ),
    _over_double("SQRT"),
    _over_double("CBRT"),
    scalar("EXP", [NUMBER], DOUBLE, Form(f"exp({_D})", total=True)),
    _logarithm("LN"),
    _logarithm("LOG10"),
    _logarithm("LOG2"),
    overloads(
        "LOG",
        Signature((NUMBER,), DOUBLE, f"CASE WHEN {_D} > 0 THEN ln({_D}) END"),
        Signature((NUMBER, NUMBER), DOUBLE, f"try_divide({_LN.format(1)}, {_LN.format(0)})"),
    ),
    scalar("COT", [NUMBER], DOUBLE, f"CASE WHEN {_D} <> 0 THEN cot({_D}) END"),
    scalar("POWER", [NUMBER, NUMBER], DOUBLE, f"power({_D}, CAST({{1}} AS DOUBLE))"),
    scalar("ATAN2", [NUMBER, NUMBER], DOUBLE, f"atan2({_D}, CAST({{1}} AS DOUBLE))"),
    *(
        _over_double(name)
        for name in (
            "SIN",
            "COS",
            "TAN",
            "ASIN",
            "ACOS",
            "ATAN",
            "SINH",
            "COSH",
            "TANH",
            "RADIANS",
            "DEGREES",
        )
    ),
    scalar("PI", [], DOUBLE, "pi()"),
    scalar("E", [], DOUBLE, "e()"),
)
