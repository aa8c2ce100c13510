"""UNION ALL: branches with columns of one type, and an identity that tells their rows apart."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.analyse.select import refuse_bounds_of_rows
from daggersql.findings import Report
from daggersql.ir.expr import Expr, Kind
from daggersql.ir.relations import Identity, Output, Select, Union
from daggersql.ir.types import ROWTIME, WINDOW_TIME
from daggersql.ir.walk import carried, identity
from daggersql.operators.coercion import choose

# The first three keys of a row that is no window are of these types; all others are text.
_FIRST = ("STRING", "INT", "BIGINT")


def unite(branches: Sequence[Select], name: str, report: Report) -> Union | None:
    """The branches as one; None, with findings, when their columns do not fit together."""
    for branch in branches:
        refuse_bounds_of_rows(branch, report)
    width = len(branches[0].outputs)
    uneven = [branch for branch in branches if len(branch.outputs) != width]
    for branch in uneven:
        first, last = branch.outputs[0], branch.outputs[-1]
        report.error(
            "COLUMN_COUNT_MISMATCH",
            (first.value.span[0], last.span[1]),
            f"The first SELECT has {width} columns, this one {len(branch.outputs)}.",
        )
    if uneven:
        return None
    columns = [_one_type([branch.outputs[at].value for branch in branches], report) for at in range(width)]
    outputs = tuple(
        Output(
            branches[0].outputs[at].name,
            Expr(f"`{name}`.`c{at}`", values[0].type, values[0].span, kind=Kind.COLUMN),
            branches[0].outputs[at].span,
            branches[0].outputs[at].star,
        )
        for at, values in enumerate(columns)
    )
    keys, above = _identities(branches, name)
    values = tuple(tuple(column[at] for column in columns) for at in range(len(branches)))
    return Union(name, tuple(branches), values, keys, above, outputs)


def _one_type(values: list[Expr], report: Report) -> list[Expr]:
    """The values, made one type; event time stays event time when all of them are."""
    if all(value.type in (ROWTIME, WINDOW_TIME) for value in values):
        return values
    chosen = choose(values, report)
    return values if chosen is None else list(chosen[1])


def _identities(
    branches: Sequence[Select], name: str
) -> tuple[tuple[tuple[tuple[str, str], ...], ...], Identity]:
    """The columns that carry each branch's identity, and the identity above them."""
    found = [identity(branch) for branch in branches]
    windowed = all(each.window for each in found)
    keys = [_keys(each, windowed=windowed) for each in found]
    most = max(map(len, keys))
    rows = []
    for number, (each, own) in enumerate(zip(found, keys, strict=True)):
        padded = [*own, *["CAST(NULL AS STRING)"] * (most - len(own)), f"'{number}'"]
        first = (
            list(zip(each.window or (), ("__start", "__end"), strict=False))
            if windowed
            else [(each.time or "CAST(NULL AS TIMESTAMP)", "__time")]
        )
        rows.append((*first, *((text, f"__id_{at}") for at, text in enumerate(padded))))
    counted = tuple("" for _ in range(most + 1))
    above = carried(Identity(("", "") if windowed else None, None if windowed else "?", counted), name)
    return tuple(rows), above


def _keys(identity: Identity, *, windowed: bool) -> list[str]:
    if windowed:
        return [f"CAST({key} AS STRING)" for key in identity.keys]
    if identity.window is not None:
        nothing = [f"CAST(NULL AS {kind})" for kind in _FIRST]
        return [*nothing, *(f"CAST({key} AS STRING)" for key in (identity.window[1], *identity.keys))]
    return [*identity.keys[:3], *(f"CAST({key} AS STRING)" for key in identity.keys[3:])]
