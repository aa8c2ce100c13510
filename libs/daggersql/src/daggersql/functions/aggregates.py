"""Aggregates. All of them leave NULL out, so FILTER is a CASE around their argument."""

from __future__ import annotations

from daggersql.functions.signature import Function, Signature
from daggersql.types import BIGINT, DOUBLE, Decimal, Family

NUMBER, DECIMAL, WHOLE, ANY = Family.NUMBER, Family.DECIMAL, Family.INTEGER, Family.ANY
_ORDERED = (WHOLE, DECIMAL, NUMBER, Family.TEXT, Family.TIMESTAMP, Family.DATE, Family.BOOLEAN, Family.BINARY)


def _aggregate(name: str, *signatures: Signature, warning: str | None = None) -> Function:
    return Function(name, signatures, aggregate=True, warning=warning)


def _extreme(name: str) -> Function:
    return _aggregate(name, *(Signature((each,), 0, f"{name.lower()}({{0}})") for each in _ORDERED))


FUNCTIONS = (
    _aggregate("COUNT", Signature((ANY,), BIGINT, "count({0})")),
    # BIGINT for every whole number: a sum that Flink would let overflow is right here.
    _aggregate(
        "SUM",
        Signature((WHOLE,), BIGINT, "try_sum({0})"),
        Signature((DECIMAL,), Decimal(38, 6), "try_sum(CAST({0} AS DECIMAL(28, 6)))"),
        Signature((NUMBER,), DOUBLE, "sum(CAST({0} AS DOUBLE))"),
    ),
    _extreme("MIN"),
    _extreme("MAX"),
    # The average of whole numbers is whole, as in Flink, cut off towards zero.
    _aggregate(
        "AVG",
        Signature((WHOLE,), 0, "CAST(try_sum({0}) div nullif(count({0}), 0) AS {type})"),
        Signature((NUMBER,), DOUBLE, "avg(CAST({0} AS DOUBLE))"),
    ),
)
