"""The Dagger SQL dialect: parsed, checked against Protobuf schemas, turned into Spark SQL."""

from daggersql.check import check
from daggersql.findings import Finding, Severity
from daggersql.known import Reference
from daggersql.plan import Checked, Column, Plan, Read, Role, Table, Window

__all__ = [
    "Checked",
    "Column",
    "Finding",
    "Plan",
    "Read",
    "Reference",
    "Role",
    "Severity",
    "Table",
    "Window",
    "check",
]
