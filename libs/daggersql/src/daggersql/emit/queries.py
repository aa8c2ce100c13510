"""Spark SQL of a checked query, and the fingerprint of its state. Made of checked expressions, never of text.

A query that groups has three layers, each a plain SELECT of the one before: rows (`r`: time, keys, arguments
of aggregates; the filter), groups (`g`: window, keys, aggregates; all of the state), and the result. So what
is outside of the state, such as names and their order, cannot change it.
"""

# ruff: noqa: S608 - building SQL is what this module is for; everything in it is quoted by daggersql.ir.expr

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import timedelta

from daggerspec.columns import KEY, RECORD_TIME, SINCE, SINCE_OF_WINDOW, WINDOW_END, WINDOW_START
from daggerspec.query import quote_name
from daggersql.emit import since
from daggersql.emit.expressions import sql
from daggersql.ir import reach, results, whole
from daggersql.ir.expr import Expr, Kind, Ref, call, cast, column
from daggersql.ir.ops import Op
from daggersql.ir.relations import (
    Identity,
    Join,
    Output,
    Picked,
    Query,
    Relation,
    Result,
    Select,
    Stream,
    Union,
    Unnest,
    Used,
)
from daggersql.ir.types import NULL, ROWTIME, STRING, TIMESTAMP, WINDOW_TIME
from daggersql.ir.walk import columns_in, columns_of, identity, named, over_rows, tables
from daggersql.plan import Window


def hidden_columns(query: Result) -> tuple[str, ...]:
    """The columns behind the visible ones: the row's time and key."""
    own = identity(query)
    first = (WINDOW_START, WINDOW_END) if own.window else (RECORD_TIME,)
    of_window = own.window is not None and whole.mixed(query)
    since = (SINCE_OF_WINDOW if of_window else SINCE,) if whole.tells(query) else ()
    return (*first, *(f"{KEY}{number}" for number in range(len(own.keys))), *since)


def key_columns(query: Result) -> tuple[str, ...]:
    """The visible columns that are the identity of a row: one bound of a window tells it; else all of it.

    None where a part is not seen.
    """
    if isinstance(query, Union):
        return ()
    own = identity(query)
    seen: dict[Ref | None, str] = {
        output.value.ref: output.name
        for output in reversed(query.outputs)
        if output.value.ref and output.name
    }
    window = [seen[bound.ref] for bound in reversed(own.window or ()) if bound.ref in seen]
    names = [*window[:1], *(seen.get(key.ref) for key in own.keys)]
    told = all(names) and bool(window or not own.window)
    return tuple(name for name in names if name) if told else ()


def spark_sql(query: Result, groups: str | None = None) -> str:
    """The whole query: visible columns, then hidden ones. `groups` replaces the SQL of a SELECT's groups."""
    if isinstance(query, Union):
        parts = [
            f"{sql(storable(output.value))} AS {quote_name(output.name or '')}" for output in query.outputs
        ]
        hidden = _hidden(query.identity, hidden_columns(query), f"`{query.name}`.`{SINCE}`")
        return f"SELECT {_list([*parts, *hidden])} FROM ({_union(query, identify=True)}) AS `{query.name}`"
    hidden = _hidden(identity(query), hidden_columns(query), since.of_query(query))
    return _select(query, [*_visible(query.outputs), *hidden], identify=True, groups=groups)


def _nested(select: Select, *, identify: bool) -> str:
    """A query that groups, as the table that an outer query reads."""
    parts = [f"{sql(output.value)} AS {quote_name(output.name or '')}" for output in select.outputs]
    parts.append(f"{since.of_query(select)} AS `{SINCE}`")
    if identify:
        parts += [f"{sql(key)} AS `{name}`" for key, name in columns_of(identity(select))]
    return _select(select, parts, identify=identify)


def _union(query: Union, *, identify: bool) -> str:
    """The branches, one below the other, as the table that an outer query reads."""
    texts = []
    for branch, values, keys in zip(query.branches, query.values, query.branch_keys, strict=True):
        parts = [f"{sql(value)} AS `c{number}`" for number, value in enumerate(values)]
        parts += [f"{since.of_query(branch)} AS `{SINCE}`"] if whole.tells(query) else []
        parts += [f"{sql(key)} AS `{name}`" for key, name in keys] if identify else []
        texts.append(_select(branch, parts, identify=identify))
    return " UNION ALL ".join(texts)


