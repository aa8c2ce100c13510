"""Output columns: their names, their roles, and what a time-series store could not keep apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report
from daggersql.ir.expr import Expr
from daggersql.ir.relations import TIME, Output
from daggersql.ir.types import (
    CONDITION,
    INTERVAL,
    RECURSION_LIMIT,
    Family,
    cut_off,
    family,
)  # fmt: skip
from daggersql.plan import Column, Role

# Dots build nested messages in a Protobuf sink.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
# InfluxDB's own: the point's time, and how its query language calls the measurement and the field.
_RESERVED_KEYS = {"time", "_time", "_measurement", "_field", "_value"}


def check_outputs(outputs: Sequence[Output], report: Report, source_text: str) -> tuple[Column, ...]:
    """The visible columns. What is wrong with their names and types goes to the report."""
    columns: list[Column] = []
    for output in outputs:
        name = output.name
        if name is None:
            start, end = output.span
            suggestion = f"AS {_identifier(source_text[start:end]) or 'value'}"
            report.error("UNNAMED_COLUMN", output.span, f"Give this column a name: {suggestion}.", suggestion)
            continue
        column = _column(name, output.value)
        if _check_name(column, output, report) and _check_type(output, report):
            _check_apart(column, columns, output, report)
            _warn_of_recursion(output, report)
            columns.append(column)
    if columns and not report.failed and not any(each.role is Role.FIELD for each in columns):
        report.warn(
            "NO_FIELD_COLUMN",
            outputs[0].value.span,
            "There are only tags and the time: a time-series store needs a value, such as COUNT(*) AS n.",
            "COUNT(*) AS n",
        )
    return tuple(columns)


def _column(name: str, value: Expr) -> Column:
    kind = value.type.spark
    if name == TIME:
        return Column(name, Role.TIME, name, kind)
    if name.startswith("tag_"):
        return Column(name, Role.TAG, name, kind)
    if name.startswith("label_"):
        return Column(name, Role.TAG, name.removeprefix("label_"), kind)
    return Column(name, Role.FIELD, name, kind)


def _check_name(column: Column, output: Output, report: Report) -> bool:
    name = column.name
    if not name.strip():
        return False  # said where the name stands
    if name in ("tag_", "label_"):
        suggestion = name + (_identifier(output.value.read[1]) if output.value.read else "name")
        report.error("INVALID_COLUMN_NAME", output.span, f"{name} needs a name behind it.", suggestion)
    elif not _NAME.fullmatch(name):
        report.error(
            "INVALID_COLUMN_NAME",
            output.span,
            "A column's name is made of letters, digits and underscores, and does not begin with a digit;"
            " dots between such names build nested messages.",
            _identifier(name) or None,
        )
    elif name.startswith("__"):
        report.error(
            "RESERVED_COLUMN",
            output.span,
            "Names that begin with two underscores are the engine's.",
            name.strip("_"),
        )
    elif column.key in _RESERVED_KEYS:
        shown = output.value.read[1].rpartition(".")[2] if output.value.read else "value"
        report.error(
            "RESERVED_COLUMN",
            output.span,
            f"{column.key} is the store's own name: choose another.",
            f"{shown}_{column.key.strip('_')}",
        )
    else:
        return True
    return False


def _check_type(output: Output, report: Report) -> bool:
    value = output.value
    if value.wrong:
        return True
    if output.name == TIME and family(value.type) is not Family.TIMESTAMP:
        report.error(
            "RESERVED_COLUMN",
            output.span,
            f"{TIME} is the time of the row and must be a timestamp, such as TUMBLE_END(…).",
            value.read[1].rpartition(".")[2] if value.read else None,
        )
        return False
    if value.type == INTERVAL:
        report.error("UNSUPPORTED_TYPE", value.span, "A span of time cannot be an output column.")
        return False
    if value.type == CONDITION:
        report.error("UNSUPPORTED_TYPE", value.span, "CondEq stands inside Filters, and nowhere else.")
        return False
    return True


def _warn_of_recursion(output: Output, report: Report) -> None:
    recursive = cut_off(output.value.type)
    if recursive is not None:
        report.warn(
            "RECURSIVE_MESSAGE",
            output.value.span,
            f"{recursive} contains itself: below {RECURSION_LIMIT} of them, what is deeper is left out.",
        )


def _check_apart(column: Column, before: Sequence[Column], output: Output, report: Report) -> None:
    """Names are compared in lower case, as Spark does."""
    for each in before:
        if each.name.lower() == column.name.lower():
            report.error("DUPLICATE_COLUMN", output.span, f"There are two columns called {column.name}.")
            return
        if each.role is column.role is Role.TAG and each.key == column.key:
            report.error(
                "DUPLICATE_COLUMN",
                output.span,
                f"{each.name} and {column.name} would both be the tag {column.key}.",
                column.name.replace("label_tag_", "label_"),
            )
            return


def _identifier(text: str) -> str:
    """A name made of the letters and digits of a text."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()[:60]
