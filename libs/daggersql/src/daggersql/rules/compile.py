"""Checks rules by the columns of a query, and compiles them to Spark SQL. Every finding has its rule and part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal as Exact
from typing import Final

from daggerspec.columns import Role, role_of
from daggerspec.nearest import nearest
from daggerspec.query import quote_name
from daggersql.analyse import rowconditions
from daggersql.emit.expressions import sql as sql_of
from daggersql.findings import Finding, Report, instead, unless
from daggersql.ir import lineage, whole
from daggersql.ir.expr import Expr
from daggersql.ir.ops import Op
from daggersql.ir.relations import ROW, Result
from daggersql.ir.types import Array, MapOf, Message, Struct, Type
from daggersql.plan import fixed_size
from daggersql.rules import summary
from daggersql.rules.compiled import Comparison, CompiledRule, RuleFinding, RuleText
from daggersql.syntax.parsing import parse_expression

_ABOVE: Final = {Op.GREATER: True, Op.AT_LEAST: True, Op.LESS: False, Op.AT_MOST: False}
_CASTS: Final = (Op.CAST, Op.STRICT_CAST)
_LATER: Final = {
    "before": "the dagger's own past: compute the older value in the query",
    "outside": "a band of the dagger's own past: compare with a number",
}


def compile_rule(
    number: int,
    rule: RuleText,
    query: Result,
    report_for: Callable[[str], Report],
    judged: Callable[[Report, Callable[[], Expr]], Expr | None],
    *,
    early: bool,
) -> CompiledRule | list[RuleFinding]:
    """Compile a rule; return all findings about it instead where it has any.

    report_for: makes the report of a text. judged: runs a check, and returns None once that has reported an
    error. early: rows are written while their windows are open.
    """
    found: list[RuleFinding] = []

    def condition(part: str, text: str) -> Expr | None:
        report = report_for(text)

        def check() -> Expr:
            expression = rowconditions.check(parse_expression(text, report), query, report)
            for node in expression.nodes():
                if node.function:
                    say = f"A rule calls no {node.function}: compute it in the query, and name its column."
                    report.error("UNSUPPORTED_FUNCTION", node.span, say)
            return expression

        expression = judged(report, check)
        found.extend(RuleFinding(number, part, _say_later(one)) for one in report.findings())
        return None if report.failed else expression

    def fail(part: str, text: str, code: str, message: str, span: tuple[int, int] | None = None) -> None:
        report = report_for(text)
        report.error(code, span or (0, len(text)), message)
        found.extend(RuleFinding(number, part, one) for one in report.findings())

    if early or fixed_size(whole.window(query)) is None:
        why = "its rows are written while their windows are open" if early else "it has none"
        text = f"Rules judge each window once, of a query that is grouped by one TUMBLE or HOP: {why}."
        fail("when", rule.when, "RULE_NEEDS_WINDOW", text)
        return found
    types = {output.name: output.value.type for output in query.outputs if output.name}
    when = condition("when", rule.when)
    compared = _comparison(when) if when is not None else None
    over: Expr | None = None
    if rule.resolve_when:
        over = condition("resolve_when", rule.resolve_when)
    elif rule.clear and when is not None:
        if compared is None or _is_joined(when):
            message = "It needs a `when` that compares one column with a number; else write `resolve_when`."
            fail("clear", f"{rule.clear:.0%}", "CLEAR_NOT_POSSIBLE", message)
        else:
            over = condition("clear", _cleared(compared, rule.clear))
    key = rule.key or tuple(name for name in types if role_of(name) is Role.TAG)
    for place, name in enumerate(rule.key):
        if (problem := _wrong_key(name, types)) is not None:
            fail(f"key[{place}]", name, *problem)
    named: tuple[str, ...] = ()
    try:
        parts = summary.parse(rule.summary)
    except summary.TemplateError as error:
        fail("summary", rule.summary, "INVALID_SUMMARY", error.problem, (error.offset, error.offset + 1))
    else:
        named = summary.columns(parts)
        for one in parts:
            if isinstance(one, summary.Placeholder) and one.column not in types:
                _refuse_unknown(one, types, report := report_for(rule.summary))
                found.extend(RuleFinding(number, "summary", finding) for finding in report.findings())
    if found or when is None:
        return found
    conditions = [one for one in (when, over) if one is not None]
    read = tuple(dict.fromkeys((*(name for one in conditions for name in _columns(one)), *named)))
    by_name = dict(zip((output.name for output in query.outputs), lineage.origins(query), strict=True))
    origins = lineage.NONE.union(*(by_name[name] for name in (*read, *key)))
    return CompiledRule(
        rule,
        sql_of(when),
        sql_of(over) if over is not None else "",
        key,
        read,
        compared,
        tuple(sorted(origins)),
    )


def _say_later(finding: Finding) -> Finding:
    """Say of functions that rules will have, that they have them not yet."""
    if finding.code != "UNKNOWN_FUNCTION":
        return finding
    for name, instead_of in _LATER.items():
        if f" {name} " in f" {finding.message.lower().rstrip('.').replace('(', ' ')} ":
            message = f"{name} is no function of rules yet. It will read {instead_of}."
            return Finding(
                "UNSUPPORTED_FUNCTION",
                finding.severity,
                message,
                finding.line,
                finding.column,
                finding.end_line,
                finding.end_column,
            )
    return finding


def _columns(expression: Expr) -> Iterator[str]:
    for node in expression.nodes():
        if node.ref is not None and node.ref.relation == ROW:
            yield node.ref.path[0]


def _wrong_key(name: str, types: dict[str, Type]) -> tuple[str, str] | None:
    if name not in types:
        near = nearest(name, types)
        hint = f": did you mean {near}?" if near else f": there are {', '.join(types)}"
        return "UNKNOWN_COLUMN", f"The query has no column {name}{hint}"
    if isinstance(types[name], Array | MapOf | Message | Struct):
        return "TYPE_MISMATCH", f"{name} is no single value, as a key must be."
    return None


def _refuse_unknown(place: summary.Placeholder, types: dict[str, Type], report: Report) -> None:
    near = report.nearest(place.column, types)
    span = (place.offset, place.offset + len(place.column))
    there = f": there are {', '.join(types)}"
    message = f"The query has no column {place.column}{unless(near, there)}."
    report.error("UNKNOWN_COLUMN", span, message, instead(span, near))


def _is_joined(condition: Expr) -> bool:
    return condition.op in (Op.AND, Op.OR, Op.NOT)


def _comparison(condition: Expr) -> Comparison | None:
    """Find the comparison of a column with a number that a condition is, or that it begins with."""
    while condition.op is Op.AND:
        condition = condition.args[0]
    if not isinstance(condition.op, Op) or condition.op not in _ABOVE:
        return None
    left, right = map(_uncast, condition.args)
    above = _ABOVE[condition.op]
    if left.is_constant:
        left, right, above = right, left, not above
    number = _number(right)
    if left.op is not Op.COLUMN or left.ref is None or len(left.ref.path) != 1 or number is None:
        return None
    return Comparison(left.ref.path[0], number, above)


def _uncast(expression: Expr) -> Expr:
    while expression.op in _CASTS and expression.args:
        (expression,) = expression.args
    return expression


def _number(expression: Expr) -> float | None:
    """Return the number that a constant is, with its sign; None for anything else."""
    sign = 1
    while expression.op is Op.NEGATE:
        sign, expression = -sign, _uncast(expression.args[0])
    if not expression.is_constant or expression.literal is None or isinstance(expression.value, str | bool):
        return None
    try:
        number = float(expression.literal.text)
    except ValueError:
        return None
    return sign * (-number if expression.literal.minus % 2 else number)


def _cleared(comparison: Comparison, share: float) -> str:
    """Write the condition that a column is better than its limit by a share of that."""
    limit = Exact(repr(comparison.limit))
    room = abs(limit) * Exact(repr(share))
    end = limit - room if comparison.above else limit + room
    return f"{quote_name(comparison.column)} {'<=' if comparison.above else '>='} {end:f}"


def compile_rules(
    rules: Sequence[RuleText],
    query: Result,
    report_for: Callable[[str], Report],
    judged: Callable[[Report, Callable[[], Expr]], Expr | None],
    *,
    early: bool,
) -> tuple[tuple[CompiledRule, ...], tuple[RuleFinding, ...]]:
    """Compile rules; return those without findings, and all findings about the others."""
    fine: list[CompiledRule] = []
    wrong: list[RuleFinding] = []
    for number, rule in enumerate(rules):
        result = compile_rule(number, rule, query, report_for, judged, early=early)
        if isinstance(result, CompiledRule):
            fine.append(result)
        else:
            wrong += result
    return tuple(fine), tuple(wrong)
