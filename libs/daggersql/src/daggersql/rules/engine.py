"""Judges rows of closed windows by rules: memory and rows in, memory and observations out. Pure.

    judge    memory, rules, rows -> the memory after them, and what was observed

Time is the end of a window. How rows are divided into calls changes nothing, as long as windows come in their
order and a call has all rows of the windows up to its end; rows of windows that were judged are passed over.
`conditions` and `absence` say when a key fires, and when that is over. At most MOST_INCIDENTS keys of a rule
have an incident each; all others have one together, which tells how many they are, and the worst of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from daggers.v1 import rules_pb2

from daggerspec.alertrules import MOST_KEYS
from daggersql.rules.absence import AbsenceJudging, UnwrittenWindows
from daggersql.rules.conditions import ConditionJudging
from daggersql.rules.incidents import RuleJudging, build_resolved, name_values
from daggersql.rules.judged import JudgedRow, JudgedRule
from daggersql.rules.memory import Memory, RuleMemory


def judge(
    memory: Memory,
    rules: Sequence[JudgedRule],
    rows: Iterable[JudgedRow],
    closed: int,
    unwritten: Sequence[UnwrittenWindows] = (),
) -> tuple[Memory, list[rules_pb2.RuleObserved]]:
    """Judge the rows of windows that end up to `closed`, in us; return the memory after them, and what was
    observed, in its order. Who was observed by (dagger, revision, generation) is left to the caller.
    unwritten: windows that have no rows whatever there was, as all calls before have had them.
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
        judging = _begin(rule, unchanged.get(rule.name) or RuleMemory(rule.digest), room, unwritten)
        judging.judge(by_rule[rule.name], closed)
        room = judging.room
        observed += judging.observed
        if not (result := judging.result()).is_empty:
            after[rule.name] = result
    return Memory(after, closed), sorted(observed, key=_order)


def _begin(
    rule: JudgedRule, memory: RuleMemory, room: int, unwritten: Sequence[UnwrittenWindows]
) -> RuleJudging:
    if rule.compiled.text.is_of_absence:
        return AbsenceJudging(rule, memory, room, unwritten)
    return ConditionJudging(rule, memory, room)


def _order(observed: rules_pb2.RuleObserved) -> tuple[int, str, str]:
    return observed.window.ToMicroseconds(), observed.rule, json.dumps(dict(observed.key), sort_keys=True)


def _end(name: str, memory: RuleMemory, how: str) -> Iterator[rules_pb2.RuleObserved]:
    """Resolve what a rule has fired that is no more: it was changed, or removed."""
    text = f"the rule {name} was {how}"
    for key, one in memory.keys.items():
        if one.has_incident:
            yield build_resolved(
                name, memory.digest, name_values(memory.columns, key), one.last, one.since, text
            )
    if memory.others:
        last = max(one.last for one in memory.keys.values())
        yield build_resolved(name, memory.digest, {}, last, memory.others_since, text)
