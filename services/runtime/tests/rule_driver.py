"""The judge of rules of one launch after another, on rows of a test, and what it sends."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from daggers.v1 import rules_pb2, telemetry_pb2

from daggerspec import alertrules
from daggersql.plan import Window
from daggersql.rules.compiled import CompiledRule, LimitComparison, RuleText
from runtime.errors import user
from runtime.references.loading import References
from runtime.rules.judging import RuleJudge, RulesInForce
from runtime.rules.limits import LimitTables
from runtime.rules.observations import event_id
from runtime.rules.selection import MOST_PACKED, RowSelection, SelectedRule
from runtime.source.status import Gap
from runtime.state.store.local import LocalPlace

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BUSY = rules_pb2.AlertRule(name="busy", when="n > 10")
QUIET = rules_pb2.AlertRule(name="quiet", when="n < 3")


class Plan:
    """A DataFrame that notes what is added to it."""

    def __init__(self) -> None:
        self.added: tuple[str, ...] = ()

    def alias(self, name: str) -> Plan:
        assert name == "row"
        return self

    def selectExpr(self, *expressions: str) -> Plan:  # noqa: N802 - Spark's name
        self.added = expressions[1:]
        return self


class Kafka:
    """Takes observations, or none while it is away."""

    def __init__(self) -> None:
        self.observations: list[rules_pb2.RuleObserved] = []
        self.away = False

    def write(self, observed: Sequence[rules_pb2.RuleObserved]) -> Sequence[rules_pb2.RuleObserved]:
        if self.away:
            return observed
        self.observations += observed
        return ()

    @property
    def turns(self) -> list[tuple[str, str, int]]:
        """Turns, each once, in the order of its first coming."""
        once = {event_id(one): one for one in reversed(self.observations)}
        return [
            (
                rules_pb2.RuleState.Name(one.state).removeprefix("RULE_STATE_"),
                one.key["tag_city"],
                (one.window.ToDatetime(tzinfo=UTC) - NOON) // MINUTE,
            )
            for one in reversed(once.values())
        ]


def compile_rules(of_dagger: rules_pb2.AlertRules) -> tuple[CompiledRule, ...]:
    """Compile rules as the plan of a query with the columns tag_city and n does."""
    rules = of_dagger.rules
    if any("wrong" in rule.when for rule in rules):
        raise user("UNKNOWN_COLUMN", "There is no column wrong.")
    return tuple(
        CompiledRule(
            RuleText(rule.name, rule.when, absent=alertrules.absence(rule)), f"`row`.{rule.when}", "",
            ("tag_city",), ("n",), LimitComparison("n", 10, above=True),
        )
        for rule in rules
    )  # fmt: skip


class RuleDriver:
    """The judge of one launch after another, over one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kafka, self.revisions = folder, Kafka(), list[RulesInForce]()
        self.learning: list[Sequence[telemetry_pb2.LearningRule]] = []
        self.created, self.computed_again = 3, 0
        self.launch()

    def launch(self, *rules: rules_pb2.AlertRule, revision: int = 1) -> None:
        references = References(
            (), (), dagger="calls", store=self.folder, folder=self.folder, clock=lambda: 0.0
        )
        self.judge = RuleJudge(
            "calls", generation=7, created=self.created, root=lambda: LocalPlace(self.folder),
            window=Window("TUMBLE", MINUTE, MINUTE), compile_rules=compile_rules,
            limits=LimitTables(references), sender=self.kafka, on_rules=self.revisions.append,
            on_learning=self.learning.append,
        )  # fmt: skip
        rules = rules or (BUSY,)
        self.judge.put(revision, rules, compile_rules(rules_pb2.AlertRules(rules=rules)))

    def batch(self, minute: int, rows: dict[str, int | None], gaps: Sequence[Gap] = ()) -> None:
        """Judge a batch that closes one window, as a driver and its workers do."""
        self.batches([arrow(minute, rows, 2)], NOON + minute * MINUTE, gaps)

    def batches(
        self,
        parts: Sequence[pa.RecordBatch],
        closed: datetime,
        gaps: Sequence[Gap] = (),
        most_packed: int = MOST_PACKED,
    ) -> None:
        """Judge a batch whose rows are in several partitions. most_packed: of each of them."""
        self.judge.begin_batch(cast(Any, Plan()), closed)

        def select(rules: tuple[SelectedRule, ...]) -> list[bytes]:
            for_workers = pickle.dumps(rules)
            selections = [RowSelection(pickle.loads(for_workers), most_packed) for _ in parts]
            return [
                content
                for part, selection in zip(parts, selections, strict=True)
                for portion in (part.slice(0, 2), part.slice(2))
                for content in selection.select(portion)
            ]

        def select_again(rules: tuple[SelectedRule, ...]) -> list[bytes]:
            self.computed_again += 1
            return select(rules)

        self.judge.end_batch(select(self.judge.select()), closed, gaps, select_again)


def arrow(minute: int, rows: dict[str, int | None], rules: int = 1) -> pa.RecordBatch:
    """Build a batch of one window with the columns of rules: `n > 10` is true, `n < 3` is true."""
    conditions = [lambda n: n is not None and n > 10, lambda n: n is not None and n < 3]
    ends = pa.array([NOON + minute * MINUTE] * len(rows), pa.timestamp("us", "UTC"))
    columns: dict[str, pa.Array] = {
        "tag_city": pa.array(list(rows), pa.string()),
        "n": pa.array(list(rows.values()), pa.int64()),
        "__window_end": ends,
    }
    for number in range(rules):
        is_true = [conditions[number](n) for n in rows.values()]
        columns[f"__rule_{number}"] = pa.array(is_true, pa.bool_())
        columns[f"__rule_over_{number}"] = pa.array([not one for one in is_true], pa.bool_())
    return pa.RecordBatch.from_pydict(columns)
