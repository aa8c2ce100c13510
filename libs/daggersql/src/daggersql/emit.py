"""Spark SQL of a checked query, and the fingerprint of its state. Made of checked expressions, never of text.

A query that groups has three layers, each a plain SELECT of the one before: rows (`r`: time, keys, arguments
of aggregates; the filter), groups (`g`: window, keys, aggregates; all of the state), and the result. So what
is outside of the state, such as names and their order, cannot change it.
"""

# ruff: noqa: S608 - building SQL is what this module is for; everything in it is quoted by daggersql.tree

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from daggerspec.columns import KEY, RECORD_TIME, SINCE, SINCE_OF_WINDOW, WINDOW_END, WINDOW_START
from daggersql import reach, relations, rendering, whole
from daggersql.outputs import Output, storable
from daggersql.plan import Read, Window
from daggersql.relations import METADATA_KEYS, Identity
from daggersql.rendering import COMPLETE_FROM
from daggersql.select import Select, Union
from daggersql.tree import Expr, Kind, quote_name
from daggersql.types import ROWTIME

Result = Select | Union


def identity(query: Result) -> Identity:
    """What tells the rows of a query apart, as SQL over what its SELECT reads."""
    if isinstance(query, Union):
        return query.identity
    if query.window is None:
        return relations.identity(query.relation)
    keys = tuple(f"`g`.`k{number}`" for number in range(len(query.keys)))
    return Identity(("`g`.`w`.`start`", "`g`.`w`.`end`"), None, keys)


def hidden_columns(query: Result) -> tuple[str, ...]:
    """The columns behind the visible ones: the row's time and key."""
    found = identity(query)
    first = (WINDOW_START, WINDOW_END) if found.window else (RECORD_TIME,)
    of_window = found.window is not None and whole.mixed(query)
    since = (SINCE_OF_WINDOW if of_window else SINCE,) if whole.tells(query) else ()
    return (*first, *(f"{KEY}{number}" for number in range(len(found.keys))), *since)


def spark_sql(query: Result, groups: str | None = None) -> str:
    """The whole query: visible columns, then hidden ones. `groups` replaces the SQL of a SELECT's groups."""
    if isinstance(query, Union):
        parts = [f"{storable(each.value).text} AS {quote_name(each.name or '')}" for each in query.outputs]
        hidden = _hidden(query.identity, hidden_columns(query), f"`{query.name}`.`{SINCE}`")
        return f"SELECT {_list([*parts, *hidden])} FROM ({union(query, identify=True)}) AS `{query.name}`"
    hidden = _hidden(identity(query), hidden_columns(query), whole.since(query))
    return _select(query, [*_visible(query.outputs), *hidden], identify=True, groups=groups)


def nested(select: Select, *, identify: bool) -> str:
    """A query that groups, as the table that an outer query reads."""
    parts = [f"{each.value.text} AS {quote_name(each.name or '')}" for each in select.outputs]
    parts.append(f"{whole.since(select)} AS `{SINCE}`")
    if identify:
        parts += [f"{text} AS `{name}`" for text, name in relations.columns_of(identity(select))]
    return _select(select, parts, identify=identify)


def union(query: Union, *, identify: bool) -> str:
    """The branches, one below the other, as the table that an outer query reads."""
    texts = []
    for branch, values, keys in zip(query.branches, query.values, query.branch_keys, strict=True):
        parts = [f"{value.text} AS `c{number}`" for number, value in enumerate(values)]
        parts += [f"{whole.since(branch)} AS `{SINCE}`"] if whole.tells(query) else []
        parts += [f"{text} AS `{name}`" for text, name in keys] if identify else []
        texts.append(_select(branch, parts, identify=identify))
    return " UNION ALL ".join(texts)


