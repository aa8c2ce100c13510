"""`before(time, number)` in conditions of rules: what the number was in the window that ended so long before.

    replace_calls    the tree of a condition -> the same with columns in place of calls, and what these have

Rows are the same thing at two times if all their tags are equal; of several rows in a window the greatest
number counts. Where there was no row, or its number was NULL, the call is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from daggerspec.columns import PAST
from daggersql.emit.expressions import sql as sql_of
from daggersql.findings import Report
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family, fits
from daggersql.ir.types import BOOLEAN, INTEGERS, EnumText, Type
from daggersql.plan import Window
from daggersql.rules.compiled import PastValue, digest_of
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of

NAME: Final = "before"
MOST_LAG: Final = timedelta(days=31)
_LAG: Final = re.compile(r"\s*(\d{1,7})\s*(s|m|h|d)\s*")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def replace_calls(
    node: tree.Node,
    text: str,
    check: Callable[[tree.Node], Expr],
    window: Window,
    tags: Mapping[str, Type],
    report: Report,
) -> tuple[tree.Node, dict[str, PastValue]]:
    """Replace each call by a column; return the tree, and the values by column.

    check: checks the expression of a number. tags: their types. What is wrong is reported, and read as NULL.
    """
    values: dict[str, PastValue] = {}

    def replace(child: tree.Node) -> tree.Node:
        if not (isinstance(child, tree.Anonymous) and child.name.lower() == NAME):
            _replace_children(child, replace)
            return child
        value = _read(child, text, check, window, tags, report)
        replaced: tree.Node = tree.Null()
        if value is not None:
            values[value.column] = value
            replaced = tree.Column(this=tree.Identifier(this=value.column, quoted=True))
            replaced.this.meta.update(child.meta)
        replaced.meta.update(child.meta)
        return replaced

    return replace(node), values


def _replace_children(node: tree.Node, replace: Callable[[tree.Node], tree.Node]) -> None:
    for name, part in node.args.items():
        if isinstance(part, list):
            node.args[name] = [replace(one) if isinstance(one, tree.Node) else one for one in part]
        elif isinstance(part, tree.Node):
            node.args[name] = replace(part)


def _read(
    call: tree.Anonymous,
    text: str,
    check: Callable[[tree.Node], Expr],
    window: Window,
    tags: Mapping[str, Type],
    report: Report,
) -> PastValue | None:
    """Read a call; None where it is wrong, which is reported."""
    if len(call.expressions) != 2:
        message = f"{NAME} takes a time and a number: {NAME}('7d', num_of_bookings)."
        report.error("WRONG_ARGUMENT_COUNT", span_of(call), message)
        return None
    time, number = call.expressions
    lag = _read_lag(time, window, report)
    value = check(number)
    if not value.wrong and not fits(value.type, Family.NUMBER):
        report.error("TYPE_MISMATCH", value.span, f"{NAME} reads a number of an earlier window.")
    for name, kind in tags.items():
        if not (kind in (*INTEGERS, BOOLEAN) or isinstance(kind, EnumText) or fits(kind, Family.TEXT)):
            message = f"{NAME} finds a row of the past by its tags, and {name} is no text or whole number."
            report.error("TYPE_MISMATCH", span_of(call), message)
    if lag is None or report.failed:
        return None
    begin, end = span_of(call)
    spelt = f"nullif(CAST({sql_of(value)} AS DOUBLE), double('NaN'))"
    column = PAST + digest_of(spelt, *tags, str(lag))
    return PastValue(column, text[begin:end], lag, spelt, tuple(tags), tuple(dict.fromkeys(_names(value))))


def _read_lag(node: tree.Node, window: Window, report: Report) -> timedelta | None:
    match = _LAG.fullmatch(node.name) if isinstance(node, tree.Literal) and node.is_string else None
    lag = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else timedelta()
    problem = ""
    if not timedelta() < lag <= MOST_LAG:
        problem = f"The time is a text like '7d', '1h' or '30m', of {MOST_LAG.days} days at most."
    elif lag % window.slide:
        slide = window.slide.total_seconds()
        problem = (
            f"No window ended then: the time must be a multiple of the {slide:g} s from window to window."
        )
    if problem:
        report.error("INVALID_ARGUMENT", span_of(node), problem)
        return None
    return lag


def _names(value: Expr) -> Iterator[str]:
    return (node.ref.path[0] for node in value.nodes() if node.ref is not None)