def fingerprint(query: Result, state: str | None = None) -> str:
    """Identity of the state: the streams, and all that kept rows and groups depend on; no names.

    `state` is what the groups of a SELECT depend on, when that is not their own SQL.
    """
    selects = query.branches if isinstance(query, Union) else (query,)
    streams = tables([select.relation for select in selects])
    identity_of_streams = [[table.name, table.message.full_name, table.time_field] for table in streams]
    states = [state or _state(select) for select in selects]
    return hashlib.sha256(json.dumps([*identity_of_streams, *states]).encode()).hexdigest()


def _state(select: Select) -> str:
    if select.window is not None:
        return _groups(select)
    if not reach.horizon(select.relation):
        return "forwarding"
    # Rows that wait for a partner are kept with all that is selected of them.
    outputs = (
        sorted(sql(output.value) for output in select.outputs) if reach.has_join(select.relation) else []
    )
    return json.dumps([_from(select, identify=True), _where(select), outputs])


# --- one SELECT -----------------------------------------------------------------------------------------


def _select(select: Select, parts: Sequence[str], *, identify: bool, groups: str | None = None) -> str:
    if select.window is None:
        return f"SELECT {_list(parts)} FROM {_from(select, identify=identify)}{_where(select)}"
    having = ""
    if select.having is not None:
        partial = f" OR {since.of_query(select)} < {since.COMPLETE_FROM}" if whole.remembers(select) else ""
        having = f" WHERE {sql(select.having)}{partial}"
    return f"SELECT {_list(parts)} FROM ({groups or _groups(select)}) AS `g`{having}"


def _groups(select: Select) -> str:
    """The grouped rows: the part that has state."""
    assert select.window is not None
    time = sql(select.window.time)
    rows = {time: "t"}
    keys = {sql(key): f"k{i}" for i, key in enumerate(select.keys)}
    aggregates = [
        f"{sql(aggregate.rebuild(lambda part: _argument(part, keys, rows)))} AS `a{number}`"
        for number, aggregate in enumerate(select.aggregates)
    ]
    untimed = {sql(part) for row in over_rows(select) for part in row.nodes() if part.type == ROWTIME}
    inner = [
        f"{_untimed(text) if text in untimed and text != time else text} AS `{name}`"
        for text, name in [*keys.items(), *rows.items()]
    ]
    inner += since.of_row(select)
    aggregates += since.of_group(select)
    source = f"{_from(select, identify=False)}{_where(select)}"
    return grouped(select.window.window, inner, list(keys.values()), aggregates, source)


def grouped(
    window: Window, inner: Sequence[str], keys: Sequence[str], aggregates: Sequence[str], source: str
) -> str:
    """Groups of the rows `r`, which are `inner` of `source`: their time is `t`, their keys are `keys`."""
    window_sql = _window(window)
    by = [window_sql, *(f"`r`.`{name}`" for name in keys)]
    if window.kind == "SESSION" and not keys:
        # Spark refuses a session as the only key.
        inner = [*inner, "0 AS `one`"]
        by.append("`r`.`one`")
    outer = [f"{window_sql} AS `w`", *(f"`r`.`{name}` AS `{name}`" for name in keys), *aggregates]
    rows = f"SELECT {_list(inner)} FROM {source}"
    return f"SELECT {_list(outer)} FROM ({rows}) AS `r` GROUP BY {_list(by)}"


def _argument(part: Expr, keys: dict[str, str], rows: dict[str, str]) -> Expr | None:
    """An argument of an aggregate, as the column of the rows that holds it; constants stay."""
    if part.kind is Kind.AGGREGATE:
        return None
    if part.is_constant:
        return part
    name = keys.get(sql(part)) or rows.setdefault(sql(part), f"x{len(rows) - 1}")
    return column(Ref("r", (name,)), part.type, part.span)


