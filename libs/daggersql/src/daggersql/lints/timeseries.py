"""Warnings about what a time-series store makes of rows: it knows a point by its tags and its time only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report, Rewrite, Suggestion, instead
from daggersql.ir.expr import Expr, ExprKind, Ref
from daggersql.ir.families import Family, family
from daggersql.ir.naming import ColumnNames, add_column, as_field, identifier, is_tag, rename_column
from daggersql.ir.ops import Op
from daggersql.ir.relations import TIME, OutputColumn, Select, Union, Unnest, group_column
from daggersql.ir.types import DOUBLE, FLOAT, STRING, Decimal
from daggersql.ir.walk import METADATA_KEYS, identity, tables
from daggersql.plan import Column, Role

# A value of its own for (nearly) every record: a series each.
_OF_ONE_RECORD = re.compile(
    r"(.*_)?((order|request|booking|transaction|payment|event|message|trace|span|session|correlation)"
    r"_?(id|number|no)|uuid|guid)",
    re.IGNORECASE,
)
# Of a number that is a double, those that are always as they were written.
_DIGITS = 15
# The argument that says how fine a grid is, and the finest with no more than some 100,000 cells in a city.
_GRIDS = {"s2id": (2, 16), "geohash": (2, 7)}


def warn_of_points(query: Select | Union, report: Report) -> None:
    """Rows that would overwrite each other in a time-series store, and tags with too many values."""
    tags = list(filter(is_tag, query.outputs))
    keys = {} if isinstance(query, Union) else {_key(index, key): key for index, key in enumerate(query.keys)}
    for tag in tags:
        if tag.value.ref not in keys and (many := _many(tag.value)):
            report.warn(
                "HIGH_CARDINALITY_TAG",
                tag.value.span,
                f"A time-series store keeps a series for each value of a tag, and {many}: select it as a"
                " field.",
                rename_column(tag, ColumnNames(query.outputs).free(as_field(tag.name or ""))),
            )
    if isinstance(query, Union):
        _warn_of_branches(query, report)
    elif query.window is not None:
        _warn_of_groups(query, tags, report)
    elif isinstance(query.relation, Unnest) and identity(query).window is not None:
        _warn_of_unfolded(query, query.relation, tags, report)


def warn_of_no_field(query: Select | Union, columns: Sequence[Column], report: Report) -> None:
    """Rows that have nothing but tags and a time."""
    if not columns or any(column.role is Role.FIELD for column in columns):
        return
    value = "COUNT(*)" if isinstance(query, Select) and query.window is not None else "1"
    column = f"{value} AS {ColumnNames(query.outputs).free('n')}"
    report.warn(
        "NO_FIELD_COLUMN",
        query.outputs[0].value.span,
        f"There are only tags and the time: a time-series store needs a value, such as {column}.",
        add_column(query.outputs, column) if isinstance(query, Select) else column,
    )


def warn_of_records(query: Select | Union, report: Report) -> None:
    """Forwarded records that a store may take for one another: it has few places for those of one instant."""
    if identity(query).window is not None:
        return
    tags = [index for index, output in enumerate(query.outputs) if is_tag(output)]
    branches = query.values if isinstance(query, Union) else [[output.value for output in query.outputs]]
    selects = query.branches if isinstance(query, Union) else [query]
    for select, values in zip(selects, branches, strict=True):
        read = {node.read for index in tags for node in values[index].nodes() if node.read}
        streams = tables([select.relation])
        if {(stream.name, key) for stream in streams for key in METADATA_KEYS} <= read:
            continue
        report.warn(
            "RECORDS_SHARE_POINTS",
            values[0].span,
            "A time-series store has 1,000 places for records of one microsecond and the same tags: of those"
            " that meet there the later overwrites the earlier; where many have one time, let tags tell their"
            " topic, partition and thousand of offsets.",
            "__topic AS tag_topic, __partition AS tag_partition, MOD(__offset / 1000, 10) AS tag_thousand",
        )


def warn_of_decimals(query: Select | Union, columns: Sequence[Column], report: Report) -> None:
    """Fields with more digits than a time-series store keeps of a number that is not whole."""
    for output, column in zip(query.outputs, columns, strict=True):
        kind = output.value.type
        if column.role is not Role.FIELD or not isinstance(kind, Decimal) or kind.precision <= _DIGITS:
            continue
        report.warn(
            "DECIMAL_AS_DOUBLE",
            output.value.span,
            f"A time-series store keeps {column.name} as a double, which is exact to {_DIGITS} digits, and it"
            f" may have {kind.precision}: a Kafka sink keeps all; cast it to DOUBLE where that is enough.",
            _as_double(output, query, report),
        )


def _as_double(output: OutputColumn, query: Select | Union, report: Report) -> Rewrite | None:
    """Rewrite a column to a double; None where it comes from *, GROUP BY names it, or branches have it."""
    if output.star or output.is_key or isinstance(query, Union):
        return None
    written = f"CAST({report.text[slice(*output.value.span)]} AS DOUBLE)"
    named = f" AS {output.name}" if output.span == output.value.span else ""
    return Rewrite(output.value.span, f"{written}{named}", f"{written}{named}")


def _key(number: int, key: Expr) -> Ref | None:
    return group_column("k", number, key).ref


def _many(value: Expr) -> str:
    """Explain why a value has too many distinct values for a tag; empty if it does not."""
    path = value.read[1].rpartition(".")[2] if value.read else ""
    if value.type == STRING and _OF_ONE_RECORD.fullmatch(path):
        return f"{path} has a value of its own for nearly every record"
    if family(value.type) is Family.TIMESTAMP or value.type in (FLOAT, DOUBLE):
        return "a time or a fraction has ever new values"
    if grid := _GRIDS.get(value.function or ""):
        level = value.args[grid[0]].value
        return "cells this small are very many" if isinstance(level, int) and level > grid[1] else ""
    return ""


def _warn_of_groups(select: Select, tags: Sequence[OutputColumn], report: Report) -> None:
    """Groups that differ in nothing that the store keeps."""
    assert select.window is not None
    time = next((output.value for output in select.outputs if output.name == TIME), None)
    if time is None:
        report.warn(
            "NO_TIME_COLUMN",
            select.window.span,
            f"No column is called {TIME}: rows carry no time of their own, so a store puts its own.",
            add_column(select.outputs, f"{select.window.bound_text('END')} AS {TIME}"),
        )
    elif not _tells_windows_apart(time):
        report.warn(
            "TWO_ROWS_PER_KEY",
            time.span,
            f"Windows share this {TIME}: in a time-series store, their rows overwrite each other.",
            instead(time.span, select.window.bound_text("END")),
        )
    by_key = {output.value.ref: output for output in select.outputs}
    stored = {tag.value.ref for tag in tags}
    names = ColumnNames(select.outputs)
    for number, key in enumerate(select.keys):
        ref = _key(number, key)
        if many := _many(key):
            report.warn(
                "HIGH_CARDINALITY_TAG",
                by_key[ref].value.span if ref in by_key else key.span,
                f"A time-series store cannot hold these groups, for {many}; as a tag each is a series, and"
                " groups that differ in no tag overwrite each other: group by less, or write to Kafka alone.",
            )
        elif ref not in stored:
            report.warn(
                "GROUP_KEY_NOT_A_TAG",
                key.span,
                "This group key is no tag: in a time-series store, groups that differ only in it overwrite"
                " each other.",
                _as_tag(key, by_key.get(ref), select, names, report),
            )


def _as_tag(
    key: Expr, output: OutputColumn | None, select: Select, names: ColumnNames, report: Report
) -> Suggestion:
    """Rewrite a key to a tag: rename its column, or add one."""
    if output is not None and not output.is_key and output.name not in (None, TIME):
        return rename_column(output, names.free(f"tag_{identifier(output.name or '')}"))
    written = report.text[slice(*key.span)]
    return add_column(select.outputs, f"{written} AS {names.free(f'tag_{identifier(written)}')}")


def _tells_windows_apart(time: Expr) -> bool:
    """Tell whether the time differs for each window: a bound of it, maybe shifted, but not rounded."""
    nodes = list(time.nodes())
    cut = any(node.op in (Op.FLOOR_TIME, Op.CEIL_TIME) for node in nodes)
    return any(node.kind is ExprKind.WINDOW for node in nodes) and not cut


def _warn_of_unfolded(select: Select, unfolded: Unnest, tags: Sequence[OutputColumn], report: Report) -> None:
    """Rows of one window, such as those of a Top-N, with no tag to say which of them a row is."""

    def names(output: OutputColumn, ref: Ref) -> bool:
        return any(node.ref is not None and node.ref.is_in(ref) for node in output.value.nodes())

    if any(names(tag, Ref(unfolded.name)) for tag in tags):
        return
    number = next((output for output in select.outputs if names(output, Ref(unfolded.name, ("p",)))), None)
    report.warn(
        "TWO_ROWS_PER_KEY",
        (number or select.outputs[0]).span,
        "Rows of one window differ in no tag: in a time-series store, they overwrite each other.",
        "a tag that tells them apart"
        if number is None
        else rename_column(number, ColumnNames(select.outputs).free(f"tag_{identifier(number.name or '')}")),
    )


def _warn_of_branches(union: Union, report: Report) -> None:
    """Branches that give rows of one window, with no tag to say of which branch a row is."""
    if identity(union).window is None:
        return
    for index, output in enumerate(union.outputs):
        values = [branch[index] for branch in union.values]
        constant = all(value.is_constant for value in values)
        if is_tag(output) and constant and len({value.literal for value in values}) == len(values):
            return
    report.warn(
        "TWO_ROWS_PER_KEY",
        union.outputs[0].value.span,
        "Branches may give rows with the same tags and time, which overwrite each other in a time-series"
        " store: give each branch a tag of its own.",
        "'first' AS tag_branch",
    )
