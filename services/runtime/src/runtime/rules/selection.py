"""Select the rows that alert rules say something of, in a worker, for the driver.

These are the rows that a rule is true of, and all rows of keys that fire or may soon: the driver has to know
when it ceases to be true. In a batch of several windows a key may fire in one, and be over in the next: then
they are all rows of keys that the rule is true of in any. Rows of a rule without a key are combined.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daggerspec.alertrules import MOST_KEYS, Key, key_text
from daggerspec.columns import RULE, RULE_ANY, RULE_OVER, WINDOW_END
from daggersql.rules.compiled import LimitComparison
from daggersql.rules.judged import JudgedRow, combine

_MICROS: Final = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class SelectedRule:
    """Rule, as a worker needs it. Spark pickles it."""

    name: str
    key: tuple[str, ...]
    read: tuple[str, ...]
    active: frozenset[Key]
    """Keys of which every row is selected."""
    takes_all: bool = False
    """True if every row is selected: without a key, of several windows; or where the driver judges."""
    is_combined: bool = True
    """True if rows of a window are combined where there is no key; False if the driver judges each."""
    compared: LimitComparison | None = None
    """Comparison that says which of several rows is worse."""


class RowSelection:
    """Selection of one partition's rows, batch by batch.

    Of a rule it has at most MOST_KEYS keys beside the active ones: the driver remembers no more, and a rule
    that is true of every row must not fill its memory.
    """

    def __init__(self, rules: Sequence[SelectedRule]) -> None:
        self._rules = rules
        self._keys = [set(rule.active) for rule in rules]
        self._most = [len(rule.active) + MOST_KEYS for rule in rules]

    def select(self, batch: pa.RecordBatch) -> bytes:
        """Select rows of an Arrow batch with the columns of `columns.with_rules`; empty if there are none."""
        if not self._rules:
            return b""
        keys = cache(partial(_keys, batch))
        rows = [
            row
            for number, rule in enumerate(self._rules)
            if (places := self._choose(batch, number, keys))
            for row in _combine(rule, _rows(batch, number, rule, places, keys(rule.key)))
        ]
        return json.dumps(rows).encode() if rows else b""

    def _choose(
        self, batch: pa.RecordBatch, number: int, keys_of: Callable[[tuple[str, ...]], Sequence[Key]]
    ) -> Sequence[int]:
        """Choose the places of a rule's rows. keys_of: returns the key of each row by its columns."""
        rule, selected = self._rules[number], self._keys[number]
        if rule.takes_all:
            return range(batch.num_rows)
        any_true = f"{RULE_ANY}{number}"
        is_true = batch.column(any_true if any_true in batch.schema.names else f"{RULE}{number}")
        if not rule.active and not pc.any(is_true).as_py():
            return ()
        places: list[int] = []
        for place, (is_chosen, key) in enumerate(zip(is_true.to_pylist(), keys_of(rule.key), strict=True)):
            if is_chosen and len(selected) < self._most[number]:
                selected.add(key)
            if key in rule.active or (is_chosen and key in selected):
                places.append(place)
        return places


def _combine(rule: SelectedRule, rows: Iterator[JudgedRow]) -> Iterator[JudgedRow]:
    """Combine the rows of a rule without a key, of which a window may have very many."""
    if rule.key or not rule.is_combined:
        return rows
    by_window = defaultdict[int, list[JudgedRow]](list)
    for row in rows:
        by_window[row.window].append(row)
    return (combine(of_window, rule.compared) for of_window in by_window.values())


def _rows(
    batch: pa.RecordBatch, number: int, rule: SelectedRule, chosen: Sequence[int], keys: Sequence[Key]
) -> Iterator[JudgedRow]:
    """Yield the chosen rows of a rule. keys: of each row of the batch."""
    rows = batch.take(pa.array(chosen))
    windows = list_windows(rows)
    truths = rows.column(f"{RULE}{number}").to_pylist()
    overs = rows.column(f"{RULE_OVER}{number}").to_pylist()
    columns = [[_plain(value) for value in rows.column(name).to_pylist()] for name in rule.read]
    for place, number_in_batch in enumerate(chosen):
        values = {name: column[place] for name, column in zip(rule.read, columns, strict=True)}
        key = keys[number_in_batch]
        yield JudgedRow(rule.name, windows[place], key, truths[place], overs[place], values)


def list_windows(batch: pa.RecordBatch) -> list[int]:
    """Return the ends of the windows of rows, in us since 1970."""
    ends: list[int] = batch.column(WINDOW_END).cast(_MICROS).cast(pa.int64()).to_pylist()
    return ends


def _keys(batch: pa.RecordBatch, columns: Sequence[str]) -> list[Key]:
    if not columns:
        return [()] * batch.num_rows
    texts = ([key_text(_plain(value)) for value in batch.column(name).to_pylist()] for name in columns)
    return list(zip(*texts, strict=True))


def _plain(value: Any) -> Any:
    """Make of a value what JSON has: numbers, texts, truth values; None for NaN and the infinite."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)
