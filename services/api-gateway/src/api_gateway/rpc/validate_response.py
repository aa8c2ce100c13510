"""What was found about a specification, as Validate answers it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from daggers.v1 import gateway_pb2

from api_gateway.validate.spec_check import Judged
from daggerspec import sinks
from daggerspec.columns import to_proto
from daggerspec.violation import Violation
from daggersql import Plan, Severity

_SEVERITIES: Final = {
    Severity.ERROR: gateway_pb2.SEVERITY_ERROR,
    Severity.WARNING: gateway_pb2.SEVERITY_WARNING,
}


def validation(judged: Judged, more: Sequence[Violation]) -> gateway_pb2.ValidateResponse:
    """All of it: `more`, what is wrong beside the query, and what was found about the query."""
    findings = [_finding(violation) for violation in (*more, *judged.others)]
    findings += [
        _finding(judged.located(finding), _SEVERITIES[finding.severity]) for finding in judged.query.findings
    ]
    findings += [_finding(violation, gateway_pb2.SEVERITY_WARNING) for violation in judged.observed]
    plan = judged.query.plan
    answer = gateway_pb2.ValidateResponse(findings=findings)
    if plan is not None:
        answer.columns.extend(map(to_proto, plan.columns))
    if plan is not None and plan.window is not None:
        answer.window.kind = plan.window.kind
        answer.window.size.FromTimedelta(plan.window.size)
        answer.window.slide.FromTimedelta(plan.window.slide)
    if plan is not None and not more and not judged.violations:
        answer.ddl.extend(_ddl(judged, plan))
    return answer


def _ddl(judged: Judged, plan: Plan) -> Iterator[gateway_pb2.SinkDdl]:
    """What has to be made before its sinks can be written to."""
    whole = [resolved.sink for resolved in judged.sinks]
    for name, sink in zip(sinks.called(whole), whole, strict=True):
        if statements := sinks.ddl(sink, plan):
            yield gateway_pb2.SinkDdl(sink=name, statements=statements)


def _finding(
    violation: Violation, severity: gateway_pb2.Severity.ValueType = gateway_pb2.SEVERITY_ERROR
) -> gateway_pb2.Finding:
    return gateway_pb2.Finding(
        code=violation.reason,
        severity=severity,
        message=violation.message,
        field=violation.field,
        line=violation.line or 0,
        column=violation.column or 0,
        end_line=violation.end_line or 0,
        end_column=violation.end_column or 0,
        suggestion=violation.suggestion or "",
        edit=gateway_pb2.Edit(**asdict(violation.edit)) if violation.edit else None,
    )
