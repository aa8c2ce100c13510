"""Rules on what is not there: `absent`.

A key that had a row fires in the first window by whose end it has had none for as long as the rule says, and
is over in the first window that has one again; or FORGOTTEN after it fired. Windows that are not written are
no silence: it counts anew behind them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from daggerspec.alertrules import Key
from daggersql.rules import summary
from daggersql.rules.incidents import FIRED, RESOLVED, RuleJudging, sort_key
from daggersql.rules.judged import JudgedRow, JudgedRule
from daggersql.rules.memory import KeyMemory, RuleMemory

FORGOTTEN: Final = timedelta(days=7)
"""For how long a key fires that never comes back."""
_MICROSECOND: Final = timedelta(microseconds=1)


class UnwrittenWindows(NamedTuple):
    """Windows that are not written: those that end behind a time, and up to another; in us since 1970."""

    begin: int
    end: int


class AbsenceJudging(RuleJudging):
    """A rule on absent rows while the rows that there are are judged.

    Of each key there is the time in a heap at which something becomes of it unless it has a row before, or an
    earlier one: so one window costs what happens in it, however many keys there are.
    """

    def __init__(
        self, rule: JudgedRule, memory: RuleMemory, room: int, unwritten: Sequence[UnwrittenWindows]
    ) -> None:
        super().__init__(rule, memory, room)
        self._unwritten = sorted(unwritten)
        absent = rule.rule.absent.ToTimedelta() // _MICROSECOND
        self._span = -(-absent // rule.slide) * rule.slide
        self._due = {key: self._find_turn(one) for key, one in self._keys.items()}
        self._turns = [(turn, sort_key(key), key) for key, turn in self._due.items()]
        heapify(self._turns)

    def judge(self, rows: Sequence[JudgedRow], closed: int) -> None:
        """Note which keys have rows, window by window, and let the time up to `closed` pass."""
        by_window = defaultdict[int, set[Key]](set)
        for row in rows:
            by_window[row.window].add(row.key)
        for window in sorted(by_window):
            self._pass_time(window - 1)
            for key in sorted(by_window[window], key=sort_key):
                self._note_row(key, window)
            self._pass_time(window)
            self._count_others(window)
        self._pass_time(closed)

    def _note_row(self, key: Key, window: int) -> None:
        before = self._keys.get(key)
        if before is None:
            if self.room <= 0:
                return
            self.room -= 1
        elif before.has_incident:
            self._incidents -= 1
            text = f"{self._rule.name} is over: there is a row again"
            self._observe(RESOLVED, self._name(key), window, before.since, text)
        self._put(key, KeyMemory(window, window, 0))

    def _put(self, key: Key, now: KeyMemory) -> None:
        self._keys[key] = now
        turn = self._find_turn(now)
        if turn < self._due.get(key, turn + 1):
            self._due[key] = turn
            heappush(self._turns, (turn, sort_key(key), key))

    # ---- Time that passes ----------------------------------------------------------------------------------

    def _pass_time(self, until: int) -> None:
        """Let keys fire whose time has come, and forget those that have fired for too long."""
        changed: int | None = None
        while self._turns and self._turns[0][0] <= until:
            turn, _, key = heappop(self._turns)
            if changed is not None and turn > changed:
                self._count_others(changed)
                changed = None
            if self._due.get(key) != turn:
                continue  # there was an earlier one
            del self._due[key]
            one = self._keys[key]
            if self._find_turn(one) > turn:
                self._put(key, one)  # it has had a row since
            elif one.fires:
                self._forget(key, one, turn)
                changed = turn
            else:
                self._fire(key, one, turn)
                changed = turn
        if changed is not None:
            self._count_others(changed)

    def _fire(self, key: Key, one: KeyMemory, window: int) -> None:
        since = self._silent_from(one.last) + self._rule.slide
        now = replace(one, since=since, fires=True, has_incident=self._has_room_for_incident)
        if now.has_incident:
            self._incidents += 1
            self._observe(FIRED, self._name(key), window, since, self._describe(key, one.last))
        self._put(key, now)

    def _forget(self, key: Key, one: KeyMemory, window: int) -> None:
        self._drop(key)
        if one.has_incident:
            text = f"{self._rule.name}: no row for {FORGOTTEN.days} days more, so it is forgotten"
            self._observe(RESOLVED, self._name(key), window, one.since, text)

    def _find_turn(self, one: KeyMemory) -> int:
        """Return when something becomes of a key that has no further row: it fires, or is forgotten."""
        if one.fires:
            return one.since - self._rule.slide + self._span + FORGOTTEN // _MICROSECOND
        return self._silent_from(one.last) + self._span

    def _silent_from(self, last: int) -> int:
        """Return the end of the window behind which a key is silent, by that of its last row."""
        for begin, end in self._unwritten:
            if begin < last + self._span and last < end:
                last += (end - last) // self._rule.slide * self._rule.slide
        return last

    def _describe(self, key: Key, last: int) -> str:
        if self._rule.parts:
            return summary.render(self._rule.parts, dict(zip(self._rule.compiled.key, key, strict=True)))
        end = datetime.fromtimestamp(last / 1_000_000, UTC)
        return f"no row since {end:%Y-%m-%dT%H:%M:%SZ}"
