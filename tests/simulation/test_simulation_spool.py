"""The design of a spool holds in every order of its steps, and each of its rules is needed."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from tests.simulation.spool import BrokenError, Rules, Setting, explore


@pytest.mark.parametrize("skips", [False, True], ids=["waits", "skips"])
def test_no_order_of_a_kill_an_outage_an_edit_a_move_and_a_replay_loses_or_turns_a_row(skips: bool) -> None:
    assert explore(Setting(skips=skips)) > 10_000


@pytest.mark.long
@pytest.mark.parametrize("skips", [False, True], ids=["waits", "skips"])
def test_nor_does_one_of_two_kills_and_two_outages(skips: bool) -> None:
    assert explore(Setting(skips=skips, kills=2, outages=2)) > 100_000


@pytest.mark.parametrize("rule", [rule.name for rule in fields(Rules)])
def test_without_any_of_its_rules_it_does_not_hold(rule: str) -> None:
    without = replace(Rules(), **{rule: False})

    with pytest.raises(BrokenError):
        explore(Setting(rules=without, skips=rule == "oldest_aside"))
