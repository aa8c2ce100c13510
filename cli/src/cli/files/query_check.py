"""Check a query without a gateway."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import daggersql
from cli.output.excerpt import excerpt
from daggerspec.violation import lines
from daggersql import Table


def check(query: str, tables: Sequence[Table]) -> dict[str, Any]:
    """Check a query; return the findings and columns as a JSON document."""
    checked = daggersql.check(query, tables)
    split = lines(query)
    findings = []
    for finding in checked.findings:
        document = {**asdict(finding), "severity": finding.severity.value}
        findings.append({**document, "source": excerpt(split, document)})
    columns = [
        {
            "name": column.name,
            "role": column.role.value,
            "key": column.key,
            "type": column.type,
            **({"cell": column.cell.value} if column.cell else {}),
        }
        for column in (checked.plan.columns if checked.plan else ())
    ]
    valid = all(finding.severity is not daggersql.Severity.ERROR for finding in checked.findings)
    return {"valid": valid, "findings": findings, "columns": columns}
