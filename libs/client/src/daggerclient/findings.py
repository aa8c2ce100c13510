"""Findings as documents: of a dagger file, and of a request that the gateway refused."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from daggerspec.violation import Violation


def finding(violation: Violation) -> dict[str, Any]:
    """Make the finding of a violation; its line and column are None outside of SQL."""
    return {
        "code": violation.reason,
        "severity": "error",
        "field": violation.field,
        "message": violation.message,
        "line": violation.line,
        "column": violation.column,
        "end_line": violation.end_line,
        "end_column": violation.end_column,
        "suggestion": violation.suggestion,
        "edit": asdict(violation.edit) if violation.edit else None,
    }


def headline(findings: Sequence[Mapping[str, Any]]) -> str:
    """Say the first of some findings in one sentence, with how many more there are."""
    first = findings[0]
    of_file = "file" in first and "source" not in first
    line = first.get("file_line") or (first.get("line") if of_file else None)
    path = first.get("field", "")  # a finding about a log is about no field
    field = "" if first["message"].startswith(path) else path
    where = ", ".join(filter(None, (field, f"line {line}" if line else "")))
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return ": ".join(filter(None, (where, first["message"]))) + more
