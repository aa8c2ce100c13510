"""Spark SQL of a checked query, and the fingerprint of its state. Made of checked expressions, never of text.

A query that groups has three layers, each a plain SELECT of the one before: rows (`r`: time, keys, arguments
of aggregates; the filter), groups (`g`: window, keys, aggregates; all of the state), and the result. So what
is outside of the state, such as names and their order, cannot change it.
"""

# ruff: noqa: S608 - building SQL is what this module is for; everything in it is quoted by daggersql.tree

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import timedelta

from daggersql.outputs import Output, storable
from daggersql.plan import Read, Window
from daggersql.scope import Source
from daggersql.select import Select
from daggersql.tree import Expr, Kind, quote_name

_IDENTITY = ("__topic", "__partition", "__offset")


def hidden_columns(select: Select) -> tuple[str, ...]:
    """The columns behind the visible ones: the row's time and key."""
    if select.window is None:
        return ("__rowtime", *(f"__key_{i}" for i in range(len(_IDENTITY))))
    return ("__window_start", "__window_end", *(f"__key_{i}" for i in range(len(select.keys))))


def spark_sql(select: Select) -> str:
    """The whole query."""
    if select.window is None:
        return _forwarding(select)
    hidden = [
        "`g`.`w`.`start` AS `__window_start`",
        "`g`.`w`.`end` AS `__window_end`",
        *(f"`g`.`k{i}` AS `__key_{i}`" for i in range(len(select.keys))),
    ]
    having = f" WHERE {select.having.text}" if select.having is not None else ""
    return f"SELECT {_list([*_visible(select.outputs), *hidden])} FROM ({_groups(select)}) AS `g`{having}"


def fingerprint(select: Select) -> str:
    """Identity of the state: the streams, and all that grouped state depends on; no names, no output."""
    table = select.source.table
    state = _groups(select) if select.window is not None else "forwarding"
    identity = [table.name, table.message.full_name, table.time_field, state]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def reads(select: Select) -> tuple[Read, ...]:
    """The Protobuf paths that must be decoded."""
    expressions = [*select.keys, *select.aggregates, *([select.where] if select.where else [])]
    found: set[str] = set()
    if select.window is None:
        expressions += [each.value for each in select.outputs]
        found.update(_IDENTITY)
    for expression in expressions:
        found.update(_paths(expression))
    found.discard("rowtime")
    # Below a path that is read as a whole, everything is read.
    whole = [path for path in sorted(found) if not any(path.startswith(f"{above}.") for above in found)]
    return (Read(select.source.table.name, tuple(whole)),)


def functions(select: Select) -> tuple[str, ...]:
    """Our own functions that it calls."""
    expressions = [*select.keys, *select.aggregates, *(each.value for each in select.outputs)]
    expressions += [each for each in (select.where, select.having) if each is not None]
    return tuple(sorted({each.function for top in expressions for each in top.nodes() if each.function}))


def _paths(expression: Expr) -> Iterable[str]:
    stack = [expression]
    while stack:
        node = stack.pop()
        if node.read is not None:
            yield node.read[1]
            # What it is taken from is read by that path; an index beside it stands for itself.
            stack += node.args[1:]
        else:
            stack += node.args


def _forwarding(select: Select) -> str:
    source = quote_name(select.source.name)
    hidden = [f"{source}.`rowtime` AS `__rowtime`"]
    hidden += [f"{source}.{quote_name(name)} AS `__key_{i}`" for i, name in enumerate(_IDENTITY)]
    return f"SELECT {_list([*_visible(select.outputs), *hidden])} FROM {_from(select.source)}{_where(select)}"


def _groups(select: Select) -> str:
    """The grouped rows: the part that has state."""
    assert select.window is not None
    rows = {select.window.time.text: "`t`"}
    keys = {key.text: f"`k{i}`" for i, key in enumerate(select.keys)}
    aggregates = [
        f"{aggregate.rebuild(lambda part: _argument(part, keys, rows)).text} AS `a{number}`"
        for number, aggregate in enumerate(select.aggregates)
    ]
    inner = f"SELECT {_list(f'{text} AS {name}' for text, name in [*keys.items(), *rows.items()])}"
    window = _window(select.window.window)
    outer = [f"{window} AS `w`", *(f"`r`.{name} AS {name}" for name in keys.values()), *aggregates]
    by = [window, *(f"`r`.{name}" for name in keys.values())]
    source = f"{inner} FROM {_from(select.source)}{_where(select)}"
    return f"SELECT {_list(outer)} FROM ({source}) AS `r` GROUP BY {_list(by)}"


def _argument(part: Expr, keys: dict[str, str], rows: dict[str, str]) -> Expr | None:
    """An argument of an aggregate, as the column of the rows that holds it; constants stay."""
    if part.kind is Kind.AGGREGATE:
        return None
    if part.is_constant:
        return part
    name = keys.get(part.text) or rows.setdefault(part.text, f"`x{len(rows) - 1}`")
    return Expr(f"`r`.{name}", part.type, part.span, kind=Kind.COLUMN)


def _window(window: Window) -> str:
    size, slide = _duration(window.size), _duration(window.slide)
    return f"window(`r`.`t`, '{size}', '{slide}')"


def _duration(length: timedelta) -> str:
    return f"{length // timedelta(milliseconds=1)} milliseconds"


def _visible(outputs: Sequence[Output]) -> list[str]:
    return [f"{storable(each.value).text} AS {quote_name(each.name or '')}" for each in outputs]


def _from(source: Source) -> str:
    return f"{quote_name(source.table.name)} AS {quote_name(source.name)}"


def _where(select: Select) -> str:
    return f" WHERE {select.where.text}" if select.where is not None else ""


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)
