"""Over simulated nights no firing is lost, and none is told twice except across a crash."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.nights.night import FLOODED, OncallNight
from tests.nights.rules import RULES
from tests.nights.run import main

FAULTS = {
    "dagger stopped or started",
    "driver died before commit",
    "driver died before rest of send",
    "driver died before send",
    "driver died before store",
    "lead taken over",
    "monitor died before record",
    "monitor died before send",
    "monitor died before write",
    "monitor stood still before record",
    "monitor stood still before send",
    "monitor stood still before write",
    "receiver away",
    "receiver late",
    "receiver limits",
    "rules changed",
}
_SEEDS = (*range(1, 61), *range(1_001, 1_101), 2_127)
"""Seeds of which one misses the rarest of the rules."""


def test_thirty_nights_lose_nothing_and_repeat_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(seeds=30)

    last = capsys.readouterr().out.splitlines()[-1]
    found = re.fullmatch(r"seeds 1\.\.30: (\d+) faults, 0 violations", last)
    assert (code, bool(found)) == (0, True), last
    assert found is not None
    assert int(found[1]) > 300


def test_a_rule_that_is_true_of_more_than_a_thousand_keys_says_how_many_in_one_incident() -> None:
    night = OncallNight(FLOODED)

    assert night.is_flooded
    assert night.run() == []


@pytest.mark.long
def test_nights_have_every_fault_and_no_violation() -> None:
    faults, violations = set[str](), dict[int, list[str]]()
    for seed in range(1_000, 1_300):
        night = OncallNight(seed)
        if found := night.run():
            violations[seed] = found
        faults |= night.faults.keys()

    assert (faults, violations) == (FAULTS, {})


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_nights_miss_each_rule_that_is_taken_away(
    rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(monkeypatch)

    seeds = (FLOODED,) if RULES[rule] == "incidents of" else _SEEDS
    assert any(RULES[rule] in violation for seed in seeds for violation in OncallNight(seed).run())
