"""The keys of one rule while it is judged: which of them have an incident, and what is observed of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from daggers.v1 import rules_pb2

from daggerspec import alertrules
from daggerspec.alertrules import Key
from daggersql.rules import summary
from daggersql.rules.judged import JudgedRow, JudgedRule
from daggersql.rules.memory import KeyMemory, RuleMemory

MOST_INCIDENTS: Final = 1_000
"""Keys of a rule that have an incident each at once."""
FIRED: Final = rules_pb2.RULE_STATE_FIRED
CHANGED: Final = rules_pb2.RULE_STATE_CHANGED
RESOLVED: Final = rules_pb2.RULE_STATE_RESOLVED
_WORST: Final = 10


class RuleJudging(ABC):
    """One rule while its rows are judged; a kind of rules says when a key fires, and when that is over."""

    def __init__(self, rule: JudgedRule, memory: RuleMemory, room: int) -> None:
        """room: how many keys may be remembered beside those that are."""
        self._rule = rule
        self._keys = dict(memory.keys)
        self._others, self._others_since = memory.others, memory.others_since
        self._incidents = sum(one.has_incident for one in self._keys.values())
        self.room = room
        """How many more keys may be remembered."""
        self.observed: list[rules_pb2.RuleObserved] = []

    @abstractmethod
    def judge(self, rows: Sequence[JudgedRow], closed: int) -> None:
        """Judge the rows of windows that end up to `closed`, in us."""

    def result(self) -> RuleMemory:
        """Return what is remembered."""
        columns = self._rule.compiled.key
        return RuleMemory(self._rule.digest, self._keys, self._others, self._others_since, columns)

    @property
    def _has_room_for_incident(self) -> bool:
        return self._incidents < MOST_INCIDENTS

    def _drop(self, key: Key) -> None:
        self._incidents -= self._keys.pop(key).has_incident
        self.room += 1

    # ---- Observations --------------------------------------------------------------------------------------

    def _observe(
        self,
        state: rules_pb2.RuleState.ValueType,
        key: Mapping[str, str],
        window: int,
        since: int,
        text: str,
    ) -> rules_pb2.RuleObserved:
        rule = self._rule.rule
        observed = build_resolved(rule.name, self._rule.digest, key, window, since, text)
        observed.state, observed.runbook = state, rule.runbook
        observed.severity = alertrules.severity(rule)
        self.observed.append(observed)
        return observed

    def _count_others(self, window: int) -> None:
        """Observe how many keys fire without an incident of their own, where that has changed."""
        others = [(key, one) for key, one in self._keys.items() if one.fires and not one.has_incident]
        count = len(others)
        if count == self._others:
            return
        if not self._others:
            self._others_since = window
        state = RESOLVED if not count else CHANGED if self._others else FIRED
        text = f"{self._rule.name} is over for all further keys"
        if count:
            text = f"{self._rule.name} is true of {count:,} further keys, as {self._list_worst(others)}"
        self._observe(state, {}, window, self._others_since, text).others = count
        self._others = count

    def _list_worst(self, others: Sequence[tuple[Key, KeyMemory]]) -> str:
        compared = self._rule.compiled.comparison
        sign = -1 if compared is None or compared.above else 1

        def rank(item: tuple[Key, KeyMemory]) -> tuple[bool, float, Any]:
            value = item[1].value
            return value is None, sign * (value or 0.0), sort_key(item[0])

        worst = sorted(others, key=rank)[:_WORST]
        return "; ".join(
            "/".join(part or "none" for part in key)
            + ("" if one.value is None else f" {summary.text_of(one.value)}")
            for key, one in worst
        )

    def _name(self, key: Key) -> dict[str, str]:
        return name_values(self._rule.compiled.key, key)


def build_resolved(
    rule: str, digest: str, key: Mapping[str, str], window: int, since: int, text: str
) -> rules_pb2.RuleObserved:
    """Build the observation that an incident is over. window and since: ends of windows, in us since 1970."""
    observed = rules_pb2.RuleObserved(
        rule=rule, digest=digest, key=key, state=RESOLVED, summary=summary.one_line(text)
    )
    observed.window.FromMicroseconds(window)
    observed.since.FromMicroseconds(since)
    return observed


def name_values(columns: Sequence[str], key: Key) -> dict[str, str]:
    """Return the values of a key by column, without those that are NULL."""
    return {column: value for column, value in zip(columns, key, strict=True) if value is not None}


def sort_key(key: Key) -> tuple[tuple[bool, str], ...]:
    """Return what keys are put in order by: NULL first, then by text."""
    return tuple((value is not None, value or "") for value in key)
