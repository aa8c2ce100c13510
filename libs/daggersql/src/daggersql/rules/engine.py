"""Judges rows of closed windows by rules: memory and rows in, memory and observations out. Pure.

    judge    memory, rules, rows -> the memory after them, and what was observed

Time is the end of a window. How rows are divided into calls changes nothing, as long as windows come in their
order and a call has all rows of the windows up to its end; rows of windows that were judged are passed over.
A rule is true of a key in a window if it is true of one of its rows, and over if it is over for all of them.

A key fires once the rule was true of it in as many windows in a row as it says. It is over in the first
window in which the rule is not true, and is over; or GONE_WINDOWS after its last row. At most MOST_INCIDENTS
keys of a rule have an incident each; all others have one together, which tells how many they are, and the
worst of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from operator import ge, gt
from typing import Any, Final, NamedTuple

from daggers.v1 import rules_pb2

from daggerspec import alertrules
from daggerspec.alertrules import MOST_KEYS, Key
from daggersql.rules import summary
from daggersql.rules.compiled import CompiledRule
from daggersql.rules.memory import KeyMemory, Memory, RuleMemory

GONE_WINDOWS: Final = 10
"""Windows without a row of a key after which its incident is over."""
MOST_INCIDENTS: Final = 1_000
"""Keys of a rule that have an incident each at once."""
_WORST: Final = 10
_FIRED: Final = rules_pb2.RULE_STATE_FIRED
_CHANGED: Final = rules_pb2.RULE_STATE_CHANGED
_RESOLVED: Final = rules_pb2.RULE_STATE_RESOLVED


class JudgedRow(NamedTuple):
    """Verdict of a rule on one row."""

    rule: str
    window: int
    """End of the row's window, in us since 1970."""
    key: Key
    is_true: bool
    is_over: bool
    values: Mapping[str, Any]
    """Columns that the rule reads: numbers, texts, truth values, or None."""


@dataclass(frozen=True, slots=True)
class JudgedRule:
    """A rule that is judged."""

    rule: rules_pb2.AlertRule
    compiled: CompiledRule
    slide: int
    """From the end of a window to that of the next, in us."""
    parts: tuple[summary.Part, ...]
    """Its summary."""
    digest: str

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self.rule.name

    def measure(self, values: Mapping[str, Any]) -> float | None:
        """Return the number that is compared with the limit; None where there is none."""
        compared = self.compiled.comparison
        value = values.get(compared.column) if compared else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def is_long_enough(self, key: KeyMemory) -> bool:
        """Tell whether the rule was true of a key for as long as it says."""
        if self.rule.HasField("for_time"):
            return timedelta(microseconds=key.last - key.since) >= self.rule.for_time.ToTimedelta()
        return key.count >= max(self.rule.for_windows, 1)


def prepare(
    rules: Sequence[rules_pb2.AlertRule], compiled: Sequence[CompiledRule], slide: timedelta
) -> tuple[JudgedRule, ...]:
    """Prepare rules for judging. slide: of the query's windows."""
    step = slide // timedelta(microseconds=1)
    return tuple(
        JudgedRule(rule, one, step, summary.parse(rule.summary), alertrules.digest(rule))
        for rule, one in zip(rules, compiled, strict=True)
    )


def judge(
    memory: Memory, rules: Sequence[JudgedRule], rows: Iterable[JudgedRow], closed: int
) -> tuple[Memory, list[rules_pb2.RuleObserved]]:
    """Judge the rows of windows that end up to `closed`, in us; return the memory after them, and what was
    observed, in its order. Who was observed by (dagger, revision, generation) is left to the caller.
    """
    by_rule = defaultdict[str, list[JudgedRow]](list)
    for row in rows:
        if row.window > memory.end:
            by_rule[row.rule].append(row)
    closed = max(closed, memory.end)
    by_name = {rule.name: rule for rule in rules}
    observed: list[rules_pb2.RuleObserved] = []
    for name, before in sorted(memory.rules.items()):
        if name not in by_name or by_name[name].digest != before.digest:
            observed += _end(name, before, "changed" if name in by_name else "removed")
    unchanged = {
        name: before
        for name, before in memory.rules.items()
        if name in by_name and by_name[name].digest == before.digest
    }
    room = MOST_KEYS - sum(len(before.keys) for before in unchanged.values())
    after: dict[str, RuleMemory] = {}
    for rule in rules:
        judging = _Judging(rule, unchanged.get(rule.name) or RuleMemory(rule.digest), room)
        judging.judge(by_rule[rule.name], closed)
        room = judging.room
        observed += judging.observed
        if not (result := judging.result()).is_empty:
            after[rule.name] = result
    return Memory(after, closed), sorted(observed, key=_order)