def _window(of: Window) -> str:
    size, slide = _duration(of.size), _duration(of.slide)
    return (
        f"session_window(`r`.`t`, '{size}')"
        if of.kind == "SESSION"
        else f"window(`r`.`t`, '{size}', '{slide}')"
    )


def _duration(length: timedelta) -> str:
    return f"{length // timedelta(milliseconds=1)} milliseconds"


def _hidden(own: Identity, names: Sequence[str], since: str) -> list[str]:
    first = own.window or (own.time or call(Op.TYPED_NULL, TIMESTAMP, (0, 0)),)
    texts = (*map(sql, (*first, *own.keys)), since)[: len(names)]
    return [f"{text} AS `{name}`" for text, name in zip(texts, names, strict=True)]


def _visible(outputs: Sequence[Output]) -> list[str]:
    return [f"{sql(storable(output.value))} AS {quote_name(output.name or '')}" for output in outputs]


def _from(select: Select, *, identify: bool) -> str:
    return _relation(select.relation, columns_in(over_rows(select)), identify=identify)


def _where(select: Select) -> str:
    return since.kept(select.where, select.relation)


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def storable(value: Expr) -> Expr:
    """The value as a column can hold it: a NULL needs a type; times of windows are whole milliseconds."""
    if value.type == WINDOW_TIME:
        return call(Op.FLOOR_TIME, TIMESTAMP, value.span, value, name="MILLISECOND")
    return cast(value, STRING) if value.type == NULL else value


# --- relations -----------------------------------------------------------------------------------------


def _relation(of: Relation, used: Used, *, identify: bool) -> str:
    """The relation as it stands behind FROM. `identify`: what is above asks for the identity of rows."""
    match of:
        case Stream(table=table, name=name):
            return f"{quote_name(table.name)} AS {quote_name(name)}"
        case Unnest(below=below, value=value, name=name, outer=outer):
            view = f"LATERAL VIEW {'OUTER ' if outer else ''}posexplode({_unfolded(of)}) `{name}` AS `p`, `c`"
            return f"{_relation(below, used | columns_in([value]), identify=identify)} {view}"
        case Join(left=left, right=right, on=on, outer=outer):
            inside = used | columns_in([on])
            sides = [_relation(side, inside, identify=identify) for side in (left, right)]
            return f"{sides[0]} {'LEFT' if outer else 'INNER'} JOIN {sides[1]} ON {sql(on)}"
        case Picked():
            return _picked(of, used, identify=identify)
        case Query(name=name, query=query):
            inner = (
                _union(query, identify=identify)
                if isinstance(query, Union)
                else _nested(query, identify=identify)
            )
            return f"({inner}) AS `{name}`"


def _unfolded(of: Unnest) -> str:
    """What is unfolded, as SQL. A partial session's list is never empty: a row says that it is partial."""
    text = sql(of.value)
    if of.outer or not results.made_of(of.value, results.of(of.below)):
        return text
    partial = f"{since.least(since.sinces(of.below))} < {since.COMPLETE_FROM}"
    return f"CASE WHEN coalesce(size({text}), -1) < 1 AND {partial} THEN array(NULL) ELSE {text} END"


def _picked(of: Picked, used: Used, *, identify: bool) -> str:
    chosen = named(of, used)
    parts = []
    for name, value in chosen.items():
        timed = of.time in (None, Ref(of.name, (name,))) or value.type != ROWTIME
        parts.append(f"{sql(value) if timed else _untimed(sql(value))} AS {quote_name(name)}")
    if identify:
        parts += [f"{sql(key)} AS `{name}`" for key, name in columns_of(identity(of.below))]
    if before := since.sinces(of.below):
        parts.append(f"{since.least(before)} AS `{SINCE}`")
    where = since.kept(of.where, of.below)
    inside = columns_in([*chosen.values(), *([of.where] if of.where else [])])
    return (
        f"(SELECT {_list(parts)} FROM {_relation(of.below, inside, identify=identify)}{where}) AS `{of.name}`"
    )


def _untimed(text: str) -> str:
    """The same timestamp, which Spark no longer takes for the event time of the row."""
    return f"({text} + INTERVAL '0' SECOND)"
