"""Entry of the compiler: turns a text and the streams that it may read into a plan, or findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial as partial_of

from daggersql.analyse import rowconditions
from daggersql.analyse.outputs import check_outputs, refuse_large_reads
from daggersql.analyse.queries import QueryChecker
from daggersql.analyse.select import refuse_bounds_of_rows
from daggersql.emit import bounds, partial, queries, reads
from daggersql.emit.expressions import length_limit, original_sql
from daggersql.emit.expressions import sql as sql_of
from daggersql.environment import Environment
from daggersql.findings import Finding, QueryError, Report, Rewrite, Severity, Span, Suggestion, TooManyErrors
from daggersql.functions import registry
from daggersql.ir import closing, gates, influences, lineage, timeparts, whole
from daggersql.ir.expr import Expr
from daggersql.ir.relations import Select, Union
from daggersql.ir.walk import identity, nodes
from daggersql.limits import MAX_ALL_EMITTED, MOST_REPAIRED, check_size
from daggersql.lints.early import (
    EARLY,
    UPDATE,
    Rewriting,
    object_to_early,
    object_to_update,
    refuse_condition,
)
from daggersql.lints.timeseries import (
    warn_of_decimals,
    warn_of_no_field,
    warn_of_points,
    warn_of_records,
)
from daggersql.plan import CheckResult, Column, Influence, Plan, RowCondition, Table
from daggersql.rules.compile import compile_rules
from daggersql.rules.compiled import RuleText
from daggersql.syntax.parsing import check_expression, parse, parse_expression

_NOTHING = timedelta()


def check(
    sql: str,
    tables: Sequence[Table],
    references: Collection[str] | None = None,
    *,
    expressions: Sequence[Span] = (),
    early: bool = False,
    allowed_lateness: timedelta = _NOTHING,
    points: bool | None = None,
    accepted: bool = False,
    unknown: Collection[str] = (),
    conditions: Collection[str] = (),
    rules: Sequence[RuleText] = (),
) -> CheckResult:
    """Check a query, and plan it if it has no errors. Never raises, whatever the text.

    references: names of the reference tables; None accepts any name. expressions: parts of the text that must
    each be one expression, as a template around them has another author. early: rows are written while their
    windows are open. allowed_lateness: how long behind their ends windows take late records, with which rows
    are written again. points: whether rows go to a time-series store, for warnings of rows that it cannot
    distinguish; None: not known, so that whole records raise no warning. accepted: an earlier check accepted
    the text, so that errors which only newer checks find are warnings. unknown: further tables without a
    known schema: expressions over their columns are not checked, and there is no plan. conditions: texts of
    conditions on the rows of the query. rules: alert rules on these rows.
    """
    names = None if references is None else frozenset(references)
    environment = Environment(names, tuple(table.message for table in tables), frozenset(unknown))
    report = Report(sql, environment, accepted)
    select: Select | Union | None = None
    plan: Plan | None = None
    for part in expressions:
        with _report_errors(report, tables):
            check_expression(sql, part, report)
    with _report_errors(report, tables), length_limit(bound=not accepted):
        check_size(sql)
        if not report.failed:
            select = QueryChecker(tables, report, original_sql).check(parse(sql, report))
            plan = (
                None
                if select is None
                else _plan(select, report, early=early, allowed_lateness=allowed_lateness, points=points)
            )
    findings = report.findings()
    if select is None or plan is None or report.failed:
        return CheckResult(None, findings)
    rewriting = EARLY if early else UPDATE if allowed_lateness else None
    results = {text: _condition(text, select, tables, environment, rewriting) for text in conditions}
    fine = tuple(result for result in results.values() if isinstance(result, RowCondition))
    wrong = {text: result for text, result in results.items() if not isinstance(result, RowCondition)}
    compiled, wrong_rules = compile_rules(
        rules, select, partial_of(Report, environment=environment), partial_of(_run, tables), early=early
    )
    return CheckResult(replace(plan, conditions=fine, rules=compiled), findings, wrong, wrong_rules)


def _run(tables: Sequence[Table], report: Report, check: Callable[[], Expr]) -> Expr | None:
    """Run the check of a condition; return None where it reported an error that ended it."""
    with _report_errors(report, tables), length_limit(bound=True):
        return check()
    return None


def _condition(
    text: str,
    query: Select | Union,
    tables: Sequence[Table],
    environment: Environment,
    rewriting: Rewriting | None,
) -> RowCondition | tuple[Finding, ...]:
    """Check a condition on the rows of a query; return it, or the findings about it."""
    report = Report(text, environment)
    with _report_errors(report, tables), length_limit(bound=True):
        condition = rowconditions.check(parse_expression(text, report), query, report)
        if rewriting is not None and not report.failed:
            refuse_condition(query, condition, report, rewriting)
        if not report.failed:
            called = {node.function for node in condition.nodes() if node.function}
            origins = lineage.origins_of_condition(condition, query)
            return RowCondition(text, sql_of(condition), tuple(sorted(called)), tuple(sorted(origins)))
    return report.findings()


@contextmanager
def _report_errors(report: Report, tables: Sequence[Table] | None) -> Iterator[None]:
    """Report an error that ends the reading of the text; with `tables` also a repair, if one is found."""
    try:
        yield
    except QueryError as refused:
        with suppress(TooManyErrors):
            answer = (refused.problem, None) if tables is None else _answer(refused, report, tables)
            report.error(refused.code, refused.span, *answer)
    except RecursionError:
        with suppress(TooManyErrors):
            report.error("QUERY_TOO_DEEP", (0, 0), "The query is nested too deep.")


def _answer(refused: QueryError, report: Report, tables: Sequence[Table]) -> tuple[str, Suggestion]:
    """Build the message about an unreadable text, and the repair that makes it a query, or the suggestion."""
    repair = _repair(refused, report.text, tables, replace(report.environment, references=None))
    if repair is not None and repair.problem:
        return repair.problem, repair
    return refused.problem, repair or refused.suggestion


def _repair(
    refused: QueryError, sql: str, tables: Sequence[Table], environment: Environment
) -> Rewrite | None:
    """Find the first repair that turns the text into a query without errors; else, of those that say what is
    wrong, the first that leads to a text that can be read, after up to two more of its kind.
    """
    if len(sql) > MOST_REPAIRED:
        return None
    for repair in refused.repairs:
        if not _find_errors(_apply(repair, sql), tables, environment):
            return repair
    telling = [repair for repair in refused.repairs if repair.problem]
    return next(
        (repair for repair in telling if _leads_on(repair, sql, tables, environment, repairs=2)), None
    )


def _apply(repair: Rewrite, sql: str) -> str:
    start, end = repair.span
    return sql[:start] + repair.text + sql[end:]


def _leads_on(
    repair: Rewrite, sql: str, tables: Sequence[Table], environment: Environment, *, repairs: int
) -> bool:
    """Tell whether a text can be read once it is repaired, after up to so many repairs that say what is
    wrong, and nothing is wrong with the words beside this one. One that counts alone leaves nothing wrong.
    """
    repaired = _apply(repair, sql)
    try:
        parse(repaired, Report(repaired, environment))
    except QueryError as refused:
        return repairs > 0 and any(
            _leads_on(further, repaired, tables, environment, repairs=repairs - 1)
            for further in refused.repairs
            if further.problem and (further.alone or not repair.alone)
        )
    except RecursionError:
        return False
    errors = _find_errors(repaired, tables, environment)
    if repair.alone:
        return not errors
    begin = repair.span[0]
    end = begin + len(repair.text)
    behind = end + len(repaired[end:]) - len(repaired[end:].lstrip())
    beside = Report(repaired, environment).place((begin, behind))
    return not any(
        (finding.line, finding.column) in (beside[:2], beside[2:])
        or (finding.end_line, finding.end_column) == beside[:2]
        for finding in errors
    )


def _find_errors(sql: str, tables: Sequence[Table], environment: Environment) -> list[Finding]:
    """Find the errors of a repaired text, and no repairs of them: those would be repaired again."""
    report = Report(sql, environment)
    with _report_errors(report, None):
        query = QueryChecker(tables, report, original_sql).check(parse(sql, report))
        check_outputs(query.outputs if query else (), report)
    return [finding for finding in report.findings() if finding.severity is Severity.ERROR]


def _plan(
    select: Select | Union, report: Report, *, early: bool, allowed_lateness: timedelta, points: bool | None
) -> Plan | None:
    if isinstance(select, Select):
        refuse_bounds_of_rows(select, report)
    if whole.mixed(select) and identity(select).window is None:
        report.object_to(
            "UNSUPPORTED_SET_OPERATION",
            select.outputs[0].span,
            "Groups by results of sessions stand under UNION ALL with other groups only: of a session that"
            " began before the first record read they are not known.",
        )
    columns = check_outputs(select.outputs, report)
    if report.failed or report.environment.unknown:
        return None
    if early:
        object_to_early(select, report)
    if allowed_lateness:
        object_to_update(select, report)
    if points is not False:
        warn_of_no_field(select, columns, report)
        warn_of_points(select, report)
    if points:
        warn_of_records(select, report)
        warn_of_decimals(select, columns, report)
    refuse_large_reads(select, report)
    _object_to_length(select, report)
    if report.failed:
        return None
    if allowed_lateness and isinstance(select, Select):
        select = gates.with_gates(select, allowed_lateness)
    added_up, state = partial.aggregation(select)
    sent = timeparts.as_sent(select)
    return Plan(
        spark_sql=queries.spark_sql(sent),
        reads=reads.reads(sent),
        window=whole.window(select),
        horizon=whole.horizon(select),
        lookback=whole.lookback(select),
        columns=_with_cells(columns, lineage.calls(select)),
        hidden=queries.hidden_columns(select),
        functions=reads.functions(select),
        fingerprint=queries.fingerprint(select, state),
        warnings=tuple(finding for finding in report.findings() if finding.severity is Severity.WARNING),
        references=tuple(sorted(set(report.references), key=lambda lookup: (lookup.name, lookup.entries))),
        partial_aggregation=added_up,
        closing=closing.closing(select),
        staged=queries.stage_query(select),
        finds_late_where_read=any(closing.closing(select).values()) and closing.is_counted_where_read(select),
        lookahead=whole.lookahead(select),
        key=queries.key_columns(select),
        bounds=bounds.bounds(nodes(select)),
        origins=tuple(tuple(sorted(origin)) for origin in lineage.origins(select)),
        copies=lineage.copies(select),
        places=tuple(report.place(output.span) for output in select.outputs),
        influences=tuple(
            Influence(clause, tuple(sorted(origins)), report.place(span))
            for clause, span, origins in influences.influences(select)
        ),
    )


def _object_to_length(select: Select | Union, report: Report) -> None:
    """Object to columns whose emitted SQL is too long together, at the longest one."""
    lengths = [len(sql_of(output.value)) for output in select.outputs]
    if sum(lengths) > MAX_ALL_EMITTED:
        longest = select.outputs[lengths.index(max(lengths))]
        message = "The columns are too long together for Spark: nest fewer functions."
        report.object_to("QUERY_TOO_LARGE", longest.span, message)


def _with_cells(columns: Sequence[Column], calls: Sequence[str | None]) -> tuple[Column, ...]:
    """Add to columns the kind of map cells that their values name, by the functions that compute them."""
    cells = {function.name.lower(): function.cells for function in registry.own()}
    return tuple(
        replace(column, cell=cells.get(call or "")) for column, call in zip(columns, calls, strict=True)
    )