def fingerprint(query: Result, state: str | None = None) -> str:
    """Identity of the state: the streams, and all that kept rows and groups depend on; no names.

    `state` is what the groups of a SELECT depend on, when that is not their own SQL.
    """
    selects = query.branches if isinstance(query, Union) else (query,)
    streams = relations.tables([select.relation for select in selects])
    identity_of_streams = [[table.name, table.message.full_name, table.time_field] for table in streams]
    states = [state or _state(select) for select in selects]
    return hashlib.sha256(json.dumps([*identity_of_streams, *states]).encode()).hexdigest()


def _state(select: Select) -> str:
    if select.window is not None:
        return _groups(select)
    if not reach.horizon(select.relation):
        return "forwarding"
    # Rows that wait for a partner are kept with all that is selected of them.
    outputs = sorted(each.value.text for each in select.outputs) if reach.has_join(select.relation) else []
    return json.dumps([_from(select, identify=True), _where(select), outputs])


def reads(query: Result) -> tuple[Read, ...]:
    """The Protobuf paths that must be decoded of each stream, in the order of FROM."""
    selects = query.branches if isinstance(query, Union) else (query,)
    found: dict[str, set[str]] = {}
    for select in selects:
        for stream in relations.streams(select.relation):
            paths = found.setdefault(stream.table.name, set())
            if identity(select).window is None:
                paths.update(METADATA_KEYS)
        for expression in expressions(select):
            for table, path in _paths(expression):
                found.setdefault(table, set()).add(path)
    equal = tuple(each for each in conditions(query) if each is not None)
    return tuple(Read(table, _least(paths - {"rowtime"}), equal) for table, paths in found.items())


def conditions(query: Result) -> list[tuple[str, str] | None]:
    """What WHERE asks for, of a query over one stream: each condition that AND joins with the others.

    Column and constant where it asks for nothing but a text, None for any other.
    """
    if isinstance(query, Union) or not isinstance(query.relation, relations.Stream) or query.where is None:
        return []
    return [_equal(condition) for condition in _conjuncts(query.where)]


def _equal(condition: Expr) -> tuple[str, str] | None:
    match condition:
        case Expr(
            template="({0} = {1})",
            args=(Expr(kind=Kind.COLUMN, read=(_, path)), Expr(kind=Kind.CONSTANT, value=str() as value)),
        ) if "." not in path:
            return path, value
    return None


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if condition.template == "({0} AND {1})":
        for part in condition.args:
            yield from _conjuncts(part)
    else:
        yield condition


def _least(paths: set[str]) -> tuple[str, ...]:
    """Below a path that is read as a whole, everything is read."""
    return tuple(path for path in sorted(paths) if not any(path.startswith(f"{each}.") for each in paths))


def functions(query: Result) -> tuple[str, ...]:
    """Our own functions that it calls."""
    return tuple(sorted({each.function for each in nodes(query) if each.function}))


def nodes(query: Result) -> Iterator[Expr]:
    """All that its expressions are made of."""
    for select in query.branches if isinstance(query, Union) else (query,):
        for top in (*expressions(select), *over_groups(select)):
            yield from top.nodes()


def expressions(select: Select) -> Iterator[Expr]:
    """Every expression over rows, those of its relation included."""
    own = _over_rows(select)
    yield from own
    yield from relations.expressions(select.relation, relations.texts(own))


def all_expressions(select: Select) -> list[Expr]:
    """Its expressions over rows and over groups, for who reads it as a table."""
    return [*_over_rows(select), *over_groups(select)]


# --- one SELECT -----------------------------------------------------------------------------------------


def _over_rows(select: Select) -> list[Expr]:
    where = [select.where] if select.where else []
    if select.window is None:
        return [*(each.value for each in select.outputs), *where]
    return [select.window.time, *select.keys, *select.aggregates, *where]


def over_groups(select: Select) -> list[Expr]:
    """Its expressions over groups."""
    return [*(each.value for each in select.outputs), *([select.having] if select.having else [])]


