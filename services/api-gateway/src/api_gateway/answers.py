"""What was found about a specification, as Validate answers it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from daggers.v1 import gateway_pb2

from api_gateway.specs import Judged
from daggerspec.columns import to_proto
from daggerspec.violation import Violation
from daggersql import Finding, Severity

_SEVERITIES: Final = {
    Severity.ERROR: gateway_pb2.SEVERITY_ERROR,
    Severity.WARNING: gateway_pb2.SEVERITY_WARNING,
}


def validation(judged: Judged, more: Sequence[Violation]) -> gateway_pb2.ValidateResponse:
    """All of it: `more`, what is wrong beside the query, and what was found about the query."""
    findings = [_violation(each) for each in (*more, *judged.others)]
    findings += [_finding(f"{judged.path}.sql", each) for each in judged.query.findings]
    findings += [_violation(each, gateway_pb2.SEVERITY_WARNING) for each in judged.observed]
    columns = judged.query.plan.columns if judged.query.plan else ()
    return gateway_pb2.ValidateResponse(findings=findings, columns=map(to_proto, columns))


def _violation(
    violation: Violation, severity: gateway_pb2.Severity.ValueType = gateway_pb2.SEVERITY_ERROR
) -> gateway_pb2.Finding:
    return gateway_pb2.Finding(
        code=violation.reason,
        severity=severity,
        message=violation.message,
        field=violation.field,
        suggestion=violation.suggestion or "",
    )


def _finding(field: str, finding: Finding) -> gateway_pb2.Finding:
    return gateway_pb2.Finding(
        code=finding.code,
        severity=_SEVERITIES[finding.severity],
        message=finding.message,
        field=field,
        line=finding.line,
        column=finding.column,
        end_line=finding.end_line,
        end_column=finding.end_column,
        suggestion=finding.suggestion or "",
        edit=gateway_pb2.Edit(**asdict(finding.edit)) if finding.edit else None,
    )
