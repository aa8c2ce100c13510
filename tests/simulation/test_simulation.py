"""The services in a simulated world: nothing doubles, nothing lies, nothing is forgotten."""

import subprocess
import sys
from collections import Counter

import pytest
from tests.simulation.run import live, main


def test_the_same_seed_is_the_same_life_whatever_the_hash_seed() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation.run", "3", "11"],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert told[0] == told[1]


def test_two_hundred_lives_without_a_violation() -> None:
    assert main(seeds=200) == 0


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_ten_thousand_lives_without_a_violation() -> None:
    assert main(seeds=10_000, first=201) == 0


def test_every_kind_of_fault_happens() -> None:
    faults = sum((live(seed) for seed in range(1, 31)), Counter())

    assert {"scheduler killed", "scheduler paused", "record doubled", "host vanished"} <= set(faults)
