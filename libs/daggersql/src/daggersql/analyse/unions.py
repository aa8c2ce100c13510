"""UNION ALL: branches with columns of one type, and an identity that tells their rows apart."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.analyse.select import refuse_bounds_of_rows
from daggersql.findings import Report
from daggersql.ir.expr import Expr, Ref, call, column, text_constant
from daggersql.ir.ops import Op
from daggersql.ir.relations import Identity, OutputColumn, Select, Union
from daggersql.ir.types import BIGINT, EVENT_TIMES, INT, STRING, TIMESTAMP, Type
from daggersql.ir.walk import as_text, columns_of, identity, lift_identity
from daggersql.operators.coercion import choose

# The first three keys of a row that is no window are of these types; all others are text.
_FIRST = (STRING, INT, BIGINT)
_NOWHERE = (0, 0)


def unite(branches: Sequence[Select], name: str, report: Report) -> Union | None:
    """Unite branches; None, with findings, when their columns do not fit together."""
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
    columns = [
        _one_type([branch.outputs[index].value for branch in branches], report) for index in range(width)
    ]
    outputs = tuple(
        OutputColumn(
            branches[0].outputs[index].name,
            column(Ref(name, (f"c{index}",)), values[0].type, values[0].span),
            branches[0].outputs[index].span,
            branches[0].outputs[index].star,
        )
        for index, values in enumerate(columns)
    )
    keys, above = _identities(branches, name)
    values = tuple(tuple(column[index] for column in columns) for index in range(len(branches)))
    return Union(name, tuple(branches), values, keys, above, outputs)


def _one_type(values: list[Expr], report: Report) -> list[Expr]:
    """Cast values to one type; event time stays event time when all of them are."""
    if all(value.type in EVENT_TIMES for value in values):
        return values
    chosen = choose(values, report)
    return values if chosen is None else list(chosen[1])


def _identities(
    branches: Sequence[Select], name: str
) -> tuple[tuple[tuple[tuple[Expr, str], ...], ...], Identity]:
    """Build the columns that carry each branch's identity, and the identity above the branches."""
    identities = [identity(branch) for branch in branches]
    windowed = all(branch.window for branch in identities)
    keys = [_keys(branch, windowed=windowed) for branch in identities]
    most = max(map(len, keys))
    alike = []
    for number, (of_branch, own) in enumerate(zip(identities, keys, strict=True)):
        branch = text_constant(str(number), STRING, _NOWHERE)
        padded = (*own, *[_nothing(STRING)] * (most - len(own)), branch)
        time = None if windowed else of_branch.time or _nothing(TIMESTAMP)
        alike.append(Identity(of_branch.window if windowed else None, time, padded))
    return tuple(tuple(columns_of(branch)) for branch in alike), lift_identity(alike[0], name)


def _keys(of: Identity, *, windowed: bool) -> list[Expr]:
    if windowed:
        return [as_text(key) for key in of.keys]
    if of.window is not None:
        return [*map(_nothing, _FIRST), *(as_text(key) for key in (of.window[1], *of.keys))]
    return [*of.keys[:3], *(as_text(key) for key in of.keys[3:])]


def _nothing(kind: Type) -> Expr:
    return call(Op.TYPED_NULL, kind, _NOWHERE)
