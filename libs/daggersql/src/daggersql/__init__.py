"""Compiler of the Dagger SQL dialect: parses, checks against Protobuf schemas, and emits Spark SQL."""

from daggersql.check import check
from daggersql.environment import Reference
from daggersql.findings import Finding, Severity
from daggersql.plan import (
    Call,
    CheckResult,
    Column,
    Condition,
    Constant,
    Field,
    Influence,
    Part,
    Partial,
    PartialAggregation,
    Plan,
    Read,
    Role,
    RowCondition,
    Stage,
    StagedQuery,
    Table,
    Value,
    Window,
    fixed_size,
)

__all__ = [
    "Call",
    "CheckResult",
    "Column",
    "Condition",
    "Constant",
    "Field",
    "Finding",
    "Influence",
    "Part",
    "Partial",
    "PartialAggregation",
    "Plan",
    "Read",
    "Reference",
    "Role",
    "RowCondition",
    "Severity",
    "Stage",
    "StagedQuery",
    "Table",
    "Value",
    "Window",
    "check",
    "fixed_size",
]
