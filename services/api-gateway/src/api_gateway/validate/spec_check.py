"""Whether a dagger can be what it is asked to be: the rule book's answer about its spec, and its SQL's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime

from daggers.v1 import spec_pb2

from api_gateway.not_found import meant
from api_gateway.validate.query_checks import Checks
from daggerspec import query, rules, sinks
from daggerspec.catalogue import Unresolved
from daggerspec.kind import Asked
from daggerspec.nearest import nearest
from daggerspec.query import Query
from daggerspec.violation import Edit, Violation, line_starts
from daggersql import Checked, Finding, Severity, check
from daggersql.limits import MAX_BYTES
from fleet import Fleet
from fleet.fold.resolve import Registered


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found about a spec."""

    path: str
    """Path of the spec."""
    others: tuple[Violation, ...]
    """What is wrong beside the query."""
    query: Checked
    """What was found about the query; nothing at all when its tables are not known."""
    text: Query
    """The query."""
    sinks: tuple[spec_pb2.ResolvedSink, ...]
    """Its sinks, addresses filled in."""
    observed: tuple[Violation, ...] = ()
    """What is not refused, and would be by a gateway that enforces; or is not known."""
    destinations: tuple[str, ...] = ()
    """What its sinks write to and becomes its team's."""

    @property
    def violations(self) -> list[Violation]:
        """Everything that is wrong; empty when it can run."""
        errors = [f for f in self.query.findings if f.severity is Severity.ERROR]
        return [*self.others, *map(self.located, errors)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know of a spec that can run."""
        warnings = self.query.plan.warnings if self.query.plan else ()
        told = [self._told(self.located(warning)) for warning in warnings]
        return (
            *told,
            *(f"{violation.reason}: {violation.field} {violation.message}" for violation in self.observed),
        )

    def located(self, finding: Finding) -> Violation:
        """What was found about the query, as a violation of the field that it is in."""
        return self.located_violation(finding.violation(""))

    def located_violation(self, violation: Violation) -> Violation:
        """What is wrong at a place of the query, as a violation of the field that it is in."""
        return self.text.located(self.path, violation)

    def _told(self, violation: Violation) -> str:
        place = f"line {violation.line}, column {violation.column}" if violation.line else violation.field
        return f"{violation.reason}: {place}: {violation.message}"


async def judge(
    path: str,
    name: str,
    spec: spec_pb2.DaggerSpec,
    fleet: Fleet,
    checks: Checks,
    *,
    now: datetime,
    accepted: bool = False,
) -> Judged:
    """Check the spec of the dagger `name`, its defaults filled in. Paths begin with `path`. `accepted`: it
    was let through once, as is known of one that the dagger has.
    """
    catalogue = Registered(fleet)
    checked, others = Checked(None, ()), [*rules.in_the_future(path, spec, now)]
    text = query.of(spec)
    if len(text.sql.encode()) > MAX_BYTES:
        checked = await asyncio.to_thread(check, text.sql, ())  # refused for its size, whatever it reads
    elif (unknown := rules.unknown_tables(spec, catalogue)) is not None:
        try:
            known = accepted or _has(fleet, name, spec)
            checked = await checks.check(spec, fleet, accepted=known, unknown=unknown)
        except Unresolved as error:
            others.append(Violation(f"{path}.streams", error.detail, error.reason))
    asked = Asked(name, spec, catalogue, checked.plan)
    held = sinks.all_resolved(path, asked)
    others += rules.violations(path, asked, held)
    others += checked.wrong_conditions(f"{path}.sinks", [sink.when for sink in spec.sinks])
    wrong = tuple(meant(violation, fleet) for violation in others)
    return Judged(path, wrong, _told(checked, spec, fleet), text, tuple(sink for sink, _ in held))


def _told(checked: Checked, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> Checked:
    """What was found about a query; of a table that the dagger does not have, which stream it may be."""
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
    said = finding.message.removesuffix(".")
    table = next((stream.table for stream in spec.streams if stream.stream == near), None)
    if table is None:
        text = f"{said}; the stream {near} is registered: name it among the streams of the dagger."
        return replace(finding, message=text, suggestion=near)
    text = f"{said}; its table for the stream {near} is {table}."
    edit = Edit(line, column, end_line, end_column, table)
    return replace(finding, message=text, suggestion=table, edit=edit)


def _has(fleet: Fleet, name: str, spec: spec_pb2.DaggerSpec) -> bool:
    """Whether the dagger has this query already: new objections do not hold up its other edits."""
    dagger = fleet.living(name)
    return dagger is not None and (query.of(dagger.spec), dagger.spec.emit) == (query.of(spec), spec.emit)
