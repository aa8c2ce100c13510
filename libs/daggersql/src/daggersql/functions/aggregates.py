"""Aggregates. All of them leave NULL out, so FILTER is a CASE around their argument."""

from __future__ import annotations

from daggersql import exact
from daggersql.functions.checks import check_constant_text
from daggersql.functions.collected import MOST, too_many
from daggersql.functions.signature import Function, Signature
from daggersql.ir.types import BIGINT, DOUBLE, STRING, Decimal, Family, Type

NUMBER, DECIMAL, WHOLE, ANY = Family.NUMBER, Family.DECIMAL, Family.INTEGER, Family.ANY
_ORDERED = (WHOLE, DECIMAL, NUMBER, Family.TEXT, Family.TIMESTAMP, Family.DATE, Family.BOOLEAN, Family.BINARY)
# What `daggersql.emit.partial` knows how to put together from parts.
COUNT, MIN, MAX = "count({0})", "min({0})", "max({0})"
# BIGINT for every whole number: a sum that Flink would let overflow is right here.
WHOLE_SUM = "try_sum({0})"
SUM = exact.total([f"sum({exact.part('CAST({0} AS DOUBLE)', number)})" for number in exact.PARTS])
AVERAGE = f"({SUM} / count({{0}}))"
# The average of whole numbers is whole, as in Flink, cut off towards zero.
_WHOLE_AVERAGE = "CAST(try_sum({0}) div nullif(count({0}), 0) AS {type})"


def whole_average(of: Type) -> str:
    """The template of the average of whole numbers of that type."""
    return _WHOLE_AVERAGE.replace("{type}", of.spark)


def _aggregate(name: str, *signatures: Signature, warning: str | None = None) -> Function:
    return Function(name, signatures, aggregate=True, warning=warning)


def _extreme(name: str, template: str) -> Function:
    return _aggregate(name, *(Signature((each,), 0, template) for each in _ORDERED))


def _listed(separator: str) -> str:
    """The texts of a group with a separator between them, in the order they came; NULL is none."""
    refusal = (
        f"[daggers USER RESULT_TOO_LARGE] A group has more than {MOST:,} values in LISTAGG: group by more."
    )
    return (
        f"CASE WHEN {too_many('{0}')} THEN raise_error('{refusal}')"
        f" WHEN count({{0}}) > 0 THEN array_join(collect_list({{0}}), {separator}) END"
    )


FUNCTIONS = (
    _aggregate("COUNT", Signature((ANY,), BIGINT, COUNT)),
    _aggregate(
        "SUM",
        Signature((WHOLE,), BIGINT, WHOLE_SUM),
        Signature((DECIMAL,), Decimal(38, 6), "try_sum(CAST({0} AS DECIMAL(28, 6)))"),
        Signature((NUMBER,), DOUBLE, SUM),
    ),
    _extreme("MIN", MIN),
    _extreme("MAX", MAX),
    _aggregate(
        "AVG",
        Signature((WHOLE,), 0, _WHOLE_AVERAGE),
        Signature((NUMBER,), DOUBLE, AVERAGE),
    ),
    *(
        _aggregate(name, Signature((NUMBER,), DOUBLE, f"{spark}(CAST({{0}} AS DOUBLE))"))
        for name, spark in (
            ("STDDEV_POP", "stddev_pop"),
            ("STDDEV_SAMP", "stddev_samp"),
            ("STDDEV", "stddev_samp"),
            ("VAR_POP", "var_pop"),
            ("VAR_SAMP", "var_samp"),
            ("VARIANCE", "var_samp"),
        )
    ),
    Function(
        "LISTAGG",
        (
            Signature((Family.TEXT,), STRING, _listed("','")),
            Signature((Family.TEXT, Family.TEXT), STRING, _listed("{1}")),
        ),
        aggregate=True,
        check=check_constant_text(1, "The separator", "','"),
    ),
)
