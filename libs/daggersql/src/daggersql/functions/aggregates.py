"""Aggregates. All of them leave NULL out, so FILTER is a CASE around their argument."""

from __future__ import annotations

from daggersql.functions.checks import check_constant_text
from daggersql.functions.collected import MOST, too_many
from daggersql.functions.signature import Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Keeps, Op
from daggersql.ir.types import BIGINT, DOUBLE, STRING, Decimal

NUMBER, DECIMAL, WHOLE, ANY = Family.NUMBER, Family.DECIMAL, Family.INTEGER, Family.ANY
_ORDERED = (WHOLE, DECIMAL, NUMBER, Family.TEXT, Family.TIMESTAMP, Family.DATE, Family.BOOLEAN, Family.BINARY)


def _aggregate(name: str, *signatures: Signature, warning: str | None = None) -> Function:
    return Function(name, signatures, aggregate=True, warning=warning)


def _extreme(name: str, op: Op, of_floats: Op) -> Function:
    # A decimal fits where a number is asked for, so it stands before.
    return _aggregate(
        name, *(Signature((family,), 0, of_floats if family is NUMBER else op) for family in _ORDERED)
    )


def _listagg(separator: str) -> Form:
    """Build the form that joins the texts of a group in the order of arrival, without NULLs."""
    refusal = (
        f"[daggers USER RESULT_TOO_LARGE] A group has more than {MOST:,} values in LISTAGG: group by more."
    )
    return Form(
        f"CASE WHEN {too_many('{0}')} THEN raise_error('{refusal}')"
        f" WHEN count({{0}}) > 0 THEN array_join(collect_list({{0}}), {separator}) END",
        keeps=Keeps("list", "LISTAGG", ends=True),
    )


FUNCTIONS = (
    _aggregate("COUNT", Signature((ANY,), BIGINT, Op.COUNT)),
    _aggregate(
        "SUM",
        Signature((WHOLE,), BIGINT, Op.SUM_OF_WHOLE),
        Signature((DECIMAL,), Decimal(38, 6), Op.SUM_OF_DECIMALS),
        Signature((NUMBER,), DOUBLE, Op.SUM_OF_FLOATS),
    ),
    _extreme("MIN", Op.MIN, Op.MIN_OF_FLOATS),
    _extreme("MAX", Op.MAX, Op.MAX_OF_FLOATS),
    _aggregate(
        "AVG",
        Signature((WHOLE,), 0, Op.AVERAGE_OF_WHOLE),
        Signature((NUMBER,), DOUBLE, Op.AVERAGE_OF_FLOATS),
    ),
    *(
        _aggregate(name, Signature((NUMBER,), DOUBLE, op))
        for name, op in (
            ("STDDEV_POP", Op.STDDEV_POP),
            ("STDDEV_SAMP", Op.STDDEV_SAMP),
            ("STDDEV", Op.STDDEV_SAMP),
            ("VAR_POP", Op.VAR_POP),
            ("VAR_SAMP", Op.VAR_SAMP),
            ("VARIANCE", Op.VAR_SAMP),
        )
    ),
    Function(
        "LISTAGG",
        (
            Signature((Family.TEXT,), STRING, _listagg("','")),
            Signature((Family.TEXT, Family.TEXT), STRING, _listagg("{1}")),
        ),
        aggregate=True,
        check=check_constant_text(1, "The separator", "','"),
    ),
)
