"""Rules of a launch: what leaves workers, and what is sent over repeated batches, edits and outages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import rules_pb2
from google.protobuf import json_format
from services.runtime.tests.rule_driver import MINUTE, NOON, QUIET, RuleDriver, arrow

from daggersql.rules.compiled import LimitComparison
from runtime.rules.rules_file import FILE
from runtime.rules.selected import read_rows
from runtime.rules.selection import RowSelection, SelectedRule
from runtime.source.status import Gap


@pytest.fixture
def driver(tmp_path: Path) -> RuleDriver:
    return RuleDriver(tmp_path)


def test_only_rows_that_say_something_leave_a_worker() -> None:
    batch = arrow(1, {"a": 11, "b": 1, "c": 2, "d": None})

    def pass_on(*active: str) -> list[tuple[str | None, ...]]:
        rule = SelectedRule("busy", ("tag_city",), ("n",), frozenset((one,) for one in active))
        return [row.key for row in read_rows(RowSelection([rule]).select(batch))]

    assert pass_on() == [("a",)]
    assert pass_on("c", "d", "e") == [("a",), ("c",), ("d",)]
    assert (
        RowSelection([SelectedRule("busy", ("tag_city",), ("n",), frozenset())]).select(arrow(1, {"b": 1}))
        == []
    )


def test_a_rule_that_is_true_of_every_row_fills_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.rules.selection.MOST_KEYS", 2)
    selection = RowSelection([SelectedRule("busy", ("tag_city",), ("n",), frozenset({("x",), ("y",)}))])
    contents = [
        content
        for minute in (1, 2)
        for content in selection.select(arrow(minute, {"a": 11, "b": 12, "c": 13, "x": 14, "y": 1}))
    ]

    assert [row.key for row in read_rows(contents)] == [("a",), ("b",), ("x",), ("y",)] * 2


def test_rows_of_a_rule_without_a_key_leave_a_worker_as_one_for_each_window() -> None:
    limit = LimitComparison("n", 10, above=True)
    batch = pa.Table.from_batches([arrow(1, {"a": 11, "b": 20, "c": 1}), arrow(2, {"a": 1, "b": 2})])
    [joined] = batch.combine_chunks().to_batches()

    def select(*, takes_all: bool) -> list[tuple[int, bool, bool, Any]]:
        rule = SelectedRule("busy", (), ("n",), frozenset(), takes_all=takes_all, compared=limit)
        rows = read_rows(RowSelection([rule]).select(joined))
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

    rows = [*read_rows(RowSelection([rule]).select(pa.RecordBatch.from_pydict(columns)))]

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
