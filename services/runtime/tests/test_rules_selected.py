"""Batches of several windows: rules say the same, however windows are divided into batches and partitions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from daggers.v1 import rules_pb2
from services.runtime.tests.rule_driver import BUSY, MINUTE, NOON, RuleDriver, arrow

from runtime.rules.selection import MOST_PACKED


@pytest.fixture
def driver(tmp_path: Path) -> RuleDriver:
    return RuleDriver(tmp_path)


@pytest.mark.parametrize(("most_packed", "computed_again"), [(MOST_PACKED, 0), (0, 1), (1_000, 1)])
def test_a_key_fires_and_is_over_in_one_batch_whose_rows_are_in_several_partitions(
    driver: RuleDriver, most_packed: int, computed_again: int
) -> None:
    driver.batch(1, {"a": 11, "b": 1})
    windows = [
        {"a": 1, "b": 12, "c": 1, "d": None},
        {"a": 12, "b": 2, "c": 12, "d": 1},
        {"a": 13, "b": 1, "c": 3, "d": 2},
    ]
    parts = [arrow(minute, rows, 2) for minute, rows in enumerate(windows, 2)]

    driver.batches(parts, NOON + 4 * MINUTE, most_packed=most_packed)

    assert driver.computed_again == computed_again
    assert driver.kafka.turns == [
        ("FIRED", "a", 1), ("RESOLVED", "a", 2), ("FIRED", "b", 2),
        ("FIRED", "a", 3), ("RESOLVED", "b", 3), ("FIRED", "c", 3), ("RESOLVED", "c", 4),
    ]  # fmt: skip


def test_a_batch_of_several_windows_is_computed_once_while_only_active_keys_are_true(
    driver: RuleDriver,
) -> None:
    driver.batch(1, {"a": 11})

    driver.batches([arrow(2, {"a": 12}), arrow(3, {"a": 1, "b": 2})], NOON + 3 * MINUTE, most_packed=0)

    assert driver.computed_again == 0
    assert driver.kafka.turns == [("FIRED", "a", 1), ("RESOLVED", "a", 3)]


@pytest.mark.parametrize("most_packed", [MOST_PACKED, 0])
@pytest.mark.parametrize("seed", range(5))
def test_how_windows_are_divided_into_batches_changes_no_turn(
    tmp_path: Path, seed: int, most_packed: int
) -> None:
    chance = random.Random(seed)
    rules = [
        BUSY, rules_pb2.AlertRule(name="quiet", when="n < 3", for_windows=2),
    ]  # fmt: skip
    windows = [
        {city: chance.choice((1, 5, 11, None)) for city in "abcdef" if chance.random() < 0.8}
        for _ in range(40)
    ]
    parts = [arrow(minute, rows, 2) for minute, rows in enumerate(windows, 1)]
    single, divided = RuleDriver(tmp_path / "single"), RuleDriver(tmp_path / "divided")
    for one in (single, divided):
        one.folder.mkdir()
        one.launch(*rules)
    for minute, part in enumerate(parts, 1):
        single.batches([part], NOON + minute * MINUTE)

    begin = 0
    while begin < len(parts):
        end = min(begin + chance.randint(1, 9), len(parts))
        in_workers = parts[begin:end]
        chance.shuffle(in_workers)
        divided.batches(in_workers, NOON + end * MINUTE, most_packed=most_packed)
        divided.launch(*rules)
        begin = end

    assert divided.kafka.turns == single.kafka.turns
    assert len(single.kafka.turns) > 40
