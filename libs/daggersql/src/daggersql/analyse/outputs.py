"""Output columns: their names, their roles, and what a time-series store could not keep apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from daggerspec.columns import LABEL, TAG, Column, Role, key_of, role_of
from daggerspec.protobuf import RECURSION_LIMIT
from daggersql.findings import Report
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family, family
from daggersql.ir.naming import RESERVED, ColumnNames, identifier, rename_column, say_unnamed
from daggersql.ir.relations import TIME, OutputColumn, Result, Union
from daggersql.ir.types import CONDITION, INTERVAL, Type, count_fields, cut_off
from daggersql.ir.walk import expressions
from daggersql.limits import MAX_FIELDS

# Dots build nested messages in a Protobuf sink.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def check_outputs(outputs: Sequence[OutputColumn], report: Report) -> tuple[Column, ...]:
    """Check names and types of the visible columns, and build them; errors go to the report."""
    columns: list[Column] = []
    names, room = ColumnNames(outputs), _Room()
    for output in outputs:
        name = output.name
        if name is None:
            say_unnamed(output, names, report)
            continue
        if not room.takes(output.value.type):
            report.object_to(
                "QUERY_TOO_LARGE", output.value.span, f"{name} has one field too many for a row: {room}."
            )
            if report.failed:
                break
        column = _column(name, output.value)
        if _check_name(column, output, names, report) and _check_type(output, names, report):
            _check_apart(column, columns, output, names, report)
            _warn_of_recursion(output, report)
            columns.append(column)
    return tuple(columns)


def _column(name: str, value: Expr) -> Column:
    return Column(name, role_of(name), key_of(name), value.type.spark)


def _check_name(column: Column, output: OutputColumn, names: ColumnNames, report: Report) -> bool:
    name = column.name
    if not name.strip():
        return False  # said where the name stands
    if name in (TAG, LABEL):
        suggestion = name + (identifier(output.value.read[1]) if output.value.read else "name")
        report.error(
            "INVALID_COLUMN_NAME",
            output.span,
            f"{name} needs a name behind it.",
            rename_column(output, names.free(suggestion)),
        )
    elif not _NAME.fullmatch(name):
        report.error(
            "INVALID_COLUMN_NAME",
            output.span,
            "A column's name is made of letters, digits and underscores, and does not begin with a digit;"
            " dots between such names build nested messages.",
            rename_column(output, names.free(identifier(name))) if identifier(name) else None,
        )
    elif name.startswith("__"):
        report.error(
            "RESERVED_COLUMN",
            output.span,
            "Names that begin with two underscores are the engine's.",
            rename_column(output, names.free(identifier(name) or "value")),
        )
    elif column.key in RESERVED:
        source_name = output.value.read[1].rpartition(".")[2] if output.value.read else "value"
        report.error(
            "RESERVED_COLUMN",
            output.span,
            f"{column.key} is the store's own name: choose another.",
            rename_column(output, names.free(f"{source_name}_{column.key.strip('_')}")),
        )
    else:
        return True
    return False


def _check_type(output: OutputColumn, names: ColumnNames, report: Report) -> bool:
    value = output.value
    if value.wrong:
        return True
    if output.name == TIME and family(value.type) is not Family.TIMESTAMP:
        report.error(
            "RESERVED_COLUMN",
            output.span,
            f"{TIME} is the time of the row and must be a timestamp, such as TUMBLE_END(…).",
            rename_column(output, names.free(value.read[1].rpartition(".")[2])) if value.read else None,
        )
        return False
    if value.type == INTERVAL:
        report.error("UNSUPPORTED_TYPE", value.span, "A span of time cannot be an output column.")
        return False
    if value.type == CONDITION:
        report.error("UNSUPPORTED_TYPE", value.span, "CondEq stands inside Filters, and nowhere else.")
        return False
    return True


def refuse_large_reads(query: Result, report: Report) -> None:
    """Say at which field more are read, whatever for, than a worker can hold."""
    selects = query.branches if isinstance(query, Union) else (query,)
    read = {
        node.read: node
        for select in selects
        for expression in expressions(select)
        for node in expression.nodes()
        if node.read is not None
    }
    room = _Room()
    for (table, path), node in sorted(read.items(), key=lambda item: item[1].span):
        within = (path[:end] for end, char in enumerate(path) if char == ".")
        if not any((table, above) in read for above in within) and not room.takes(node.type):
            report.object_to("QUERY_TOO_LARGE", node.span, f"{path} is one field too many to read: {room}.")
            return


@dataclass(slots=True)
class _Room:
    """Room for the fields of columns, those of all messages in them together."""

    left: int = MAX_FIELDS
    recursive: str | None = None

    def takes(self, kind: Type) -> bool:
        """Count the fields of a column; False for the first column that is beyond the limit."""
        if self.left < 0:
            return True
        self.left -= count_fields(kind, self.left + 1)
        self.recursive = self.recursive or cut_off(kind)
        return self.left >= 0

    def __str__(self) -> str:
        why = f" {self.recursive} contains itself." if self.recursive else ""
        return f"there may be {MAX_FIELDS:,}, in all messages together.{why} Name those that you need"


def _warn_of_recursion(output: OutputColumn, report: Report) -> None:
    recursive = cut_off(output.value.type)
    if recursive is not None:
        report.warn(
            "RECURSIVE_MESSAGE",
            output.value.span,
            f"{recursive} contains itself: below {RECURSION_LIMIT} of them, what is deeper is left out.",
        )


def _check_apart(
    column: Column, before: Sequence[Column], output: OutputColumn, names: ColumnNames, report: Report
) -> None:
    """Names are compared in lower case, as Spark does."""
    for earlier in before:
        if earlier.name.lower() == column.name.lower():
            report.error(
                "DUPLICATE_COLUMN",
                output.span,
                f"There are two columns called {column.name}.",
                rename_column(output, names.free(column.name)),
            )
            return
        if earlier.role is column.role is Role.TAG and earlier.key == column.key:
            report.error(
                "DUPLICATE_COLUMN",
                output.span,
                f"{earlier.name} and {column.name} would both be the tag {column.key}.",
                rename_column(output, names.free(column.name.replace("label_tag_", "label_"))),
            )
            return
