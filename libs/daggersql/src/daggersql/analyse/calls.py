"""Calls of functions: which one is meant, whether its arguments fit, what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from daggersql.findings import Report, Span, instead
from daggersql.functions import names, registry
from daggersql.functions.own import NOT_YET
from daggersql.functions.signature import Function, Signature
from daggersql.ir.expr import Expr, call, cast, wrong
from daggersql.ir.families import NUMERIC, WORDS, Family, fits
from daggersql.ir.ops import Op
from daggersql.ir.types import NULL, STRING, Type
from daggersql.operators.coercion import choose, describe


def find_function(name: str, span: Span, report: Report) -> Function | None:
    """Find a function by its name; None, with a finding, when there is none that can be used."""
    function = registry.find(name)
    if function is not None:
        return function
    upper = name.upper()
    if names.FORBIDDEN.fullmatch(name):
        report.error("FORBIDDEN_FUNCTION", span, f"The function {name} is not allowed.")
    elif upper in names.UNREPEATABLE:
        report.error(
            "UNSUPPORTED_FUNCTION",
            span,
            f"{name} gives another answer at every run: rows could not be repeated.",
        )
    elif upper in names.UNSUPPORTED:
        report.error("UNSUPPORTED_FUNCTION", span, names.UNSUPPORTED[upper])
    elif upper in {word.upper() for word in NOT_YET}:
        report.error("UNSUPPORTED_FUNCTION", span, f"The function {name} is not supported yet.")
    else:
        suggestion = names.SYNONYMS.get(upper) or report.nearest(name, registry.known_names())
        name_place = (span[0], span[0] + len(name))
        rewrite = instead(name_place, suggestion) if report.text[slice(*name_place)] == name else suggestion
        report.error("UNKNOWN_FUNCTION", span, f"There is no function {name}.", rewrite)
    return None


def call_function(
    function: Function, arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None = None
) -> Expr:
    """Check a call; `where`: the condition of a FILTER."""
    signatures = [signature for signature in function.signatures if _takes(signature, len(arguments))]
    if not signatures:
        report.error(
            "WRONG_ARGUMENT_COUNT", span, f"{function.name} takes {_counts(function)}, not {len(arguments)}."
        )
        return wrong(span)
    if any(argument.wrong for argument in arguments):
        return wrong(span)
    signature = _choose(signatures, arguments)
    if signature is None:
        _say_mismatch(function, signatures, arguments, report)
        return wrong(span)
    if function.check is not None:
        function.check(arguments, span, report)
    if function.warning is not None:
        report.warn("APPROXIMATE", span, function.warning)
    if function.build is not None:
        built = function.build(arguments, span, report, where)
        return replace(built, function=function.name.lower()) if function.own else built
    return _build(function, signature, arguments, span, report, where)


def _takes(signature: Signature, count: int) -> bool:
    least = len(signature.parameters)
    return count >= least if signature.variadic else count == least


def _counts(function: Function) -> str:
    counts = sorted({len(signature.parameters) for signature in function.signatures})
    more = " or more" if any(signature.variadic for signature in function.signatures) else ""
    plural = "" if counts == [1] and not more else "s"
    return f"{' or '.join(map(str, counts))}{more} argument{plural}"


def _parameter(signature: Signature, index: int) -> Family:
    """Return the family of an argument's parameter; the last one repeats."""
    return signature.parameters[min(index, len(signature.parameters) - 1)]


def _choose(signatures: Sequence[Signature], arguments: Sequence[Expr]) -> Signature | None:
    for signature in signatures:
        if all(fits(argument.type, _parameter(signature, span)) for span, argument in enumerate(arguments)):
            return signature
    return None


def _say_mismatch(
    function: Function, signatures: Sequence[Signature], arguments: Sequence[Expr], report: Report
) -> None:
    for span, argument in enumerate(arguments):
        wanted = list(dict.fromkeys(_parameter(signature, span) for signature in signatures))
        if not any(fits(argument.type, family) for family in wanted):
            if Family.NUMBER in wanted:  # whole and decimal numbers are numbers
                wanted = [family for family in wanted if family not in NUMERIC - {Family.NUMBER}]
            words = " or ".join(dict.fromkeys(WORDS[family] for family in wanted))
            report.error(
                "TYPE_MISMATCH",
                argument.span,
                f"Argument {span + 1} of {function.name} is {words}, not {describe(argument)}.",
            )
            return
    report.error("TYPE_MISMATCH", arguments[0].span, f"{function.name} does not take these together.")


def _build(
    function: Function,
    signature: Signature,
    arguments: Sequence[Expr],
    span: Span,
    report: Report,
    where: Expr | None,
) -> Expr:
    args = tuple(arguments)
    result: Type | int = signature.result
    if signature.same:
        chosen = choose(args, report)
        if chosen is None:
            return wrong(span)
        result, args = chosen
    # A NULL without a type would leave Spark without one too.
    args = tuple(
        cast(argument, STRING) if argument.type == NULL and not signature.same else argument
        for argument in args
    )
    kind = args[result].type if isinstance(result, int) else result
    if where is not None:
        args = tuple(replace_where(argument, where) for argument in args)
    return Expr(
        signature.form,
        kind,
        span,
        args,
        aggregate=function.aggregate,
        function=function.name.lower() if function.own else None,
    )


def replace_where(argument: Expr, where: Expr) -> Expr:
    """Make the argument of an aggregate NULL where the FILTER's condition is not true."""
    return call(Op.CASE, argument.type, argument.span, where, argument)
