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
from daggersql.rules.compiled import CompiledRule, RuleText

__all__ = [
    "Call",
    "CheckResult",
    "Column",
    "CompiledRule",
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
    "RuleText",
    "Severity",
    "Stage",
    "StagedQuery",
    "Table",
    "Value",
    "Window",
    "check",
    "fixed_size",
]
