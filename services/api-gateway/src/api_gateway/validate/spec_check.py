"""Validate a dagger's specification by the rule book, and its query by the SQL checker."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime

from daggers.v1 import spec_pb2

from api_gateway.not_found import add_suggestion
from api_gateway.validate.query_checks import Checks
from daggerspec import query, rules, sinks, state
from daggerspec.catalogue import UnresolvedName
from daggerspec.kind import ValidationContext
from daggerspec.nearest import nearest
from daggerspec.query import Query
from daggerspec.violation import Edit, Violation, line_starts
from daggersql import CheckResult, Finding, Severity, check
from daggersql.limits import MAX_BYTES
from fleet import Fleet
from fleet.fold.resolve import FleetCatalogue


@dataclass(frozen=True, slots=True)
class SpecValidation:
    """Validation of a specification."""

    path: str
    """Path of the specification in the request."""
    others: tuple[Violation, ...]
    """Violations outside of the query."""
    query: CheckResult
    """Result of the query's check; empty where its tables are unknown."""
    text: Query
    """The query."""
    sinks: tuple[spec_pb2.ResolvedSink, ...]
    """Its sinks with their addresses."""
    observed: tuple[Violation, ...] = ()
    """Violations that the gateway reports but does not refuse, and facts that could not be determined."""
    destinations: tuple[str, ...] = ()
    """Destinations of its sinks, which become its team's."""

    @property
    def violations(self) -> list[Violation]:
        """All violations; empty where the dagger can run."""
        errors = [f for f in self.query.findings if f.severity is Severity.ERROR]
        return [*self.others, *map(self.locate, errors)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about a specification that can run."""
        warnings = self.query.plan.warnings if self.query.plan else ()
        texts = [self._format_warning(self.locate(warning)) for warning in warnings]
        return (
            *texts,
            *(f"{violation.reason}: {violation.field} {violation.message}" for violation in self.observed),
        )

    def locate(self, finding: Finding) -> Violation:
        """Convert a finding about the query to a violation of the field that the query is in."""
        return self.locate_violation(finding.violation(""))

    def locate_violation(self, violation: Violation) -> Violation:
        """Move a violation at a place of the query to the field that the query is in."""
        return self.text.locate(self.path, violation)

    def _format_warning(self, violation: Violation) -> str:
        place = f"line {violation.line}, column {violation.column}" if violation.line else violation.field
        return f"{violation.reason}: {place}: {violation.message}"


async def validate(
    path: str,
    name: str,
    spec: spec_pb2.DaggerSpec,
    fleet: Fleet,
    checks: Checks,
    *,
    now: datetime,
    accepted: bool = False,
) -> SpecValidation:
    """Validate the specification of dagger `name`, which has its defaults. Paths begin with `path`.

    `accepted`: it passed a validation before, as the specification of a living dagger has.
    """
    catalogue = FleetCatalogue(fleet)
    checked, others = CheckResult(None, ()), [*rules.in_the_future(path, spec, now)]
    text = query.of(spec)
    if len(text.sql.encode()) > MAX_BYTES:
        # the check refuses it for its size: the tables do not matter
        checked = await asyncio.to_thread(check, text.sql, ())
    elif (unknown := rules.unknown_tables(spec, catalogue)) is not None:
        try:
            is_accepted = accepted or _has(fleet, name, spec)
            checked = await checks.check(spec, fleet, accepted=is_accepted, unknown=unknown)
        except UnresolvedName as error:
            others.append(Violation(f"{path}.streams", error.detail, error.reason))
    context = ValidationContext(name, spec, catalogue, checked.plan)
    resolved_sinks = sinks.all_resolved(path, context)
    others += rules.violations(path, context, resolved_sinks)
    others += checked.wrong_conditions(f"{path}.sinks", [sink.when for sink in spec.sinks])
    others += checked.wrong_rules(f"{path}.alerts")
    wrong = tuple(add_suggestion(violation, fleet) for violation in others)
    return SpecValidation(
        path, wrong, _suggest_streams(checked, spec, fleet), text, tuple(sink for sink, _ in resolved_sinks)
    )


def _suggest_streams(checked: CheckResult, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> CheckResult:
    """Add suggestions of streams to a result's findings about unknown tables."""
    if not checked.findings:
        return checked
    return replace(
        checked, findings=tuple(_with_stream(finding, spec, fleet) for finding in checked.findings)
    )


def _with_stream(finding: Finding, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> Finding:
    if finding.code != "UNKNOWN_TABLE" or finding.suggestion:
        return finding
    line, column, end_line, end_column = finding.line, finding.column, finding.end_line, finding.end_column
    sql = query.of(spec).sql
    starts = line_starts(sql)
    name = sql[starts[line - 1] + column - 1 : starts[end_line - 1] + end_column - 1].strip("`")
    near = name if name in fleet.streams else nearest(name, fleet.streams)
    if near is None:
        return finding
    message = finding.message.removesuffix(".")
    table = next((stream.table for stream in spec.streams if stream.stream == near), None)
    if table is None:
        text = f"{message}; the stream {near} is registered: name it among the streams of the dagger."
        return replace(finding, message=text, suggestion=near)
    text = f"{message}; its table for the stream {near} is {table}."
    edit = Edit(line, column, end_line, end_column, table)
    return replace(finding, message=text, suggestion=table, edit=edit)


def _has(fleet: Fleet, name: str, spec: spec_pb2.DaggerSpec) -> bool:
    """Return whether the dagger has this query already: new findings must not block its other edits."""
    dagger = fleet.living(name)
    return dagger is not None and _select_judged(dagger.spec) == _select_judged(spec)


def _select_judged(spec: spec_pb2.DaggerSpec) -> Hashable:
    """Return what findings about a query depend on, beside the catalogue."""
    return query.of(spec), state.rewriting(spec)