def _order(observed: rules_pb2.RuleObserved) -> tuple[int, str, str]:
    return observed.window.ToMicroseconds(), observed.rule, json.dumps(dict(observed.key), sort_keys=True)


def _end(name: str, memory: RuleMemory, how: str) -> Iterator[rules_pb2.RuleObserved]:
    """Resolve what a rule has fired that is no more: it was changed, or removed."""
    text = f"the rule {name} was {how}"
    for key, one in memory.keys.items():
        if one.has_incident:
            yield _build_resolved(
                name, memory.digest, _name_values(memory.columns, key), one.last, one.since, text
            )
    if memory.others:
        last = max(one.last for one in memory.keys.values())
        yield _build_resolved(name, memory.digest, {}, last, memory.others_since, text)


def _build_resolved(
    rule: str, digest: str, key: Mapping[str, str], window: int, since: int, text: str
) -> rules_pb2.RuleObserved:
    observed = rules_pb2.RuleObserved(
        rule=rule, digest=digest, key=key, state=_RESOLVED, summary=summary.one_line(text)
    )
    observed.window.FromMicroseconds(window)
    observed.since.FromMicroseconds(since)
    return observed


def _name_values(columns: Sequence[str], key: Key) -> dict[str, str]:
    return {column: value for column, value in zip(columns, key, strict=True) if value is not None}


