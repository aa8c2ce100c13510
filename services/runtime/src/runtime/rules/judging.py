"""Judge the alert rules of a launch, batch by batch, in the driver.

A batch ends in this order: its rows are in every sink, what the rules observed in it is kept beside the
checkpoints together with what is remembered of them, then it is sent, then Spark commits. So a batch that is
repeated was judged before, or not at all: what it had observed is sent again, under the same ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from daggers.v1 import rules_pb2, spec_pb2, telemetry_pb2
from google.protobuf import json_format
from pyspark.sql import DataFrame

from chassis.logging import logger
from daggerspec import alertrules
from daggerspec.alertrules import Key
from daggersql.plan import Window
from daggersql.rules.absence import UnwrittenWindows
from daggersql.rules.compiled import CompiledRule
from daggersql.rules.engine import judge
from daggersql.rules.judged import JudgedRule, prepare
from daggersql.rules.memory import Memory
from runtime.rules.bands import Bands
from runtime.rules.columns import with_rules
from runtime.rules.limits import LimitTables
from runtime.rules.past import Past
from runtime.rules.rules_file import RulesFile
from runtime.rules.selected import SelectAgain, read_selected
from runtime.rules.selection import SelectedRule
from runtime.source.status import Gap
from runtime.state.store import Place

_SAVE_PERIOD_S: Final = 60.0
_MOST_WAITING: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Sender(Protocol):
    """Sends observations."""

    def write(self, observed: Sequence[rules_pb2.RuleObserved]) -> Sequence[rules_pb2.RuleObserved]:
        """Write observations; return those that wait."""


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules of one revision, ready to be judged."""

    revision: int
    rules: tuple[JudgedRule, ...] = ()

    @property
    def compiled(self) -> tuple[CompiledRule, ...]:
        """The rules for Spark."""
        return tuple(rule.compiled for rule in self.rules)

    @property
    def digest(self) -> str:
        """Digest of the rules (`alertrules.digest_of_all`)."""
        return alertrules.digest_of_all(rule.rule for rule in self.rules)


Compile = Callable[[rules_pb2.AlertRules], tuple[CompiledRule, ...]]
"""Compiles rules by the launch's query. Raises: JobError."""


