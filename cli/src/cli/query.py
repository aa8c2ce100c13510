"""The check of a query without a gateway."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import daggersql
from cli.excerpt import excerpt
from daggerspec.violation import lines
from daggersql import Table


def check(query: str, tables: Sequence[Table]) -> dict[str, Any]:
    """What a check of the query finds, as a JSON document."""
    checked = daggersql.check(query, tables)
    split = lines(query)
    findings = []
    for found in checked.findings:
        finding = {**asdict(found), "severity": found.severity.value}
        findings.append({**finding, "source": excerpt(split, finding)})
    columns = [
        {"name": column.name, "role": column.role.value, "key": column.key, "type": column.type}
        for column in (checked.plan.columns if checked.plan else ())
    ]
    valid = all(found.severity is not daggersql.Severity.ERROR for found in checked.findings)
    return {"valid": valid, "findings": findings, "columns": columns}