class _Judging:
    """One rule while its rows are judged."""

    def __init__(self, rule: JudgedRule, memory: RuleMemory, room: int) -> None:
        self._rule = rule
        self._keys = dict(memory.keys)
        self._others, self._others_since = memory.others, memory.others_since
        self._incidents = sum(one.has_incident for one in self._keys.values())
        self.room = room
        """How many more keys may be remembered."""
        self.observed: list[rules_pb2.RuleObserved] = []

    def result(self) -> RuleMemory:
        """Return what is remembered."""
        columns = self._rule.compiled.key
        return RuleMemory(self._rule.digest, self._keys, self._others, self._others_since, columns)

    def judge(self, rows: Sequence[JudgedRow], closed: int) -> None:
        """Judge the rows window by window, and then what is gone up to `closed`."""
        by_window = defaultdict[int, dict[Key, list[JudgedRow]]](lambda: defaultdict(list))
        for row in rows:
            by_window[row.window][row.key].append(row)
        for window in sorted(by_window):
            self._let_go(partial(gt, window))
            for key in sorted(by_window[window], key=_sortable):
                self._judge_key(key, window, by_window[window][key])
            self._let_go(partial(ge, window))
            self._count_others(window)
        self._let_go(partial(ge, closed))
        self._forget(closed)

    def _judge_key(self, key: Key, window: int, rows: Sequence[JudgedRow]) -> None:
        before = self._keys.get(key)
        is_true = any(row.is_true for row in rows)
        values = self._choose(rows, is_true=is_true).values
        if before is not None and before.fires:
            if not is_true and all(row.is_over for row in rows):
                self._drop(key)
                if before.has_incident:
                    self._observe(_RESOLVED, key, window, before.since, values)
            else:
                self._keys[key] = replace(before, last=window, value=self._rule.measure(values))
        elif is_true:
            self._note_true(key, before, window, values)
        elif before is not None:
            self._drop(key)

    def _note_true(self, key: Key, before: KeyMemory | None, window: int, values: Mapping[str, Any]) -> None:
        """Note that the rule is true of a key that does not fire yet."""
        if before is None and self.room <= 0:
            return
        self.room -= before is None
        goes_on = before is not None and window - before.last <= self._rule.slide
        since, count = (before.since, before.count + 1) if before is not None and goes_on else (window, 1)
        now = KeyMemory(since, window, count, value=self._rule.measure(values))
        if self._rule.is_long_enough(now):
            now = replace(now, fires=True, has_incident=self._incidents < MOST_INCIDENTS)
            if now.has_incident:
                self._incidents += 1
                self._observe(_FIRED, key, window, since, values)
        self._keys[key] = now

    def _choose(self, rows: Sequence[JudgedRow], *, is_true: bool) -> JudgedRow:
        """Choose the row to tell of among those with one key and window: the worst, whatever their order."""
        candidates = [row for row in rows if row.is_true] if is_true else list(rows)
        compared = self._rule.compiled.comparison
        sign = -1 if compared is None or compared.above else 1

        def rank(row: JudgedRow) -> tuple[bool, float, str]:
            value = self._rule.measure(row.values)
            return value is None, sign * (value or 0.0), json.dumps(row.values, sort_keys=True)

        return min(candidates, key=rank)

    def _drop(self, key: Key) -> None:
        self._incidents -= self._keys.pop(key).has_incident
        self.room += 1

    # ---- Keys that give no row any more --------------------------------------------------------------------

    def _let_go(self, is_due: Callable[[int], bool]) -> None:
        """Resolve keys that have given no row for GONE_WINDOWS, those whose last window was first, first."""
        length = GONE_WINDOWS * self._rule.slide
        gone = defaultdict[int, list[Key]](list)
        for key, one in self._keys.items():
            if one.fires and is_due(one.last + length):
                gone[one.last + length].append(key)
        for end in sorted(gone):
            for key in sorted(gone[end], key=_sortable):
                before = self._keys[key]
                self._drop(key)
                if before.has_incident:
                    text = f"{self._rule.name}: no row for {GONE_WINDOWS} windows"
                    self._say(_RESOLVED, self._name(key), end, before.since, text)
            self._count_others(end)

    def _forget(self, closed: int) -> None:
        """Forget keys that the rule was true of, but not for long enough, and that have had no row since."""
        oldest = closed - GONE_WINDOWS * self._rule.slide
        for key in [key for key, one in self._keys.items() if not one.fires and one.last <= oldest]:
            self._drop(key)

    # ---- Observations --------------------------------------------------------------------------------------

    def _observe(
        self,
        state: rules_pb2.RuleState.ValueType,
        key: Key,
        window: int,
        since: int,
        values: Mapping[str, Any],
    ) -> None:
        text = self._describe(values)
        if state == _RESOLVED:
            text = f"{self._rule.name} is over: {self._list(values)}"
        observed = self._say(state, self._name(key), window, since, text)
        for column, value in values.items():
            if value is not None:
                observed.values[column] = summary.one_line(summary.text_of(value))
        if (measured := self._rule.measure(values)) is not None and self._rule.compiled.comparison:
            observed.value, observed.limit = measured, self._rule.compiled.comparison.limit

    def _say(
        self,
        state: rules_pb2.RuleState.ValueType,
        key: Mapping[str, str],
        window: int,
        since: int,
        text: str,
    ) -> rules_pb2.RuleObserved:
        rule = self._rule.rule
        observed = _build_resolved(rule.name, self._rule.digest, key, window, since, text)
        observed.state, observed.runbook = state, rule.runbook
        observed.severity = alertrules.severity(rule)
        self.observed.append(observed)
        return observed

    def _describe(self, values: Mapping[str, Any]) -> str:
        if self._rule.parts:
            return summary.render(self._rule.parts, values)
        return f"{self._rule.rule.when} ({self._list(values)})"

    def _list(self, values: Mapping[str, Any]) -> str:
        """List what the rule read, for a person."""
        texts = (
            f"{name} {'unknown' if value is None else summary.text_of(value)}"
            for name, value in values.items()
        )
        return ", ".join(texts)

    def _count_others(self, window: int) -> None:
        """Observe how many keys fire without an incident of their own, where that has changed."""
        others = [(key, one) for key, one in self._keys.items() if one.fires and not one.has_incident]
        count = len(others)
        if count == self._others:
            return
        if not self._others:
            self._others_since = window
        state = _RESOLVED if not count else _CHANGED if self._others else _FIRED
        text = f"{self._rule.name} is over for all further keys"
        if count:
            text = f"{self._rule.name} is true of {count:,} further keys, as {self._list_worst(others)}"
        self._say(state, {}, window, self._others_since, text).others = count
        self._others = count

    def _list_worst(self, others: Sequence[tuple[Key, KeyMemory]]) -> str:
        compared = self._rule.compiled.comparison
        sign = -1 if compared is None or compared.above else 1

        def rank(item: tuple[Key, KeyMemory]) -> tuple[bool, float, Any]:
            value = item[1].value
            return value is None, sign * (value or 0.0), _sortable(item[0])

        worst = sorted(others, key=rank)[:_WORST]
        return "; ".join(
            "/".join(part or "none" for part in key)
            + ("" if one.value is None else f" {summary.text_of(one.value)}")
            for key, one in worst
        )

    def _name(self, key: Key) -> dict[str, str]:
        return _name_values(self._rule.compiled.key, key)


def _sortable(key: Key) -> tuple[tuple[bool, str], ...]:
    return tuple((value is not None, value or "") for value in key)
