"""Drivers that judge rules on rows, and may be killed at any step of a batch.

A batch ends in the order of `runtime.rules.judging`: memory and observations are stored together, then these
are sent, then the batch is committed. One that was not committed is repeated with the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from daggers.v1 import rules_pb2

from daggerspec.alertrules import Key
from daggersql.rules.compiled import CompiledRule, LimitComparison, RuleText
from daggersql.rules.engine import judge
from daggersql.rules.judged import JudgedRow, JudgedRule, prepare
from daggersql.rules.memory import Memory

SLIDE: Final = timedelta(minutes=1)
COLUMN, KEY_COLUMN = "n", "tag_key"
CALM, HIGH, HIGHER = 1, 6, 9
"""Numbers that a key has in a window."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Death(Enum):
    """Step of a batch that a driver does not live to see."""

    STORE = auto()
    SEND = auto()
    REST_OF_SEND = auto()
    COMMIT = auto()


def build_rule(name: str, limit: int, windows: int, *, keyed: bool) -> rules_pb2.AlertRule:
    """Build the rule that a number is above a limit for so many windows."""
    return rules_pb2.AlertRule(
        name=name,
        when=f"{COLUMN} > {limit}",
        for_windows=windows,
        key=[KEY_COLUMN] if keyed else [],
        severity=rules_pb2.RULE_SEVERITY_ERROR,
    )


def read_limit(rule: rules_pb2.AlertRule) -> int:
    """Return the limit of a rule."""
    return int(rule.when.rpartition(" ")[2])


@lru_cache(maxsize=1_000)
def _compile(serialized: bytes) -> JudgedRule:
    rule = rules_pb2.AlertRule.FromString(serialized)
    compiled = CompiledRule(
        RuleText(rule.name, rule.when, key=tuple(rule.key)),
        when=rule.when,
        resolve="",
        key=tuple(rule.key),
        read=(COLUMN,),
        comparison=LimitComparison(COLUMN, float(read_limit(rule)), above=True),
    )
    [ready] = prepare([rule], [compiled], SLIDE)
    return ready


class SimulatedDriver:
    """Driver of one dagger, and what is stored beside its checkpoints."""

    def __init__(self, dagger: str, keys: Sequence[str]) -> None:
        self.numbers: dict[str, int] = dict.fromkeys(keys, CALM)
        """Number of each key in the window that is open."""
        self.generation = 1
        self._dagger = dagger
        self._rows: dict[int, Mapping[str, int]] = {}
        """Numbers by the end of the window, of windows that are not committed."""
        self._stored: tuple[str, tuple[rules_pb2.RuleObserved, ...]] = json.dumps(Memory().to_json()), ()
        self._memory = Memory()
        self._waiting: tuple[rules_pb2.RuleObserved, ...] = ()

    def close_window(self, end: datetime) -> None:
        """Note the rows of a window that ends."""
        self._rows[(end - _EPOCH) // timedelta(microseconds=1)] = dict(self.numbers)

    def run_batch(
        self, rules: Sequence[rules_pb2.AlertRule], revision: int, death: Death | None
    ) -> Iterator[rules_pb2.RuleObserved]:
        """Judge all closed windows, and yield what is sent; with a death up to it, and the batch is to be
        repeated by another driver.
        """
        ready = [_compile(rule.SerializeToString(deterministic=True)) for rule in rules]
        rows = [row for rule in ready for row in self._list_rows(rule)]
        closed = max(self._rows, default=0)
        after, observed = judge(self._memory, ready, rows, closed)
        for one in observed:
            one.dagger, one.generation, one.revision = self._dagger, self.generation, revision
        if death is Death.STORE:
            self._start_anew()
            return
        sent = (*self._waiting, *observed)
        self._memory, self._stored = after, (json.dumps(after.to_json()), sent)
        if death is Death.SEND:
            self._start_anew()
            return
        yield from sent[: len(sent) // 2] if death is Death.REST_OF_SEND else sent
        self._waiting = ()
        if death is None:
            self._rows.clear()
        else:
            self._start_anew()

    def _list_rows(self, rule: JudgedRule) -> Iterator[JudgedRow]:
        limit = read_limit(rule.rule)
        for window, numbers in self._rows.items():
            for name, number in numbers.items():
                key: Key = (name,) if rule.compiled.key else ()
                yield JudgedRow(rule.name, window, key, number > limit, number <= limit, {COLUMN: number})

    def _start_anew(self) -> None:
        """Go on as the next driver, with what is stored."""
        memory, self._waiting = self._stored
        self._memory = Memory.from_json(json.loads(memory))
        self.generation += 1
