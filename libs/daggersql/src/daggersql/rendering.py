"""Relations as SQL, and since when records must be known for their rows to be whole.

A window is partial when records of it were not read, and so is what is made of it. For windows of fixed
length how far back they go is known (`reach`); a session begins when it begins: its rows carry that along.
"""

# ruff: noqa: S608 - building SQL is what this module is for; everything in it is quoted by daggersql.tree

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from daggerspec.columns import SINCE
from daggersql import results
from daggersql.relations import (
    Join,
    Picked,
    Query,
    Relation,
    Stream,
    Unnest,
    Used,
    columns_of,
    identity,
    named,
    texts,
)
from daggersql.tree import Expr, quote_name
from daggersql.types import ROWTIME

COMPLETE_FROM = ":complete_from"
"""The parameter of the SQL that says from which event time on all records are read."""


def has_session(of: Relation) -> bool:
    """Whether its rows are made of sessions."""
    match of:
        case Stream():
            return False
        case Unnest(below=below) | Picked(below=below):
            return has_session(below)
        case Join(left=left, right=right):
            return has_session(left) or has_session(right)
        case Query(sessions=sessions):
            return sessions


def sinces(of: Relation) -> tuple[str, ...]:
    """The columns that tell since when records must be known for a row of it to be whole, as SQL.

    NULL, and none at all: it is whole whatever was not read.
    """
    match of:
        case Stream():
            return ()
        case Unnest(below=below):
            return sinces(below)
        case Picked(below=below, name=name):
            return (f"`{name}`.`{SINCE}`",) if sinces(below) else ()
        case Join(left=left, right=right, outer=outer, alone=alone):
            return (*sinces(left), *sinces(right), *([alone] if outer else []))
        case Query(name=name, since=since):
            return (f"`{name}`.`{SINCE}`",) if since else ()


def minus(time: str, length: timedelta) -> str:
    """A time, this long before, as SQL."""
    if not length:
        return time
    seconds, micros = divmod(length // timedelta(microseconds=1), 10**6)
    return f"({time} - INTERVAL '{seconds}.{micros:06d}' SECOND)"


def least(times: Sequence[str]) -> str:
    """The earliest of them that is not NULL, as SQL."""
    return f"least({', '.join(times)})" if len(times) > 1 else times[0]


def kept(condition: Expr | None, of: Relation) -> str:
    """A filter of rows as SQL, ` WHERE` included.

    Partial sessions pass, whatever it says: the whole ones might, and what is made of them must be known to
    be partial. Rows that are not whole are dropped at the very end.
    """
    if condition is None:
        return ""
    partial = f" OR {least(sinces(of))} < {COMPLETE_FROM}" if has_session(of) else ""
    return f" WHERE {condition.text}{partial}"


def sql(of: Relation, used: Used, *, identify: bool) -> str:
    """The relation as it stands behind FROM. `identify`: what is above asks for the identity of rows."""
    match of:
        case Stream(table=table, name=name):
            return f"{quote_name(table.name)} AS {quote_name(name)}"
        case Unnest(below=below, value=value, name=name, outer=outer):
            view = f"LATERAL VIEW {'OUTER ' if outer else ''}posexplode({_list(of)}) `{name}` AS `p`, `c`"
            return f"{sql(below, used | texts([value]), identify=identify)} {view}"
        case Join(left=left, right=right, on=on, outer=outer):
            inside = used | texts([on])
            sides = [sql(side, inside, identify=identify) for side in (left, right)]
            return f"{sides[0]} {'LEFT' if outer else 'INNER'} JOIN {sides[1]} ON {on.text}"
        case Picked():
            return _picked(of, used, identify=identify)
        case Query(name=name, render=render):
            return f"({render(identify)}) AS `{name}`"


def _list(of: Unnest) -> str:
    """What is unfolded, as SQL. A partial session's list is never empty: a row says that it is partial."""
    text = of.value.text
    if of.outer or not results.made_of(of.value, results.of(of.below)):
        return text
    partial = f"{least(sinces(of.below))} < {COMPLETE_FROM}"
    return f"CASE WHEN coalesce(size({text}), -1) < 1 AND {partial} THEN array(NULL) ELSE {text} END"


def _picked(of: Picked, used: Used, *, identify: bool) -> str:
    chosen = named(of, used)
    parts = []
    for name, value in chosen.items():
        timed = of.time in (None, f"`{of.name}`.{quote_name(name)}") or value.type != ROWTIME
        parts.append(f"{value.text if timed else untimed(value.text)} AS {quote_name(name)}")
    if identify:
        parts += [f"{text} AS `{name}`" for text, name in columns_of(identity(of.below))]
    if before := sinces(of.below):
        parts.append(f"{least(before)} AS `{SINCE}`")
    where = kept(of.where, of.below)
    inside = texts([*chosen.values(), *([of.where] if of.where else [])])
    return (
        f"(SELECT {', '.join(parts)} FROM {sql(of.below, inside, identify=identify)}{where}) AS `{of.name}`"
    )


def untimed(text: str) -> str:
    """The same timestamp, which Spark no longer takes for the event time of the row."""
    return f"({text} + INTERVAL '0' SECOND)"
