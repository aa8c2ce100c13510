"""What a query would have to group by: changes of the text that give a SELECT a window or a key more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from daggersql.analyse import windows
from daggersql.analyse.callforms import BY_TIME
from daggersql.analyse.checks import Checks
from daggersql.analyse.scope import Given, Scope, Source
from daggersql.analyse.windows import KINDS, of_bound, tumble
from daggersql.findings import Report, Rewrite
from daggersql.functions import registry
from daggersql.functions.general import WITHOUT_BRACKETS
from daggersql.ir.relations import GroupWindow
from daggersql.syntax import tree
from daggersql.syntax.cursor import behind, span_of

_SHOWN = 60
"""Characters of an expression that a message repeats."""
Lacking: TypeAlias = tuple[str, Rewrite | None] | None
"""What stands in GROUP BY for a window, and what a sub-query lacks for it; None when there is no way."""


def window_of(select: tree.Select, scope: Scope, table_window: GroupWindow | None) -> Lacking:
    """What stands in GROUP BY for a window, and what a sub-query lacks for it; None when there is no way."""
    if table_window is not None:
        return "window_start, window_end", None
    time = scope.event_time()
    if time is not None and (bound := _bound(select)) is not None:
        return of_bound(bound, scope.report), None
    if time is not None:
        return tumble(time), None
    if (missing := scope.missing_time()) is None:
        return None
    return tumble(missing.name), missing.rewrite


def _bound(select: tree.Select) -> tree.Node | None:
    """The first bound of a window that the SELECT names."""
    nodes = (node for expression in select.expressions for node in _all(expression))
    return next((node for node in nodes if windows.is_bound(node)), None)


def with_window(group: tree.Group, window: Lacking, report: Report) -> Rewrite | str:
    """A window in front of the keys of GROUP BY."""
    if window is None:
        return f"add {tumble()} to GROUP BY"
    text, lacks = window
    first = span_of(group.expressions[0])[0]
    added = Rewrite((first, first), f"{text}, ")
    return report.together(f"add {text} to GROUP BY", *([lacks] if lacks else []), added)


def grouped(select: tree.Select, window: Lacking, report: Report) -> Rewrite | str:
    """GROUP BY a window and whatever the SELECT names outside of aggregates, for one that has no GROUP BY."""
    if window is None or any(_is_star(expression) for expression in select.expressions):
        return f"GROUP BY {tumble()}"
    text, lacks = window
    selected = [*select.expressions, *([select.args["having"].this] if select.args.get("having") else [])]
    keys = dict.fromkeys(
        report.text[slice(*span_of(key))] for expression in selected for key in _outside(expression)
    )
    last = select.args.get("where") or (select.args.get("joins") or [select.args["from_"]])[-1]
    group = behind(last, f"GROUP BY {', '.join([text, *keys])}")
    return report.together(f"GROUP BY {text}", *([lacks] if lacks else []), group)


def without_distinct(select: tree.Select, window: Lacking, report: Report) -> Rewrite | str:
    """The same rows once in each window, in place of DISTINCT."""
    start, end = span_of(select.args["distinct"])
    word = Rewrite((start, end + 1), "")
    if select.args.get("group") is not None:
        return report.together("leave DISTINCT out", word)
    change = grouped(select, window, report)
    if isinstance(change, str):
        return change
    return report.together(change.words or change.text, word, change)


def meant(key: tree.Node, select: tree.Select, checks: Checks) -> tree.Node:
    """A key of GROUP BY: the column that a name in SELECT stands for, where what is read has none of it."""
    if not isinstance(key, tree.Column) or any(key.name in source.columns for source in checks.scope.sources):
        return key
    named = (expression for expression in select.expressions if isinstance(expression, tree.Alias))
    return next((name.this for name in named if name.args["alias"].name == key.name), key)


def given(
    select: tree.Select, sources: Sequence[Source], report: Report, *, single: bool = False
) -> dict[str, Given]:
    """The names that SELECT gives, for where they are not read; `single`: for WHERE, which has no aggregates.

    What reads only columns of FROM can be written in place of its name: that is no step in a circle.
    """
    known = {name for source in sources for name in (source.alias, *source.columns)}
    names: dict[str, Given] = {}
    for expression in select.expressions:
        if not isinstance(expression, tree.Alias):
            continue
        name, read = (
            expression.args["alias"].name,
            {node.name for node in _all(expression.this) if _is_name(node)},
        )
        why = f"SELECT gives the name {name}, which GROUP BY alone reads"
        if single and _has_aggregate(expression.this):
            names[name] = Given(f"{why}; an aggregate is asked for in HAVING.")
        elif read <= known:
            text = _operand(expression.this, report)
            names[name] = Given(f"{why}: write {text if len(text) <= _SHOWN else 'what it is'}.", text)
        elif name not in read:
            names[name] = Given(f"{why}.")
    return names


def is_key(column: tree.Alias, select: tree.Select, checks: Checks) -> bool:
    """Whether a key of GROUP BY is the name of this column."""
    group = select.args.get("group")
    keys = group.expressions if group is not None else ()
    return any(key is not column.this and meant(key, select, checks) is column.this for key in keys)


def is_bound(key: tree.Node, select: tree.Select, checks: Checks) -> bool:
    """Whether a key of GROUP BY is a bound of a window, or a name of one."""
    return windows.is_bound(meant(key, select, checks))


def refuse_bound(key: tree.Node, select: tree.Select, checks: Checks) -> None:
    """Say that the window itself stands in GROUP BY, not a bound of it."""
    window = of_bound(meant(key, select, checks), checks.report)
    group = select.args["group"]
    index, span = group.expressions.index(key), span_of(key)
    if any(expression.name.upper() in KINDS for expression in group.expressions):
        start = span_of(group.expressions[index - 1])[1] if index else span[0]
        end = span[1] if index else span_of(group.expressions[1])[0]
        change = Rewrite((start, end), "", "leave it out")
    else:
        change = Rewrite(span, window)
    checks.report.error(
        "WINDOW_MISMATCH",
        span,
        f"A bound of a window is no key: its groups have one each; GROUP BY {window}, and select the bound.",
        change,
    )


def _is_star(node: tree.Node) -> bool:
    return isinstance(node.expression if isinstance(node, tree.Dot) else node, tree.Star)


def _outside(node: tree.Node) -> Iterator[tree.Node]:
    """What a column of the result names outside of aggregates: all of it, or its columns, to group by."""
    if isinstance(node, tree.Alias):
        yield from _outside(node.this)
    elif not _has_aggregate(node):
        yield from [node] if any(map(_is_name, _all(node))) else []
    elif not _is_aggregate(node):
        for child in node.children():
            yield from _outside(child)


def _has_aggregate(node: tree.Node) -> bool:
    return any(map(_is_aggregate, _all(node)))


def _is_aggregate(node: tree.Node) -> bool:
    """Whether it is an aggregate, or a bound of the window: what a group has besides its keys."""
    if isinstance(node, tree.Filter):
        return True
    if not isinstance(node, tree.Anonymous):
        return False
    name = node.name.upper()
    function = registry.find(name)
    return name in BY_TIME or windows.is_bound(node) or (function is not None and function.aggregate)


def _operand(node: tree.Node, report: Report) -> str:
    """The text of an expression as it stands between operators."""
    text = report.text[slice(*span_of(node))]
    return text if isinstance(node, tree.Column | tree.Dot | tree.Anonymous | tree.Literal) else f"({text})"


def _is_name(node: tree.Node) -> bool:
    return isinstance(node, tree.Column) and node.name.upper() not in WITHOUT_BRACKETS


def _all(node: tree.Node) -> Iterator[tree.Node]:
    stack = [node]
    while stack:
        part = stack.pop()
        yield part
        stack += part.children()
