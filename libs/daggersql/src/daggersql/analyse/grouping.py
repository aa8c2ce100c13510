"""Suggestions for GROUP BY: rewrites that add a window or a key to a SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from daggersql.analyse import windows
from daggersql.analyse.callforms import BY_TIME
from daggersql.analyse.checks import Checks
from daggersql.analyse.scope import Scope, Source, UnreadableName
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
"""Text of a window in GROUP BY, and the rewrite that a sub-query needs for it; None: there is no window."""


def window_of(select: tree.Select, scope: Scope, table_window: GroupWindow | None) -> Lacking:
    """Find the window that a SELECT could group by."""
    if table_window is not None:
        return "window_start, window_end", None
    time = scope.event_time()
    if time is not None and (bound := _window_bound(select)) is not None:
        return of_bound(bound, scope.report), None
    if time is not None:
        return tumble(time), None
    if (missing := scope.missing_time()) is None:
        return None
    return tumble(missing.name), missing.rewrite


def _window_bound(select: tree.Select) -> tree.Node | None:
    """Find the first bound of a window that the SELECT names."""
    nodes = (node for expression in select.expressions for node in _all(expression))
    return next((node for node in nodes if windows.is_bound(node)), None)


def with_window(group: tree.Group, window: Lacking, report: Report) -> Rewrite | str:
    """Suggest a window in front of the keys of GROUP BY."""
    if window is None:
        return f"add {tumble()} to GROUP BY"
    text, lacks = window
    first = span_of(group.expressions[0])[0]
    added = Rewrite((first, first), f"{text}, ")
    return report.together(f"add {text} to GROUP BY", *([lacks] if lacks else []), added)


def with_group_by(select: tree.Select, window: Lacking, report: Report) -> Rewrite | str:
    """Suggest a GROUP BY of a window and all that the SELECT names outside of aggregates."""
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
    """Suggest GROUP BY in place of DISTINCT: the same rows, once in each window."""
    start, end = span_of(select.args["distinct"])
    word = Rewrite((start, end + 1), "")
    if select.args.get("group") is not None:
        return report.together("leave DISTINCT out", word)
    change = with_group_by(select, window, report)
    if isinstance(change, str):
        return change
    return report.together(change.words or change.text, word, change)


def resolve_key(key: tree.Node, select: tree.Select, checks: Checks) -> tree.Node:
    """Resolve a key of GROUP BY that is a name of SELECT, unless a source has a column of that name."""
    if not isinstance(key, tree.Column) or any(key.name in source.columns for source in checks.scope.sources):
        return key
    named = (expression for expression in select.expressions if isinstance(expression, tree.Alias))
    return next((name.this for name in named if name.args["alias"].name == key.name), key)


def given_names(
    select: tree.Select, sources: Sequence[Source], report: Report, *, single: bool = False
) -> dict[str, UnreadableName]:
    """Collect the names that SELECT gives, for clauses that cannot read them; `single`: for WHERE, which has
    no aggregates.

    An expression over columns of FROM alone can be suggested in place of its name, as that cannot recur.
    """
    readable = {name for source in sources for name in (source.alias, *source.columns)}
    names: dict[str, UnreadableName] = {}
    for expression in select.expressions:
        if not isinstance(expression, tree.Alias):
            continue
        name, read = (
            expression.args["alias"].name,
            {node.name for node in _all(expression.this) if _is_name(node)},
        )
        why = f"SELECT gives the name {name}, which GROUP BY alone reads"
        if single and _has_aggregate(expression.this):
            names[name] = UnreadableName(f"{why}; an aggregate is asked for in HAVING.")
        elif read <= readable:
            text = _operand(expression.this, report)
            names[name] = UnreadableName(
                f"{why}: write {text if len(text) <= _SHOWN else 'what it is'}.", text
            )
        elif name not in read:
            names[name] = UnreadableName(f"{why}.")
    return names


def is_key(column: tree.Alias, select: tree.Select, checks: Checks) -> bool:
    """Tell whether a key of GROUP BY is the name of this column."""
    group = select.args.get("group")
    keys = group.expressions if group is not None else ()
    return any(key is not column.this and resolve_key(key, select, checks) is column.this for key in keys)


def is_bound(key: tree.Node, select: tree.Select, checks: Checks) -> bool:
    """Tell whether a key of GROUP BY is a bound of a window, or a name of one."""
    return windows.is_bound(resolve_key(key, select, checks))


def refuse_bound(key: tree.Node, select: tree.Select, checks: Checks) -> None:
    """Say that the window itself stands in GROUP BY, not a bound of it."""
    window = of_bound(resolve_key(key, select, checks), checks.report)
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
    """Yield the keys that a column of the result needs: the whole, or its parts outside of aggregates."""
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
    """Tell whether a node is an aggregate or a bound of the window, which a group has besides its keys."""
    if isinstance(node, tree.Filter):
        return True
    if not isinstance(node, tree.Anonymous):
        return False
    name = node.name.upper()
    function = registry.find(name)
    return name in BY_TIME or windows.is_bound(node) or (function is not None and function.aggregate)


def _operand(node: tree.Node, report: Report) -> str:
    """Write an expression as an operand, in brackets where needed."""
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
