"""The Dagger SQL dialect: parsed, checked against Protobuf schemas, turned into Spark SQL."""

from daggersql.check import check
from daggersql.environment import Reference
from daggersql.findings import Finding, Severity
from daggersql.plan import (
    Call,
    Checked,
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
    Staged,
    Table,
    Value,
    Window,
    sized,
)

__all__ = [
    "Call",
    "Checked",
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
    "Staged",
    "Table",
    "Value",
    "Window",
    "check",
    "sized",
]
