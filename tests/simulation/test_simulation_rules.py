"""The simulation can fail: each of seventeen rules is missed within 2,000 seeds when it is taken away."""

import pytest
from tests.simulation.rules import REMOVED
from tests.simulation.run import live
from tests.simulation.witness import Violation

SEEDS = 2_000


def survived(seed: int, faulty_s: float) -> bool:
    """Whether no invariant was violated in this life."""
    try:
        live(seed, faulty_s=faulty_s)
    except Violation:
        return False
    return True


@pytest.mark.parametrize("rule", REMOVED)
@pytest.mark.long
def test_a_rule_that_is_removed_is_missed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = REMOVED[rule]
    removed.remove(monkeypatch)

    seeds = range(1, SEEDS + 1)
    missed = next((seed for seed in seeds if not survived(seed, removed.faulty_s)), None)

    assert missed is not None
