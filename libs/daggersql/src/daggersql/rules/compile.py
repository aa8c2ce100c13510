"""Checks rules by the columns of a query, and compiles them to Spark SQL. Every finding has its rule and
part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from daggerspec.columns import Role, role_of
from daggerspec.nearest import nearest
from daggersql.analyse import rowconditions
from daggersql.emit.expressions import sql as sql_of
from daggersql.findings import Finding, Report, Span, instead, unless
from daggersql.ir import lineage, whole
from daggersql.ir.expr import Expr
from daggersql.ir.relations import ROW, Result
from daggersql.ir.types import BOOLEAN, DOUBLE, Array, MapOf, Message, Struct, Type
from daggersql.plan import Window, fixed_size
from daggersql.rules import bands, past, summary
from daggersql.rules.bands import BandCalls, answer, column_of
from daggersql.rules.calls import Read, replace_calls
from daggersql.rules.comparisons import find_comparison, is_joined, write_cleared
from daggersql.rules.compiled import (
    CompiledRule,
    ConditionPair,
    LimitComparison,
    PastValue,
    RuleFinding,
    RuleText,
    SeasonalBand,
)
from daggersql.rules.limits import LimitColumns
from daggersql.rules.past import PastCalls
from daggersql.syntax.parsing import parse_expression

ReportFor: TypeAlias = Callable[[str], Report]
"""Makes the report of a text."""
Run: TypeAlias = Callable[[Report, Callable[[], Expr]], Expr | None]
"""Runs a check, and returns None once that has reported an error that ends it."""


def compile_rules(
    rules: Sequence[RuleText], query: Result, report_for: ReportFor, run: Run, *, early: bool
) -> tuple[tuple[CompiledRule, ...], tuple[RuleFinding, ...]]:
    """Compile rules; return those without findings, and all findings about the others.

    early: rows are written while their windows are open.
    """
    fine: list[CompiledRule] = []
    wrong: list[RuleFinding] = []
    for number, rule in enumerate(rules):
        compiler = _Compiler(number, rule, query, report_for, run)
        compiled = compiler.compile(early=early)
        if compiled is not None:
            fine.append(compiled)
        wrong += compiler.findings
    return tuple(fine), tuple(wrong)


class _Compiler:
    """Compiles one rule, and collects the findings about it."""

    def __init__(self, number: int, rule: RuleText, query: Result, report_for: ReportFor, run: Run) -> None:
        self._number, self._rule, self._query = number, rule, query
        self._report_for, self._run = report_for, run
        self._types = {output.name: output.value.type for output in query.outputs if output.name}
        self._tags = {name: kind for name, kind in self._types.items() if role_of(name) is Role.TAG}
        self._window = fixed_size(whole.window(query))
        self._past: dict[str, PastValue] = {}
        self._bands = BandCalls(self._tags)
        self._limits = LimitColumns(rule.limits, self._types, report_for)
        self.findings: list[RuleFinding] = []

    def compile(self, *, early: bool) -> CompiledRule | None:
        """Compile the rule; None where there are findings."""
        rule = self._rule
        if early or self._window is None:
            why = "its rows are written while their windows are open" if early else "it has none"
            text = f"Rules judge each window once, of a query that is grouped by one TUMBLE or HOP: {why}."
            self._fail("absent" if rule.is_of_absence else "when", rule.when, "RULE_NEEDS_WINDOW", text)
            return None
        if rule.is_of_absence:
            return self._compile_absence(self._window)
        self._add_each(self._limits.check())
        when = self._condition("when", rule.when)
        compared = find_comparison(when, self._limits.columns) if when is not None else None
        over = self._over(when, compared)
        self._check_key()
        named = self._check_summary()
        if self.findings or when is None:
            return None
        conditions = [one for one in (when, over) if one is not None]
        read = tuple(dict.fromkeys((*(name for one in conditions for name in self._columns(one)), *named)))
        if self._bands.band is not None:
            answers = tuple(self._answer(when, over, outside) for outside in (True, False, None))
            return replace(self._build("", "", read, compared), band=self._bands.band, answers=answers)
        return self._build(*self._write(when, over), read, compared)

    def _write(self, when: Expr, over: Expr | None) -> ConditionPair:
        return self._limits.need(sql_of(when), sql_of(over) if over is not None else "")

    def _answer(self, when: Expr, over: Expr | None, outside: bool | None) -> ConditionPair:
        """Write the rule for one answer of its band."""
        band = self._bands.band
        assert band is not None
        is_over = over and answer(over, band, outside=outside)
        return self._write(answer(when, band, outside=outside), is_over)

    def _columns(self, expression: Expr) -> Iterator[str]:
        """Yield the columns that a condition reads; of a band those of its number."""
        band = self._bands.band
        for node in expression.nodes():
            if node.ref is not None and node.ref.relation == ROW:
                is_band = band is not None and node.ref.path[0] == column_of(band)
                yield from band.columns if band is not None and is_band else node.ref.path[:1]

    def _compile_absence(self, window: Window) -> CompiledRule | None:
        """Compile a rule on absent rows: of a row it reads the key alone."""
        rule = self._rule
        self._check_key()
        if rule.absent is not None and rule.absent < window.slide:
            message = f"It must be at least the {window.slide.total_seconds():g} s from window to window."
            self._fail("absent", "", "OUT_OF_RANGE", message)
        for name in self._check_summary():
            if name in self._types and name not in self._key:
                message = f"There is no row to take {name} from: the summary may name {', '.join(self._key)}."
                self._fail("summary", rule.summary, "COLUMN_NOT_IN_KEY", message)
        return None if self.findings else self._build("TRUE", "", (), None)

    @property
    def _key(self) -> tuple[str, ...]:
        return self._rule.key or tuple(self._tags)

    def _check_key(self) -> None:
        for place, name in enumerate(self._rule.key):
            if (problem := _wrong_key(name, self._types)) is not None:
                self._fail(f"key[{place}]", name, *problem)

    def _build(
        self, when: str, resolve: str, read: tuple[str, ...], compared: LimitComparison | None
    ) -> CompiledRule:
        outputs = (output.name for output in self._query.outputs)
        by_name = dict(zip(outputs, lineage.origins(self._query), strict=True))
        values = tuple(self._past.values())
        numbers: list[PastValue | SeasonalBand] = [*values]
        numbers += [self._bands.band] if self._bands.band else []
        columns = [name for value in numbers for name in (*value.columns, *value.key)]
        columns += self._limits.key
        named = {*read, *self._key, *columns} - self._past.keys() - self._limits.columns.keys()
        origins = lineage.NONE.union(*(by_name[name] for name in named))
        return CompiledRule(
            self._rule, when, resolve, self._key, read, compared, values, origins=tuple(sorted(origins))
        )

    def _over(self, when: Expr | None, compared: LimitComparison | None) -> Expr | None:
        """Check the condition under which an incident is over; None where the rule says none."""
        rule = self._rule
        if rule.resolve_when:
            return self._condition("resolve_when", rule.resolve_when)
        if not rule.clear or when is None:
            return None
        if compared is None or is_joined(when):
            message = "It needs a `when` that compares one column with a number; else write `resolve_when`."
            self._fail("clear", f"{rule.clear:.0%}", "CLEAR_NOT_POSSIBLE", message)
            return None
        limit_name = self._limits.columns.get(compared.limit_column, "")
        return self._condition("clear", write_cleared(compared, rule.clear, limit_name))

    def _condition(self, part: str, text: str) -> Expr | None:
        """Check a condition; None where it has errors."""
        report = self._report_for(text)
        check_value = partial(rowconditions.check_value, query=self._query, report=report)

        def check() -> Expr:
            assert self._window is not None  # rules of other queries are refused before
            calls = PastCalls(self._window, self._tags, check_value, report)
            reads: dict[str, Read] = {
                past.NAME: lambda call: calls.read(call, text),
                bands.NAME: lambda call: self._bands.read(call, text, check_value, report),
            }
            node = replace_calls(parse_expression(text, report), reads)
            self._past |= calls.values
            more = {**dict.fromkeys(calls.values, DOUBLE), **self._limits.types}
            if self._bands.band is not None:
                more[column_of(self._bands.band)] = BOOLEAN
            expression = rowconditions.check(node, self._query, report, more)
            for call in expression.nodes():
                if call.function:
                    say = f"A rule calls no {call.function}: compute it in the query, and name its column."
                    report.error("UNSUPPORTED_FUNCTION", call.span, say)
            return self._limits.place(expression)

        expression = self._run(report, check)
        self._add(part, report.findings())
        return None if report.failed else expression

    def _check_summary(self) -> tuple[str, ...]:
        """Check the summary; return the columns that it names."""
        template, types = self._rule.summary, {**self._types, **self._limits.types}
        try:
            parts = summary.parse(template)
        except summary.TemplateError as error:
            self._fail(
                "summary", template, "INVALID_SUMMARY", error.problem, (error.offset, error.offset + 1)
            )
            return ()
        for part in parts:
            if isinstance(part, summary.Placeholder) and part.column not in types:
                report = self._report_for(template)
                _refuse_unknown(part, types, report)
                self._add("summary", report.findings())
        return tuple(map(self._limits.place_name, summary.columns(parts)))

    def _fail(self, part: str, text: str, code: str, message: str, span: Span | None = None) -> None:
        report = self._report_for(text)
        report.error(code, span or (0, len(text)), message)
        self._add(part, report.findings())

    def _add_each(self, findings: Iterable[tuple[str, Finding]]) -> None:
        for part, finding in findings:
            self._add(part, [finding])

    def _add(self, part: str, findings: Sequence[Finding]) -> None:
        self.findings += [RuleFinding(self._number, part, finding) for finding in findings]


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
