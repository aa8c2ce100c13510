"""Spark SQL of a checked query, and the fingerprint of its state. Made of checked expressions, never of text.

A query that groups has three layers, each a plain SELECT of the one before: rows (`r`: time, keys, arguments
of aggregates; the filter), groups (`g`: window, keys, aggregates; all of the state), and the result. So what
is outside of the state, such as names and their order, cannot change it.
"""

# ruff: noqa: S608 - building SQL is what this module is for; everything in it is quoted by daggersql.ir.expr

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta

from daggerspec.columns import KEY, RECORD_TIME, SINCE, SINCE_OF_WINDOW, WINDOW_END, WINDOW_START
from daggerspec.query import quote_name
from daggersql.emit import since
from daggersql.emit.expressions import originally, sql
from daggersql.emit.reads import in_order
from daggersql.emit.stages import Stages, conditions_of_sides
from daggersql.ir import closing, reach, results, whole
from daggersql.ir.conditions import conjuncts
from daggersql.ir.expr import Expr, ExprKind, Ref, call, cast, column
from daggersql.ir.ops import Op
from daggersql.ir.relations import (
    Identity,
    Join,
    OutputColumn,
    Projection,
    QueryRelation,
    Relation,
    Result,
    Select,
    Stream,
    Union,
    Unnest,
    Used,
)
from daggersql.ir.types import NULL, ROWTIME, STRING, TIMESTAMP, WINDOW_TIME
from daggersql.ir.walk import METADATA_KEYS, columns_in, columns_of, identity, over_rows, tables, used_columns
from daggersql.plan import CLOSED, GATE, WINDOW, StagedQuery, Window

# A key that all rows have: Spark refuses a session as the only one.
_ONE = "one"
_NOTHING: Mapping[str, str] = {}


def hidden_columns(query: Result) -> tuple[str, ...]:
    """List the columns behind the visible ones: time and identity of the row."""
    own = identity(query)
    first = (WINDOW_START, WINDOW_END) if own.window else (RECORD_TIME,)
    of_window = own.window is not None and whole.mixed(query)
    since = (SINCE_OF_WINDOW if of_window else SINCE,) if whole.exposes_since(query) else ()
    return (*first, *(f"{KEY}{number}" for number in range(len(own.keys))), *since)


