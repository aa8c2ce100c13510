"""The simulation can fail: each of twenty rules is missed, by the check that knows it, if taken away."""

import pytest
from tests.simulation.rules import REMOVED
from tests.simulation.run import live
from tests.simulation.witness import Violation

SEEDS = 2_000


def find_violation(seed: int, faulty_s: float) -> str:
    """Live through a seed; how an invariant was violated, empty when none was."""
    try:
        live(seed, faulty_s=faulty_s)
    except Violation as error:
        return str(error).splitlines()[0]
    return ""


@pytest.mark.parametrize("rule", REMOVED)
@pytest.mark.long
def test_a_rule_that_is_removed_is_missed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = REMOVED[rule]
    removed.remove(monkeypatch)

    violations = (find_violation(seed, removed.faulty_s) for seed in range(1, SEEDS + 1))
    missed = next((violation for violation in violations if removed.check in violation), None)

    assert missed is not None
