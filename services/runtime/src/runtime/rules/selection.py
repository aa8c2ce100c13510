"""Select the rows that alert rules say something of, in a worker, for the driver.

These are the rows that a rule is true of, and all rows of keys that fire or may soon: the driver has to know
when it ceases to be true. In a batch of several windows a key may fire in one, and be over in the next, which
another worker may have: then all rows leave as well, packed in Arrow, for `selected` to select those of keys
that turned out to be new. Rows of a rule without a key are combined.
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
from daggerspec.columns import RULE, RULE_OVER, WINDOW_END
from daggersql.rules.compiled import LimitComparison
from daggersql.rules.judged import JudgedRow, combine

MOST_PACKED: Final = 8 * 1024**2
"""Bytes of one partition's rows that leave packed; where they are more, a batch is computed again instead."""
TOO_MANY: Final = b""
"""Content in place of rows that are more than that."""
_MICROS: Final = pa.timestamp("us", "UTC")
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


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
    is_packed: bool = False
    """True if all rows leave packed, too: the batch has several windows of a key."""
    number: int = 0
    """Number of its columns."""


class RowSelection:
    """Selection of one partition's rows, batch by batch.

    Of a rule it has at most MOST_KEYS keys beside the active ones: the driver remembers no more, and a rule
    that is true of every row must not fill its memory.
    """

    def __init__(self, rules: Sequence[SelectedRule], most_packed: int = MOST_PACKED) -> None:
        """Begin a partition. most_packed: bytes of its rows that leave packed."""
        self._rules = rules
        self._keys = [set(rule.active) for rule in rules]
        self._most = [len(rule.active) + MOST_KEYS for rule in rules]
        self._packed = _list_packed(rules)
        self._room = most_packed

    def select(self, batch: pa.RecordBatch) -> list[bytes]:
        """Select rows of an Arrow batch with the columns of `columns.with_rules`; return what leaves the
        worker, for `selected.read_selected`.
        """
        if not self._rules or not batch.num_rows:
            return []
        rows = self.list_rows(batch)
        return [*([json.dumps(rows).encode()] if rows else []), *self._pack(batch)]

    def list_rows(self, batch: pa.RecordBatch) -> list[JudgedRow]:
        """List the rows of an Arrow batch that are selected."""
        keys = cache(partial(_keys, batch))
        return [
            row
            for place, rule in enumerate(self._rules)
            if (chosen := self._choose(batch, place, keys))
            for row in _combine(rule, _rows(batch, rule, chosen, keys(rule.key)))
        ]

    def _pack(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield the columns of rules whose rows leave packed, until there are too many."""
        if self._packed and self._room >= 0:
            packed = _write_arrow(batch.select([name for name in self._packed if name in batch.schema.names]))
            self._room -= len(packed)
            yield packed if self._room >= 0 else TOO_MANY

    def _choose(
        self, batch: pa.RecordBatch, place: int, keys_of: Callable[[tuple[str, ...]], Sequence[Key]]
    ) -> Sequence[int]:
        """Choose the places of a rule's rows. keys_of: returns the key of each row by its columns."""
        rule, selected, most = self._rules[place], self._keys[place], self._most[place]
        if rule.takes_all:
            return range(batch.num_rows)
        is_true = batch.column(f"{RULE}{rule.number}")
        if not rule.active and not pc.any(is_true).as_py():
            return ()
        places: list[int] = []
        for number, (is_chosen, key) in enumerate(zip(is_true.to_pylist(), keys_of(rule.key), strict=True)):
            if is_chosen and len(selected) < most:
                selected.add(key)
            if key in rule.active or (is_chosen and key in selected):
                places.append(number)
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
    batch: pa.RecordBatch, rule: SelectedRule, chosen: Sequence[int], keys: Sequence[Key]
) -> Iterator[JudgedRow]:
    """Yield the chosen rows of a rule. keys: of each row of the batch."""
    rows = batch.take(pa.array(chosen))
    windows = list_windows(rows)
    truths = rows.column(f"{RULE}{rule.number}").to_pylist()
    over = f"{RULE_OVER}{rule.number}"
    overs = rows.column(over).to_pylist() if over in rows.schema.names else [not one for one in truths]
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
    return list(zip(*(_key_texts(batch.column(name)) for name in columns), strict=True))


def _key_texts(values: pa.Array) -> list[str | None]:
    texts: list[Any] = values.to_pylist()
    return texts if pa.types.is_string(values.type) else [key_text(_plain(value)) for value in texts]


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


def _list_packed(rules: Sequence[SelectedRule]) -> list[str]:
    """List the columns that leave packed, where there are such."""
    names = [
        name
        for rule in rules
        if rule.is_packed
        for name in (f"{RULE}{rule.number}", f"{RULE_OVER}{rule.number}", *rule.key, *rule.read)
    ]
    return [*dict.fromkeys((WINDOW_END, *names))] if names else []


def _write_arrow(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema, options=_COMPRESSED) as writer:
        writer.write_batch(batch)
    content: bytes = out.getvalue().to_pybytes()
    return content