class RuleJudge:
    """Rules of one launch. Batches are judged in Spark's thread; `take` is called in another."""

    def __init__(
        self,
        dagger: str,
        *,
        generation: int,
        created: int,
        root: Callable[[], Place],
        window: Window | None,
        limits: LimitTables,
        compile_rules: Compile,
        sender: Sender,
        on_rules: Callable[[RulesInForce], None],
        on_learning: Callable[[Sequence[telemetry_pb2.LearningRule]], None],
    ) -> None:
        """created: sequence of the dagger; what is remembered of an older one is another's. root: directory
        of its checkpoints. window: of its query; None where it has none, and so no rules. limits: tables that
        rules read. on_rules: called whenever rules are in force. on_learning: called whenever others than
        before have not enough past to be true of anything.
        """
        self._dagger, self._generation = dagger, generation
        self._window, self._compile = window, compile_rules
        self._sender, self._on_rules, self._on_learning = sender, on_rules, on_learning
        self._learning: list[telemetry_pb2.LearningRule] = []
        self._limits = limits
        self._past = Past(root, created, window.slide) if window is not None else None
        self._bands = Bands(root, created, window.slide) if window is not None else None
        self._several = False
        """Whether the batch closes several windows."""
        self._in_force = RulesInForce(0)
        self._judging = RulesInForce(0)
        self._file = RulesFile(root, created)
        self._memory: Memory | None = None
        self._waiting: list[rules_pb2.RuleObserved] = []
        self._saved_at = 0.0
        self._is_waiting_saved = False
        """Whether the file has observations that may not have been sent."""
        self._file_state: tuple[int, int] | None = None

    # ---- Rules in force ------------------------------------------------------------------------------------

    def put(
        self,
        revision: int,
        rules: Sequence[rules_pb2.AlertRule],
        compiled: Sequence[CompiledRule],
        tables: Iterable[spec_pb2.ReferenceTable] = (),
    ) -> None:
        """Put rules in force, from the next batch on. compiled: the same rules by the launch's query. tables:
        those whose limits they read. Raises: JobError (EXTERNAL) for one of these that is missing.
        """
        self._limits.choose(compiled, tables)
        ready: tuple[JudgedRule, ...] = ()
        if rules:
            assert self._window is not None  # the check refuses rules of other queries
            ready = prepare(rules, compiled, self._window.slide)
        self._in_force = RulesInForce(revision, ready)
        self._on_rules(self._in_force)

    def take(self, file: Path) -> None:
        """Take newer rules out of a file that the scheduler writes, if it has changed."""
        try:
            state = file.stat()
            current = state.st_mtime_ns, state.st_ino
            if current == self._file_state:
                return
            rules = json_format.Parse(file.read_text(), rules_pb2.AlertRules(), ignore_unknown_fields=True)
        except FileNotFoundError:
            return
        except (OSError, json_format.ParseError) as problem:
            logger().warning("rules.file_skipped", why=str(problem))
            return
        self._file_state = current
        if rules.revision <= self._in_force.revision:
            return
        try:
            compiled = self._compile(rules) if rules.rules else ()
            self.put(rules.revision, rules.rules, compiled, alertrules.read_tables(rules))
            logger().info("rules.taken", revision=rules.revision, rules=len(rules.rules))
        except Exception as error:  # noqa: BLE001 - the rules before stay in force, and its heartbeat says so
            logger().warning("rules.refused", revision=rules.revision, why=str(error))

    # ---- Batches -------------------------------------------------------------------------------------------

    def begin_batch(self, rows: DataFrame, closed: datetime | None) -> DataFrame:
        """Add what the rules in force say to the rows of a batch that closes windows up to `closed`, which
        `select` and `end_batch` judge.
        """
        self._judging = self._in_force
        compiled = self._judging.compiled
        if self._past is None or self._bands is None:
            return rows
        self._past.choose(compiled)
        self._bands.choose(compiled)
        if not compiled:
            self._note_learning(0)
            return rows
        begin = self._load().end
        end = max(begin, _microseconds(closed) if closed else 0)
        self._note_learning(begin)
        past = self._past.join(self._limits.join(rows, compiled), begin, end)
        self._several = self._window is not None and end - begin > self._window.slide // _MICROSECOND
        return with_rules(past, compiled, len(self._past.select()))

    def select(self) -> tuple[SelectedRule, ...]:
        """Return what workers need of the rules."""
        if not self._judging.rules or self._past is None or self._bands is None:
            return ()
        memory, past = self._load(), self._past.select()
        rules = (
            self._bands.select(rule.compiled)
            or SelectedRule(
                rule.name,
                rule.compiled.key,
                rule.compiled.read,
                _list_active(memory, rule),
                takes_all=self._several and not rule.compiled.key,
                compared=rule.compiled.comparison,
                is_packed=self._several and bool(rule.compiled.key) and not rule.compiled.text.is_of_absence,
            )
            for rule in self._judging.rules
        )
        return tuple(replace(rule, number=number) for number, rule in enumerate((*rules, *past)))

    def end_batch(
        self,
        contents: Sequence[bytes],
        closed: datetime | None,
        gaps: Sequence[Gap] = (),
        select_again: SelectAgain | None = None,
    ) -> None:
        """Judge what workers have selected of a batch that closes windows up to `closed`; keep and send what
        was observed. gaps: stretches of event time without all their records, whose windows have no rows.
        select_again: as of `read_selected`.
        """
        if self._window is None or self._past is None or self._bands is None or closed is None:
            return
        before = self._load()
        selected = read_selected(self.select() if self._several else (), contents, select_again)
        rows = self._bands.answer(self._past.add(selected, _microseconds(closed)))
        unwritten = _list_unwritten(gaps, self._window)
        after, observed = judge(before, self._judging.rules, rows, _microseconds(closed), unwritten)
        for one in observed:
            one.dagger, one.generation, one.revision = self._dagger, self._generation, self._judging.revision
        if before.size < alertrules.MOST_KEYS <= after.size:
            logger().warning(
                "rules.keys_exceeded", why=f"rules are not judged for more than {alertrules.MOST_KEYS} keys"
            )
        waiting = [*self._waiting, *observed][-_MOST_WAITING:]
        self._memory, self._waiting = after, waiting
        is_due = time.monotonic() - self._saved_at > _SAVE_PERIOD_S and self._judging.rules
        has_bands = any(rule.compiled.band is not None for rule in self._judging.rules)
        if after.rules != before.rules or waiting or self._is_waiting_saved or is_due or has_bands:
            self._save(after, waiting)  # before the numbers of bands: what was judged is judged no more
        self._bands.store()
        self._note_learning(after.end)
        self._waiting = list(self._sender.write(waiting))

    def _note_learning(self, closed: int) -> None:
        """Report which rules are learning, where others are than before. closed: end of judged windows."""
        assert self._window is not None
        after = closed + self._window.slide // _MICROSECOND
        learning: list[telemetry_pb2.LearningRule] = []
        for rule in self._judging.rules:
            if not (rule.compiled.past or rule.compiled.band):
                continue
            until = self._learns_until(rule.compiled)
            if until is None or until > after:
                learning.append(telemetry_pb2.LearningRule(rule=rule.name))
                if until is not None:
                    learning[-1].until.FromMicroseconds(until)
        if learning != self._learning:
            self._learning = learning
            self._on_learning(learning)

    def _learns_until(self, rule: CompiledRule) -> int | None:
        """Return from which window on a rule compares with its past, in us; None before its first window."""
        assert self._past is not None
        assert self._bands is not None
        times = [self._past.learns_until(value) for value in rule.past]
        if rule.band is not None:
            times.append(self._bands.learns_until(rule.band))
        bounds = [time for time in times if time is not None]
        return max(bounds) if len(bounds) == len(times) else None

    def _load(self) -> Memory:
        """Read what is remembered, and what may not have been sent; once."""
        if self._memory is None:
            self._memory, self._waiting = self._file.read()
            self._is_waiting_saved = bool(self._waiting)
        return self._memory

    def _save(self, memory: Memory, waiting: Sequence[rules_pb2.RuleObserved]) -> None:
        self._file.write(memory, waiting)
        self._is_waiting_saved = bool(waiting)
        self._saved_at = time.monotonic()


def _list_active(memory: Memory, rule: JudgedRule) -> frozenset[Key]:
    """Return the keys of which workers select every row; a rule on absent rows selects all rows anyway."""
    is_of_absence = rule.compiled.text.is_of_absence
    return frozenset() if is_of_absence else memory.active(rule.name, rule.digest)


def _list_unwritten(gaps: Sequence[Gap], window: Window) -> list[UnwrittenWindows]:
    """Return the windows that need a record of a gap (`launch.wholeness`)."""
    return [
        UnwrittenWindows(
            _microseconds(gap.begin) if gap.begin else 0, _microseconds(gap.end + window.size) - 1
        )
        for gap in gaps
    ]


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND
