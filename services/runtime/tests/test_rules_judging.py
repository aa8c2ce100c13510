"""Rules of a launch: what leaves workers, and what is sent over repeated batches, edits and outages."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from daggers.v1 import rules_pb2, telemetry_pb2
from google.protobuf import json_format

from daggerspec import alertrules
from daggersql.plan import Window
from daggersql.rules.compiled import CompiledRule, LimitComparison, RuleText
from runtime.errors import user
from runtime.references.loading import References
from runtime.rules.judging import RuleJudge, RulesInForce, read_rows
from runtime.rules.limits import LimitTables
from runtime.rules.observations import event_id
from runtime.rules.rules_file import FILE
from runtime.rules.selection import RowSelection, SelectedRule
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
        self.created = 3
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
        self.judge.begin_batch(cast(Any, Plan()), NOON + minute * MINUTE)
        selected = cast(tuple[SelectedRule, ...], pickle.loads(pickle.dumps(self.judge.select())))
        content = RowSelection(selected).select(arrow(minute, rows, len(selected))) if selected else b""
        self.judge.end_batch([content] if content else [], NOON + minute * MINUTE, gaps)


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


@pytest.fixture
def driver(tmp_path: Path) -> RuleDriver:
    return RuleDriver(tmp_path)


def test_only_rows_that_say_something_leave_a_worker() -> None:
    batch = arrow(1, {"a": 11, "b": 1, "c": 2, "d": None})

    def pass_on(*active: str) -> list[tuple[str | None, ...]]:
        rule = SelectedRule("busy", ("tag_city",), ("n",), frozenset((one,) for one in active))
        content = RowSelection([rule]).select(batch)
        return [row.key for row in read_rows([content] if content else [])]

    assert pass_on() == [("a",)]
    assert pass_on("c", "d", "e") == [("a",), ("c",), ("d",)]
    assert (
        RowSelection([SelectedRule("busy", ("tag_city",), ("n",), frozenset())]).select(arrow(1, {"b": 1}))
        == b""
    )


def test_a_rule_that_is_true_of_every_row_fills_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.rules.selection.MOST_KEYS", 2)
    selection = RowSelection([SelectedRule("busy", ("tag_city",), ("n",), frozenset({("x",), ("y",)}))])
    contents = [
        selection.select(arrow(minute, {"a": 11, "b": 12, "c": 13, "x": 14, "y": 1})) for minute in (1, 2)
    ]

    assert [row.key for row in read_rows(contents)] == [("a",), ("b",), ("x",), ("y",)] * 2


def test_of_a_batch_of_several_windows_all_rows_of_keys_that_it_is_true_of_leave_a_worker() -> None:
    batch = arrow(1, {"a": 1, "b": 2, "c": 11})
    any_true = batch.append_column("__rule_any_0", pa.array([True, False, True]))
    selection = RowSelection([SelectedRule("busy", ("tag_city",), ("n",), frozenset())])

    assert [row.key for row in read_rows([selection.select(any_true)])] == [("a",), ("c",)]


def test_rows_of_a_rule_without_a_key_leave_a_worker_as_one_for_each_window() -> None:
    limit = LimitComparison("n", 10, above=True)
    batch = pa.Table.from_batches([arrow(1, {"a": 11, "b": 20, "c": 1}), arrow(2, {"a": 1, "b": 2})])
    [joined] = batch.combine_chunks().to_batches()

    def select(*, takes_all: bool) -> list[tuple[int, bool, bool, Any]]:
        rule = SelectedRule("busy", (), ("n",), frozenset(), takes_all=takes_all, compared=limit)
        rows = read_rows([RowSelection([rule]).select(joined)])
        return [
            ((row.window - first) // 60_000_000, row.is_true, row.is_over, row.values["n"]) for row in rows
        ]

    first = int(NOON.timestamp()) * 1_000_000
    assert select(takes_all=True) == [(1, True, False, 20), (2, False, True, 2)]
    assert select(takes_all=False) == [(1, True, False, 20)]


def test_values_that_json_lacks_leave_as_what_it_has() -> None:
    columns = {
        "tag_city": pa.array([None, "x"], pa.string()),
        "tag_at": pa.array([NOON, None], pa.timestamp("us", "UTC")),
        "n": pa.array([float("nan"), 0.5], pa.float64()),
        "__window_end": pa.array([NOON, NOON], pa.timestamp("us", "UTC")),
        "__rule_0": pa.array([True, True]),
        "__rule_over_0": pa.array([False, False]),
    }
    rule = SelectedRule("r", ("tag_city", "tag_at"), ("n",), frozenset())

    rows = [*read_rows([RowSelection([rule]).select(pa.RecordBatch.from_pydict(columns))])]

    assert [row.key for row in rows] == [(None, "2026-11-29T12:00:00Z"), ("x", None)]
    assert [row.values for row in rows] == [{"n": None}, {"n": 0.5}]


def test_a_batch_that_is_repeated_observes_the_same_once(driver: RuleDriver) -> None:
    driver.batch(1, {"a": 11, "b": 1})
    driver.launch()  # killed before Spark committed: the batch comes again
    driver.batch(1, {"a": 11, "b": 1})
    driver.batch(2, {"a": 1, "b": 12})
    driver.launch()
    driver.batch(2, {"a": 1, "b": 12})
    driver.batch(3, {"b": 1})

    assert driver.kafka.turns == [
        ("FIRED", "a", 1), ("RESOLVED", "a", 2), ("FIRED", "b", 2), ("RESOLVED", "b", 3),
    ]  # fmt: skip


def test_what_kafka_did_not_take_comes_with_the_next_batch_or_launch(driver: RuleDriver) -> None:
    driver.kafka.away = True
    driver.batch(1, {"a": 11})
    driver.batch(2, {"a": 1})
    assert driver.kafka.observations == []

    driver.launch()
    driver.kafka.away = False
    driver.batch(3, {"a": 1})

    assert driver.kafka.turns == [("FIRED", "a", 1), ("RESOLVED", "a", 2)]


def test_rules_are_taken_between_batches_and_what_was_fired_is_over(
    driver: RuleDriver, tmp_path: Path
) -> None:
    file = tmp_path / "rules"
    driver.batch(1, {"a": 11})

    def give(revision: int, *rules: rules_pb2.AlertRule) -> None:
        file.unlink(missing_ok=True)
        message = rules_pb2.AlertRules(revision=revision, rules=rules)
        file.write_text(json_format.MessageToJson(message))
        driver.judge.take(file)

    give(2, rules_pb2.AlertRule(name="busy", when="wrong > 10"))
    give(1, QUIET)
    assert [rules.revision for rules in driver.revisions] == [1]  # refused, and too old
    give(3)
    driver.batch(2, {"a": 11})

    assert driver.kafka.turns == [("FIRED", "a", 1), ("RESOLVED", "a", 1)]
    assert [(rules.revision, len(rules.rules)) for rules in driver.revisions] == [(1, 1), (3, 0)]
    assert driver.kafka.observations[-1].revision == 3


def test_a_key_without_rows_fires_over_launches_and_not_for_windows_that_kafka_had_deleted(
    driver: RuleDriver,
) -> None:
    silent = rules_pb2.AlertRule(name="silent", absent=2 * MINUTE)
    lost = [Gap(NOON + 5 * MINUTE, NOON + 6 * MINUTE)]  # the windows that end in minute 6, and none else
    driver.launch(silent)
    driver.batch(1, {"a": 11, "b": 11})
    driver.launch(silent)
    driver.batch(2, {"b": 11})
    driver.batch(3, {"b": 11})
    driver.batch(4, {"a": 11, "b": 11})
    driver.batch(5, {"b": 11})
    driver.batch(6, {}, lost)
    driver.launch(silent)
    driver.batch(7, {"b": 11}, lost)
    driver.batch(8, {"b": 11}, lost)

    assert driver.kafka.turns == [("FIRED", "a", 3), ("RESOLVED", "a", 4), ("FIRED", "a", 8)]


def test_what_another_dagger_of_the_name_left_is_not_remembered(driver: RuleDriver) -> None:
    driver.batch(1, {"a": 11})
    driver.created = 9
    driver.launch()
    driver.kafka.observations.clear()
    driver.batch(2, {"a": 1})

    assert driver.kafka.turns == []


def test_a_dagger_without_rules_keeps_no_file(driver: RuleDriver, tmp_path: Path) -> None:
    driver.judge.put(2, (), ())
    driver.batch(1, {"a": 11})

    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("damaged", ["{", "[]", '{"created": 3, "memory": {}, "waiting": []}'])
def test_a_file_that_is_damaged_costs_what_is_remembered_and_not_the_driver(
    driver: RuleDriver, tmp_path: Path, damaged: str
) -> None:
    driver.batch(1, {"a": 11})
    (tmp_path / FILE).write_text(damaged)
    driver.launch()
    driver.batch(2, {"a": 12})

    assert driver.kafka.turns == [("FIRED", "a", 1), ("FIRED", "a", 2)]
