"""Rules that are true of rows: `when`.

A rule is true of a key in a window if it is true of one of its rows, and over if it is over for all of them.
A key fires once the rule was true of it in as many windows in a row as it says. It is over in the first
window in which the rule is not true, and is over; or GONE_WINDOWS after its last row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import ge, gt
from typing import Any, Final

from daggers.v1 import rules_pb2

from daggerspec.alertrules import Key
from daggersql.rules import summary
from daggersql.rules.incidents import FIRED, RESOLVED, RuleJudging, sort_key
from daggersql.rules.judged import JudgedRow, combine
from daggersql.rules.memory import KeyMemory

GONE_WINDOWS: Final = 10
"""Windows without a row of a key after which its incident is over."""


class ConditionJudging(RuleJudging):
    """A rule with a condition while its rows are judged."""

    def judge(self, rows: Sequence[JudgedRow], closed: int) -> None:
        """Judge the rows window by window, and then what is gone up to `closed`."""
        by_window = defaultdict[int, dict[Key, list[JudgedRow]]](lambda: defaultdict(list))
        for row in rows:
            by_window[row.window][row.key].append(row)
        for window in sorted(by_window):
            self._let_go(partial(gt, window))
            for key in sorted(by_window[window], key=sort_key):
                self._judge_key(key, window, by_window[window][key])
            self._let_go(partial(ge, window))
            self._count_others(window)
        self._let_go(partial(ge, closed))
        self._forget(closed)

    def _judge_key(self, key: Key, window: int, rows: Sequence[JudgedRow]) -> None:
        before = self._keys.get(key)
        row = combine(rows, self._rule.compiled.comparison)
        if before is not None and before.fires:
            if row.is_over and not row.is_true:
                self._drop(key)
                if before.has_incident:
                    self._observe_row(RESOLVED, key, window, before.since, row.values)
            else:
                self._keys[key] = replace(before, last=window, value=self._rule.measure(row.values))
        elif row.is_true:
            self._note_true(key, before, window, row.values)
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
            now = replace(now, fires=True, has_incident=self._has_room_for_incident)
            if now.has_incident:
                self._incidents += 1
                self._observe_row(FIRED, key, window, since, values)
        self._keys[key] = now

    # ---- Keys that give no row any more --------------------------------------------------------------------

    def _let_go(self, is_due: Callable[[int], bool]) -> None:
        """Resolve keys that have given no row for GONE_WINDOWS, those whose last window was first, first."""
        length = GONE_WINDOWS * self._rule.slide
        gone = defaultdict[int, list[Key]](list)
        for key, one in self._keys.items():
            if one.fires and is_due(one.last + length):
                gone[one.last + length].append(key)
        for end in sorted(gone):
            for key in sorted(gone[end], key=sort_key):
                before = self._keys[key]
                self._drop(key)
                if before.has_incident:
                    text = f"{self._rule.name}: no row for {GONE_WINDOWS} windows"
                    self._observe(RESOLVED, self._name(key), end, before.since, text)
            self._count_others(end)

    def _forget(self, closed: int) -> None:
        """Forget keys that the rule was true of, but not for long enough, and that have had no row since."""
        oldest = closed - GONE_WINDOWS * self._rule.slide
        for key in [key for key, one in self._keys.items() if not one.fires and one.last <= oldest]:
            self._drop(key)

    # ---- Observations --------------------------------------------------------------------------------------

    def _observe_row(
        self,
        state: rules_pb2.RuleState.ValueType,
        key: Key,
        window: int,
        since: int,
        values: Mapping[str, Any],
    ) -> None:
        text = self._describe(values)
        if state == RESOLVED:
            text = f"{self._rule.name} is over: {self._list(values)}"
        observed = self._observe(state, self._name(key), window, since, text)
        for column, value in values.items():
            if value is not None:
                observed.values[self._rule.label(column)] = summary.one_line(summary.text_of(value))
        compared = self._rule.compiled.comparison
        if compared is not None and (measured := self._rule.measure(values)) is not None:
            observed.value = measured
            if (limit := compared.find_limit(values)) is not None:
                observed.limit = limit

    def _describe(self, values: Mapping[str, Any]) -> str:
        if self._rule.parts:
            labelled = {self._rule.label(column): value for column, value in values.items()}
            return summary.render(self._rule.parts, labelled)
        return f"{self._rule.rule.when} ({self._list(values)})"

    def _list(self, values: Mapping[str, Any]) -> str:
        """List what the rule read, for a person."""
        texts = (
            f"{self._rule.label(name)} {'unknown' if value is None else summary.text_of(value)}"
            for name, value in values.items()
        )
        return ", ".join(texts)
