"""Warnings about what a time-series store makes of rows: it knows a point by its tags and its time only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report
from daggersql.ir.expr import Expr, Kind, Ref
from daggersql.ir.ops import Op
from daggersql.ir.relations import TIME, Output, Select, Union, group_column
from daggersql.ir.types import DOUBLE, FLOAT, STRING, Family, family
from daggersql.ir.walk import METADATA_KEYS, identity, tables

# A value of its own for (nearly) every record: a series each.
_OF_ONE_RECORD = re.compile(
    r"(.*_)?((order|request|booking|transaction|payment|event|message|trace|span|session|correlation)"
    r"_?(id|number|no)|uuid|guid)",
    re.IGNORECASE,
)
# The argument that says how fine a grid is, and the finest with no more than some 100,000 cells in a city.
_GRIDS = {"s2id": (2, 16), "geohash": (2, 7)}


def warn_of_points(query: Select | Union, report: Report) -> None:
    """Rows that would overwrite each other in a time-series store, and tags with too many values."""
    tags = [each for each in query.outputs if (each.name or "").startswith(("tag_", "label_"))]
    keys = {} if isinstance(query, Union) else {_key(at, key): key for at, key in enumerate(query.keys)}
    for each in tags:
        _warn_of_cardinality(keys.get(each.value.ref, each.value), report)
    if isinstance(query, Union):
        _warn_of_branches(query, report)
    elif query.window is not None:
        _warn_of_groups(query, tags, report)


def warn_of_records(query: Select | Union, report: Report) -> None:
    """Forwarded records that a store may take for one another: it has few places for those of one instant."""
    if identity(query).window is not None:
        return
    tags = [at for at, each in enumerate(query.outputs) if (each.name or "").startswith(("tag_", "label_"))]
    branches = query.values if isinstance(query, Union) else [[each.value for each in query.outputs]]
    selects = query.branches if isinstance(query, Union) else [query]
    for select, values in zip(selects, branches, strict=True):
        read = {node.read for at in tags for node in values[at].nodes() if node.read}
        streams = tables([select.relation])
        if {(stream.name, key) for stream in streams for key in METADATA_KEYS} <= read:
            continue
        report.warn(
            "RECORDS_SHARE_POINTS",
            values[0].span,
            "A time-series store has 1,000 places for records of one microsecond and the same tags: of those"
            " that meet there the later overwrites the earlier. Where many have one time, let tags tell their"
            " topic, partition and thousand of offsets.",
            "__topic AS tag_topic, __partition AS tag_partition, MOD(__offset / 1000, 10) AS tag_thousand",
        )


def _key(number: int, key: Expr) -> Ref | None:
    return group_column("k", number, key).ref


def _warn_of_cardinality(value: Expr, report: Report) -> None:
    path = value.read[1].rpartition(".")[2] if value.read else ""
    many = ""
    if value.type == STRING and _OF_ONE_RECORD.fullmatch(path):
        many = f"{path} has a value of its own for nearly every record"
    elif family(value.type) is Family.TIMESTAMP or value.type in (FLOAT, DOUBLE):
        many = "a time or a fraction has ever new values"
    elif grid := _GRIDS.get(value.function or ""):
        level = value.args[grid[0]].value
        many = "cells this small are very many" if isinstance(level, int) and level > grid[1] else ""
    if many:
        report.warn(
            "HIGH_CARDINALITY_TAG",
            value.span,
            f"A time-series store keeps a series for each value of a tag, and {many}: select it as a field.",
            "give it a name without tag_ or label_",
        )


def _warn_of_groups(select: Select, tags: Sequence[Output], report: Report) -> None:
    """Groups that differ in nothing that the store keeps."""
    assert select.window is not None
    time = next((each.value for each in select.outputs if each.name == TIME), None)
    kind = select.window.window.kind
    suggestion = f"{kind}_END{select.window.arguments} AS {TIME}"
    if time is None:
        report.warn(
            "NO_TIME_COLUMN",
            select.window.span,
            f"No column is called {TIME}: rows carry no time of their own, so a store puts its own.",
            suggestion,
        )
    elif not _tells_windows_apart(time):
        report.warn(
            "TWO_ROWS_PER_KEY",
            time.span,
            f"Windows share this {TIME}: in a time-series store, their rows overwrite each other.",
            suggestion,
        )
    stored = {each.value.ref for each in tags}
    for number, key in enumerate(select.keys):
        if _key(number, key) not in stored:
            report.warn(
                "GROUP_KEY_NOT_A_TAG",
                key.span,
                "This group key is no tag: in a time-series store, groups that differ only in it overwrite"
                " each other.",
                "select it AS tag_… or label_…",
            )


def _tells_windows_apart(time: Expr) -> bool:
    """Whether each window has another time: a bound of it, as it is or moved, but not cut off."""
    nodes = list(time.nodes())
    cut = any(each.op in (Op.FLOOR_TIME, Op.CEIL_TIME) for each in nodes)
    return any(each.kind is Kind.WINDOW for each in nodes) and not cut


def _warn_of_branches(union: Union, report: Report) -> None:
    """Branches that give rows of one window, with no tag to say of which branch a row is."""
    if identity(union).window is None:
        return
    for at, output in enumerate(union.outputs):
        values = [branch[at] for branch in union.values]
        constant = all(value.is_constant for value in values)
        is_tag = (output.name or "").startswith(("tag_", "label_"))
        if is_tag and constant and len({value.literal for value in values}) == len(values):
            return
    report.warn(
        "TWO_ROWS_PER_KEY",
        union.outputs[0].value.span,
        "Branches may give rows with the same tags and time, which overwrite each other in a time-series"
        " store: give each branch a tag of its own.",
        "'first' AS tag_branch",
    )