def key_columns(query: Result) -> tuple[str, ...]:
    """List the visible columns that identify a row; of a window one bound is enough.

    Empty where a part of the identity is not visible.
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
    is_whole = all(names) and bool(window or not own.window)
    return tuple(name for name in names if name) if is_whole else ()


def stage_query(query: Result) -> StagedQuery | None:
    """Write the whole query in stages; None where the reader of its streams can count late rows."""
    windows = closing.closing(query)
    if not any(windows.values()) or closing.is_counted_where_read(query):
        return None
    stages = Stages(windows)
    text = spark_sql(query, stages=stages)
    return StagedQuery(text, tuple(stages.found))


def spark_sql(query: Result, groups: str | None = None, stages: Stages | None = None) -> str:
    """Write the whole query: visible columns, then hidden ones. `groups` replaces the SQL of a SELECT's
    groups; with `stages`, the stages are read, and their SQL is left out.
    """
    if isinstance(query, Union):
        parts = [
            f"{sql(storable(output.value))} AS {quote_name(output.name or '')}" for output in query.outputs
        ]
        hidden = _hidden_parts(query.identity, hidden_columns(query), f"`{query.name}`.`{SINCE}`")
        rows = _union(query, identify=True, stages=stages)
        return f"SELECT {_list([*parts, *hidden])} FROM ({rows}) AS `{query.name}`"
    hidden = _hidden_parts(identity(query), hidden_columns(query), since.of_query(query))
    if query.window is not None and query.window.window.gates:
        hidden += [f"`g`.`{name}` AS `{name}`" for name in (GATE, CLOSED)]
    return _select(query, [*_visible(query.outputs), *hidden], identify=True, groups=groups, stages=stages)


def _grouping_table(select: Select, *, identify: bool, stages: Stages | None) -> str:
    """Write a query that groups as the table that an outer query reads."""
    parts = [f"{sql(output.value)} AS {quote_name(output.name or '')}" for output in select.outputs]
    parts.append(f"{since.of_query(select)} AS `{SINCE}`")
    if identify:
        parts += [f"{sql(key)} AS `{name}`" for key, name in columns_of(identity(select))]
    return _select(select, parts, identify=identify, stages=stages)


def _union(
    query: Union,
    *,
    identify: bool,
    stages: Stages | None = None,
    late_for: Window | None = None,
    tables: Sequence[str] = (),
    identifying: Callable[[Expr], str] = sql,
) -> str:
    """Write the branches of a UNION ALL as the table that an outer query reads. With `late_for`, rows count
    for these tables the windows for which they are too late. `identifying` writes parts of an identity.
    """
    texts = []
    for branch, values, keys in zip(query.branches, query.values, query.branch_keys, strict=True):
        parts = [f"{sql(value)} AS `c{number}`" for number, value in enumerate(values)]
        parts += [f"{since.of_query(branch)} AS `{SINCE}`"] if whole.exposes_since(query) else []
        parts += [f"{identifying(key)} AS `{name}`" for key, name in keys] if identify else []
        if stages is not None and late_for is not None:
            late = {} if branch.window else stages.late(branch.relation, late_for)
            parts += stages.columns(late, tables)
        texts.append(_select(branch, parts, identify=identify, stages=stages, late_for=late_for))
    return " UNION ALL ".join(texts)


def fingerprint(query: Result, state: str | None = None) -> str:
    """Identity of the state: the streams, and all that kept rows and groups depend on; no names.

    `state` is what the groups of a SELECT depend on, when that is not their own SQL. Forms that were mended
    count as they were: what is kept has the types it had (ADR 171).
    """
    selects = query.branches if isinstance(query, Union) else (query,)
    streams = tables([select.relation for select in selects])
    identity_of_streams = [[table.name, table.message.full_name, table.time_field] for table in streams]
    with originally():
        states = [state or _state(select) for select in selects]
    states += [str(gate) for select in selects if select.window for gate in select.window.window.gates]
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


def _select(
    select: Select,
    parts: Sequence[str],
    *,
    identify: bool,
    groups: str | None = None,
    stages: Stages | None = None,
    late_for: Window | None = None,
) -> str:
    if select.window is None:
        source = _from(select, identify=identify, stages=stages, late_for=late_for)
        return f"SELECT {_list(parts)} FROM {source}{_where(select)}"
    having = ""
    if select.having is not None:
        partial = f" OR {since.of_query(select)} < {since.COMPLETE_FROM}" if whole.remembers(select) else ""
        having = f" WHERE {sql(select.having)}{partial}"
    return f"SELECT {_list(parts)} FROM ({groups or _groups(select, stages)}) AS `g`{having}"


def _groups(select: Select, stages: Stages | None = None) -> str:
    """Write the grouped rows, the part of the query that has state."""
    assert select.window is not None
    time = sql(select.window.time)
    rows = {time: "t"}
    keys = {sql(key): f"k{i}" for i, key in enumerate(select.keys)}
    aggregates = [
        f"{sql(aggregate.rebuild(lambda part: _argument(part, keys, rows)))} AS `a{number}`"
        for number, aggregate in enumerate(select.aggregates)
    ]
    untimed = {sql(part) for row in over_rows(select) for part in row.nodes() if part.type == ROWTIME}
    inner = {
        name: f"{_hide_event_time(text) if text in untimed and text != time else text} AS `{name}`"
        for text, name in [*keys.items(), *rows.items()]
    }
    inner |= since.of_row(select)
    inner |= columns_of_gates(select.window.window, select.relation)
    if select.window.window.kind == "SESSION" and not keys:
        inner[_ONE] = f"0 AS `{_ONE}`"
    aggregates += since.of_group(select)
    window = select.window.window
    late = stages.late(select.relation, window) if stages is not None else {}
    source = _from(select, identify=False, stages=stages, late_for=window if late else None)
    values = [*select.keys, *(part for aggregate in select.aggregates for part in aggregate.nodes())]
    fixed = {sql(value) for value in values if not columns_in([value])}
    constants = [_ONE, *(name for text, name in [*keys.items(), *rows.items()] if text in fixed)]
    rows_sql = rows_of(inner, f"{source}{_where(select)}", stages, late, constants=constants)
    return group_rows(window, rows_sql, list(keys.values()), aggregates)


def rows_of(
    columns: Mapping[str, str],
    source: str,
    stages: Stages | None = None,
    late: Mapping[str, str] = _NOTHING,
    *,
    constants: Collection[str] = (),
    weight: str = "",
) -> str:
    """Write the rows that are grouped. `columns`: columns of `source` as SQL, by name.

    With `late` windows they become a stage, except for `constants`: Spark keeps no key in its state that is
    the same in all rows, and must be able to see that it is. `weight`: see `Stage.weight`.
    """
    if stages is None or not late:
        return f"SELECT {_list(columns.values())} FROM {source}"
    own = {name: text for name, text in columns.items() if name not in constants}
    listed = _list([*own.values(), *stages.columns(late)])
    stage = stages.add(f"SELECT {listed} FROM {source}", late, weight)
    parts = (f"`{name}`" if name in own else text for name, text in columns.items())
    return f"SELECT {_list(parts)} FROM {stage}"


def group_rows(window: Window, rows: str, keys: Sequence[str], aggregates: Sequence[str]) -> str:
    """Write the grouping of the rows `r` by window and `keys`; their time is `t`. Where the window has gates,
    rows have a window and a gate.
    """
    window_sql = f"`r`.`{WINDOW}`" if window.gates else _window(window)
    by = [window_sql, *(f"`r`.`{name}`" for name in keys)]
    if window.kind == "SESSION" and not keys:
        by.append(f"`r`.`{_ONE}`")
    outer = [f"{window_sql} AS `w`", *(f"`r`.`{name}` AS `{name}`" for name in keys), *aggregates]
    if window.gates:
        by.append(f"`r`.`{GATE}`")
        outer += [f"`r`.`{GATE}` AS `{GATE}`", f"max(`r`.`{CLOSED}`) AS `{CLOSED}`"]
    return f"SELECT {_list(outer)} FROM ({rows}) AS `r` GROUP BY {_list(by)}"


def columns_of_gates(window: Window, of: Relation) -> dict[str, str]:
    """Write the columns by which rows of a stream are grouped where the window has gates."""
    if not window.gates or not isinstance(of, Stream):
        return {}
    return {name: f"{quote_name(of.name)}.`{name}` AS `{name}`" for name in (WINDOW, GATE, CLOSED)}


def _argument(part: Expr, keys: dict[str, str], rows: dict[str, str]) -> Expr | None:
    """Replace an argument of an aggregate by a column of the rows; constants stay."""
    if part.kind is ExprKind.AGGREGATE:
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


def _hidden_parts(own: Identity, names: Sequence[str], since: str) -> list[str]:
    first = own.window or (own.time or call(Op.TYPED_NULL, TIMESTAMP, (0, 0)),)
    texts = (*map(sql, (*first, *own.keys)), since)[: len(names)]
    return [f"{text} AS `{name}`" for text, name in zip(texts, names, strict=True)]


def _visible(outputs: Sequence[OutputColumn]) -> list[str]:
    return [f"{sql(storable(output.value))} AS {quote_name(output.name or '')}" for output in outputs]


def _from(
    select: Select, *, identify: bool, stages: Stages | None = None, late_for: Window | None = None
) -> str:
    of, used = select.relation, columns_in(over_rows(select))
    where = list(conjuncts(select.where)) if select.where is not None else []
    return _relation(of, used, identify=identify, stages=stages, late_for=late_for, above=where)


def _where(select: Select) -> str:
    return since.where_clause(select.where, select.relation)


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def storable(value: Expr) -> Expr:
    """Convert a value for a column: a NULL gets a type, and times of windows whole milliseconds."""
    if value.type == WINDOW_TIME:
        return call(Op.FLOOR_TIME, TIMESTAMP, value.span, value, name="MILLISECOND")
    return cast(value, STRING) if value.type == NULL else value


# --- relations -----------------------------------------------------------------------------------------


def _relation(
    of: Relation,
    used: Used,
    *,
    identify: bool,
    stages: Stages | None = None,
    late_for: Window | None = None,
    above: Sequence[Expr] = (),
) -> str:
    """Write a relation for FROM. `identify`: with the identity of rows. With `stages`, sides of joins become
    stages; `late_for`: the window for which rows count whether they are late. `above`: conditions on its rows
    above it.
    """
    match of:
        case Stream(table=table, name=name):
            return f"{quote_name(table.name)} AS {quote_name(name)}"
        case Unnest(below=below, value=value):
            inside = used | columns_in([value])
            source = _relation(
                below, inside, identify=identify, stages=stages, late_for=late_for, above=above
            )
            return f"{source} {_view(of)}"
        case Join(left=left, right=right, on=on, outer=outer):
            inside = used | columns_in([on])
            of_left, left_keys, of_right, right_keys = conditions_of_sides(of, above)
            sides = [
                _side(left, of, inside, of_left, left_keys, identify=identify, stages=stages),
                _side(right, of, inside, of_right, right_keys, identify=identify, stages=stages),
            ]
            return f"{sides[0]} {'LEFT' if outer else 'INNER'} JOIN {sides[1]} ON {sql(on)}"
        case Projection(name=name):
            parts, source = _project(of, used, identify=identify, stages=stages, late_for=late_for)
            columns = _list(f"{text} AS {quote_name(column)}" for column, text in parts.items())
            return f"(SELECT {columns} FROM {source}) AS `{name}`"
        case QueryRelation(name=name, query=query):
            if isinstance(query, Union):
                late = stages.late(of, late_for) if stages is not None and late_for is not None else {}
                inner = _union(
                    query,
                    identify=identify,
                    stages=stages,
                    late_for=late_for,
                    tables=list(late),
                    identifying=_identifying,
                )
            else:
                inner = _grouping_table(query, identify=identify, stages=stages)
            return f"({inner}) AS `{name}`"


def _side(
    of: Relation,
    join: Join,
    used: Used,
    above: Sequence[Expr],
    keys: Sequence[str],
    *,
    identify: bool,
    stages: Stages | None,
) -> str:
    """Write a side of a join: a stage, where it may have late rows.

    A stage has only rows that meet the conditions `above` and have `keys`, as Spark drops others before it
    counts late ones.
    """
    window = closing.window_of_join(join)
    late = stages.late(of, window) if stages is not None else {}
    if stages is None or not late:
        return _relation(of, used, identify=identify, stages=stages, above=above)
    if isinstance(of, Unnest):  # counted before its lists are unfolded: its rows have columns of two names
        inside = used | columns_in([of.value])
        return f"{_side(of.below, join, inside, (), (), identify=identify, stages=stages)} {_view(of)}"
    conditions = [*(f"({sql(condition)})" for condition in above), *keys]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    name = quote_name(of.name)  # type: ignore[union-attr]  # no join: none has a stream right below
    if isinstance(of, Stream):
        columns = {ref.path[0] for ref in used if ref.relation == of.name and ref.path} | {"rowtime"}
        columns |= {*METADATA_KEYS} if identify else set()
        own = [f"{name}.{quote_name(column)}" for column in in_order(of.table, columns)]
    else:
        own = [f"{name}.{quote_name(column)}" for column in _columns(of, used, identify=identify)]
    source = _relation(of, used, identify=identify, stages=stages, late_for=window)
    stage = stages.add(f"SELECT {_list([*own, *stages.columns(late)])} FROM {source}{where}", late)
    return f"{stage} AS {name}"


def _columns(of: Relation, used: Used, *, identify: bool) -> list[str]:
    """List the columns of a sub-query that is a side of a join, without those that count late rows."""
    if isinstance(of, Projection):
        return [*_project(of, used, identify=identify)[0]]
    assert isinstance(of, QueryRelation)
    assert isinstance(of.query, Union)
    names = [f"c{number}" for number in range(len(of.query.outputs))]
    names += [SINCE] if whole.exposes_since(of.query) else []
    return [*names, *(name for _, name in of.query.branch_keys[0])] if identify else names


def _view(of: Unnest) -> str:
    """Write the lateral view that unfolds a list."""
    return f"LATERAL VIEW {'OUTER ' if of.outer else ''}posexplode({_list_of(of)}) `{of.name}` AS `p`, `c`"


def _list_of(of: Unnest) -> str:
    """Write the list to unfold. An empty list of a partial session gets an element, whose row marks it."""
    text = sql(of.value)
    if of.outer or not results.made_of(of.value, results.of(of.below)):
        return text
    partial = f"{since.least(since.sinces(of.below))} < {since.COMPLETE_FROM}"
    return f"CASE WHEN coalesce(size({text}), -1) < 1 AND {partial} THEN array(NULL) ELSE {text} END"


def _project(
    of: Projection,
    used: Used,
    *,
    identify: bool,
    stages: Stages | None = None,
    late_for: Window | None = None,
) -> tuple[dict[str, str], str]:
    """Write the columns of a projection, by name, and the relation that they are read from."""
    chosen = used_columns(of, used)
    parts = {}
    for name, value in chosen.items():
        timed = of.time in (None, Ref(of.name, (name,))) or value.type != ROWTIME
        parts[name] = sql(value) if timed else _hide_event_time(sql(value))
    if identify:
        parts |= {name: _identifying(key) for key, name in columns_of(identity(of.below))}
    if before := since.sinces(of.below):
        parts[SINCE] = since.least(before)
    if stages is not None and late_for is not None:
        parts |= stages.late_columns(stages.late(of.below, late_for))
    inside = columns_in([*chosen.values(), *([of.where] if of.where else [])])
    source = _relation(of.below, inside, identify=identify, stages=stages, late_for=late_for)
    return parts, f"{source}{since.where_clause(of.where, of.below)}"


def _identifying(key: Expr) -> str:
    """Write a part of an identity that leaves a sub-query: Spark joins no rows with two event times."""
    return _hide_event_time(sql(key)) if key.type == ROWTIME else sql(key)


def _hide_event_time(text: str) -> str:
    """Write a timestamp so that Spark does not recognise it as the row's event time."""
    return f"({text} + INTERVAL '0' SECOND)"
