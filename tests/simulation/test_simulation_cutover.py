"""A cutover writes each window once, whoever is killed at whatever step; and each of its rules is needed."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation.cutover import WINDOWS, Rules, judged, walk


def test_no_window_is_missing_or_written_twice_in_any_order_of_steps_and_kills() -> None:
    states, way = walk(Rules())

    assert way == []
    assert len(states) > 1_000


def test_without_a_kill_both_write_and_neither_begins_anew() -> None:
    states, _ = walk(Rules())
    ends = [state for state in states if state.handed and not state.kills and len(state.rows) == WINDOWS]

    assert {who for end in ends for _, who in end.rows} == {"old", "new"}


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        (Rules(proof=False), "a window is written by two generations"),
        (Rules(held=False), "a window is missing in the end"),
        (Rules(fence=False), "a window is written by two generations"),
    ],
    ids=["proof", "held", "fence"],
)
def test_without_one_of_its_rules_a_cutover_is_wrong(rules: Rules, wrong: str) -> None:
    _, way = walk(rules)

    assert way[-1:] == [wrong]


def test_the_fold_takes_each_fact_of_the_protocol_and_none_that_breaks_it() -> None:
    outcomes = Counter(judged())
    wrong = [outcome for outcome in outcomes if outcome[1] != outcome[2]]

    assert wrong == []
    assert {step for step, allowed, _ in outcomes if not allowed} == {"CutoverHanded", "LaunchIntended"}
    assert min(outcomes.values()) > 10
