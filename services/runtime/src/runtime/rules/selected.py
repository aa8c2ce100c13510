"""Read in the driver what workers have selected of a batch for alert rules.

In a batch of several windows a rule may turn out to be true of keys that were not active. Of these all rows
are needed, of which workers have selected some: they are selected once more out of what has left packed, or
where that was too much by computing the batch again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from daggerspec.alertrules import Key
from daggersql.rules.judged import JudgedRow
from runtime.rules.selection import TOO_MANY, RowSelection, SelectedRule

SelectAgain = Callable[[tuple[SelectedRule, ...]], Iterable[bytes]]
"""Computes a batch again, and returns what workers select for these rules. Raises: JobError."""
_JSON: Final = b"["


def read_selected(
    rules: Sequence[SelectedRule], contents: Sequence[bytes], select_again: SelectAgain | None
) -> list[JudgedRow]:
    """Read the rows that workers have selected for rules (`RowSelection.select`), all of further keys
    included. select_again: None where workers pack all rows. Raises: JobError.
    """
    rows = list(read_rows(contents))
    further = _find_further(rules, rows)
    if not further:
        return rows
    names = {rule.name for rule in further}
    others = [row for row in rows if row.rule not in names]
    if TOO_MANY not in contents:
        return [*others, *_select_packed(further, contents)]
    assert select_again is not None
    return [*others, *read_rows(select_again(further))]


def read_rows(contents: Iterable[bytes]) -> Iterator[JudgedRow]:
    """Read the rows that workers have selected one by one."""
    for content in contents:
        if content.startswith(_JSON):
            for name, window, key, is_true, is_over, values in json.loads(content):
                yield JudgedRow(name, window, tuple(key), is_true, is_over, values)


def _find_further(rules: Sequence[SelectedRule], rows: Iterable[JudgedRow]) -> tuple[SelectedRule, ...]:
    """Find the rules that are true of further keys; return them with these among the active ones."""
    packed = {rule.name: rule for rule in rules if rule.is_packed}
    further = defaultdict[str, set[Key]](set)
    for row in rows:
        if row.is_true and row.rule in packed and row.key not in packed[row.rule].active:
            further[row.rule].add(row.key)
    return tuple(
        replace(packed[name], active=packed[name].active | keys, is_packed=False)
        for name, keys in further.items()
    )


def _select_packed(rules: Sequence[SelectedRule], contents: Iterable[bytes]) -> Iterator[JudgedRow]:
    selection = RowSelection(rules)
    for content in contents:
        if not content.startswith(_JSON):
            for batch in pa.ipc.open_stream(content):
                yield from selection.list_rows(batch)
