"""The check of a query without a gateway."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import daggersql
from cli.excerpt import excerpt, lines
from daggersql import Table


def check(query: str, tables: Sequence[Table]) -> dict[str, Any]:
    """What a check of the query finds, as a JSON document."""
    checked = daggersql.check(query, tables)
    split = lines(query)
    findings = []
    for each in checked.findings:
        finding = {
            "code": each.code,
            "severity": each.severity.value,
            "message": each.message,
            "line": each.line,
            "column": each.column,
            "end_line": each.end_line,
            "end_column": each.end_column,
            "suggestion": each.suggestion,
            "edit": asdict(each.edit) if each.edit else None,
        }
        findings.append({**finding, "source": excerpt(split, finding)})
    columns = [
        {"name": each.name, "role": each.role.value, "key": each.key, "type": each.type}
        for each in (checked.plan.columns if checked.plan else ())
    ]
    valid = all(each.severity is not daggersql.Severity.ERROR for each in checked.findings)
    return {"valid": valid, "findings": findings, "columns": columns}
