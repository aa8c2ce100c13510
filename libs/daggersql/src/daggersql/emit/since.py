"""Since when records must be known for rows to be whole, as SQL.

A window is partial when records of it were not read, and so is what is made of it. For windows of fixed
length how far back they go is known (`reach`); a session begins when it begins: its rows carry that along.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from daggerspec.columns import SINCE
from daggersql.emit.expressions import sql
from daggersql.ir import whole
from daggersql.ir.expr import Expr
from daggersql.ir.relations import Alone, Join, Projection, QueryRelation, Relation, Select, Stream, Unnest
from daggersql.ir.whole import has_session

_START, _GROUP = "`g`.`w`.`start`", f"`g`.`{SINCE}`"
COMPLETE_FROM = ":complete_from"
"""The parameter of the SQL that says from which event time on all records are read."""


def sinces(of: Relation) -> tuple[str, ...]:
    """List the `__since` columns of a relation, as SQL: since when records must have been read.

    NULL, or no columns: its rows are whole, whatever was not read.
    """
    match of:
        case Stream():
            return ()
        case Unnest(below=below):
            return sinces(below)
        case Projection(below=below, name=name):
            return (f"`{name}`.`{SINCE}`",) if sinces(below) else ()
        case Join(left=left, right=right, outer=outer, alone=alone):
            return (*sinces(left), *sinces(right), *([_alone(alone)] if outer else []))
        case QueryRelation(name=name, since=since):
            return (f"`{name}`.`{SINCE}`",) if since else ()


def minus(time: str, length: timedelta) -> str:
    """Write a time that is earlier by `length`."""
    if not length:
        return time
    seconds, micros = divmod(length // timedelta(microseconds=1), 10**6)
    return f"({time} - INTERVAL '{seconds}.{micros:06d}' SECOND)"


def least(times: Sequence[str]) -> str:
    """Write the earliest of times that are not NULL."""
    return f"least({', '.join(times)})" if len(times) > 1 else times[0]


def where_clause(condition: Expr | None, of: Relation) -> str:
    """Write the filter of rows, ` WHERE` included.

    Partial sessions pass, whatever it says: the whole ones might, and what is made of them must be known to
    be partial. Rows that are not whole are dropped at the very end.
    """
    if condition is None:
        return ""
    partial = f" OR {least(sinces(of))} < {COMPLETE_FROM}" if has_session(of) else ""
    return f" WHERE {sql(condition)}{partial}"


def _alone(of: Alone) -> str:
    """NULL for a row that has a partner."""
    return f"CASE WHEN {sql(of.partner)} IS NULL THEN {minus(sql(of.time), of.before)} END"


def of_query(select: Select) -> str:
    """Write the `__since` of a SELECT's row, over its relation; NULL: the row is always whole."""
    if select.window is None:
        times = sinces(select.relation)
        return least(times) if times else "CAST(NULL AS TIMESTAMP)"
    start = minus(_START, whole.before(select))
    if select.window.window.kind == "SESSION":
        return _GROUP
    return least([start, _GROUP]) if whole.remembers(select) else start


def of_row(select: Select) -> dict[str, str]:
    """Write the `__since` column of the rows that are grouped, by name, where they are made of sessions."""
    return (
        {SINCE: f"{least(sinces(select.relation))} AS `{SINCE}`"}
        if whole.has_session(select.relation)
        else {}
    )


def of_group(select: Select) -> list[str]:
    """Write the `__since` column of groups that have it in their state.

    The time in a struct of that name is how `runtime.state.openstate` finds it in a checkpoint. Of a session
    it is an aggregate, as its start would be: filters that name no aggregate are moved by Spark to before
    records are made sessions, where they cut them.
    """
    if not whole.remembers(select):
        return []
    assert select.window is not None
    times = []
    if select.window.window.kind == "SESSION":
        times.append(minus("min(`r`.`t`)", whole.before(select)))
    if whole.has_session(select.relation):
        struct = f"named_struct('{SINCE}', `r`.`{SINCE}`)"
        times.append(f"min(CASE WHEN `r`.`{SINCE}` IS NOT NULL THEN {struct} END).`{SINCE}`")
    return [f"{least(times)} AS `{SINCE}`"]
