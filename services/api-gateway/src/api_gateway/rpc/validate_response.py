"""Build the response of Validate from a validation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from daggers.v1 import gateway_pb2

from api_gateway.validate.spec_check import SpecValidation
from daggerspec import sinks
from daggerspec.columns import to_proto
from daggerspec.violation import Violation
from daggersql import Plan, Severity

_SEVERITIES: Final = {
    Severity.ERROR: gateway_pb2.SEVERITY_ERROR,
    Severity.WARNING: gateway_pb2.SEVERITY_WARNING,
}


def build_response(validation: SpecValidation, more: Sequence[Violation]) -> gateway_pb2.ValidateResponse:
    """Build the response: violations outside of the query, `more` of them first, and findings about the
    query.
    """
    findings = [_finding(violation) for violation in (*more, *validation.others)]
    findings += [
        _finding(validation.locate(finding), _SEVERITIES[finding.severity])
        for finding in validation.query.findings
    ]
    findings += [_finding(violation, gateway_pb2.SEVERITY_WARNING) for violation in validation.observed]
    plan = validation.query.plan
    answer = gateway_pb2.ValidateResponse(findings=findings)
    if plan is not None:
        answer.columns.extend(map(to_proto, plan.columns))
    if plan is not None and plan.window is not None:
        answer.window.kind = plan.window.kind
        answer.window.size.FromTimedelta(plan.window.size)
        answer.window.slide.FromTimedelta(plan.window.slide)
    if plan is not None and not more and not validation.violations:
        answer.ddl.extend(_ddl(validation, plan))
    return answer


def _ddl(validation: SpecValidation, plan: Plan) -> Iterator[gateway_pb2.SinkDdl]:
    """Yield the statements to run before the sinks can be written to."""
    whole = [resolved.sink for resolved in validation.sinks]
    for name, sink in zip(sinks.display_names(whole), whole, strict=True):
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
