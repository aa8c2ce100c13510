"""The simulation can fail: each of 23 rules is missed, by the check that knows it, if taken away."""

import pytest
from tests.simulation.rules import REMOVED, Rule
from tests.simulation.run import live
from tests.simulation.witness import Violation

SEEDS = 2_000


def find_violation(seed: int, rule: Rule) -> str:
    """Live through a seed; how an invariant was violated, empty when none was."""
    try:
        live(seed, faulty_s=rule.faulty_s, kind=rule.life)
    except Violation as error:
        return str(error).splitlines()[0]
    return ""


@pytest.mark.parametrize("rule", REMOVED)
@pytest.mark.long
def test_a_rule_that_is_removed_is_missed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = REMOVED[rule]
    removed.remove(monkeypatch)

    violations = (find_violation(seed, removed) for seed in range(1, SEEDS + 1))
    missed = next((violation for violation in violations if removed.check in violation), None)

    assert missed is not None