def _select(select: Select, parts: Sequence[str], *, identify: bool, groups: str | None = None) -> str:
    if select.window is None:
        return f"SELECT {_list(parts)} FROM {_from(select, identify=identify)}{_where(select)}"
    having = ""
    if select.having is not None:
        partial = f" OR {whole.since(select)} < {COMPLETE_FROM}" if whole.remembers(select) else ""
        having = f" WHERE {select.having.text}{partial}"
    return f"SELECT {_list(parts)} FROM ({groups or _groups(select)}) AS `g`{having}"


def _groups(select: Select) -> str:
    """The grouped rows: the part that has state."""
    assert select.window is not None
    time = select.window.time
    rows = {time.text: "`t`"}
    keys = {key.text: f"`k{i}`" for i, key in enumerate(select.keys)}
    aggregates = [
        f"{aggregate.rebuild(lambda part: _argument(part, keys, rows)).text} AS `a{number}`"
        for number, aggregate in enumerate(select.aggregates)
    ]
    untimed = {each.text for each in _over_rows(select) for each in each.nodes() if each.type == ROWTIME}
    inner = [
        f"{rendering.untimed(text) if text in untimed and text != time.text else text} AS {name}"
        for text, name in [*keys.items(), *rows.items()]
    ]
    inner += whole.of_row(select)
    aggregates += whole.of_group(select)
    source = f"{_from(select, identify=False)}{_where(select)}"
    return grouped(select.window.window, inner, list(keys.values()), aggregates, source)


def grouped(
    window: Window, inner: Sequence[str], keys: Sequence[str], aggregates: Sequence[str], source: str
) -> str:
    """Groups of the rows `r`, which are `inner` of `source`: their time is `t`, their keys are `keys`."""
    window_sql = _window(window)
    by = [window_sql, *(f"`r`.{name}" for name in keys)]
    if window.kind == "SESSION" and not keys:
        # Spark refuses a session as the only key.
        inner = [*inner, "0 AS `one`"]
        by.append("`r`.`one`")
    outer = [f"{window_sql} AS `w`", *(f"`r`.{name} AS {name}" for name in keys), *aggregates]
    rows = f"SELECT {_list(inner)} FROM {source}"
    return f"SELECT {_list(outer)} FROM ({rows}) AS `r` GROUP BY {_list(by)}"


def _argument(part: Expr, keys: dict[str, str], rows: dict[str, str]) -> Expr | None:
    """An argument of an aggregate, as the column of the rows that holds it; constants stay."""
    if part.kind is Kind.AGGREGATE:
        return None
    if part.is_constant:
        return part
    name = keys.get(part.text) or rows.setdefault(part.text, f"`x{len(rows) - 1}`")
    return Expr(f"`r`.{name}", part.type, part.span, kind=Kind.COLUMN)


def _window(of: Window) -> str:
    size, slide = _duration(of.size), _duration(of.slide)
    return (
        f"session_window(`r`.`t`, '{size}')"
        if of.kind == "SESSION"
        else f"window(`r`.`t`, '{size}', '{slide}')"
    )


def _duration(length: timedelta) -> str:
    return f"{length // timedelta(milliseconds=1)} milliseconds"


def _paths(expression: Expr) -> Iterable[tuple[str, str]]:
    stack = [expression]
    while stack:
        node = stack.pop()
        if node.read is not None:
            yield node.read
            # What it is taken from is read by that path; an index beside it stands for itself.
            stack += node.args[1:]
        else:
            stack += node.args


def _hidden(found: Identity, names: Sequence[str], since: str) -> list[str]:
    first = found.window or (found.time or "CAST(NULL AS TIMESTAMP)",)
    texts = (*first, *found.keys, since)[: len(names)]
    return [f"{text} AS `{name}`" for text, name in zip(texts, names, strict=True)]


def _visible(outputs: Sequence[Output]) -> list[str]:
    return [f"{storable(each.value).text} AS {quote_name(each.name or '')}" for each in outputs]


def _from(select: Select, *, identify: bool) -> str:
    return rendering.sql(select.relation, relations.texts(_over_rows(select)), identify=identify)


def _where(select: Select) -> str:
    return rendering.kept(select.where, select.relation)


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)
