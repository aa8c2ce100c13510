"""Which of the slow tests `make test-long PART=` runs, tried on those of the simulation."""

import subprocess
import sys

import pytest


def collected(*options: str) -> tuple[int, str]:
    """Exit code of collecting, and what it says."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "tests/simulation", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("part", ["simulation", "all"])
def test_a_part_is_the_slow_tests_of_its_folder(part: str) -> None:
    code, said = collected("--part", part)

    assert code == 0
    named = {line.partition("::")[2].partition("[")[0] for line in said.splitlines() if "::" in line}
    assert named == {
        "test_nor_does_one_of_two_kills_and_two_outages",
        "test_a_rule_that_is_removed_is_missed",
        "test_ten_thousand_lives_of_every_fault_without_a_violation",
    }


@pytest.mark.parametrize("part", ["simulations", ""])
def test_an_unknown_part_is_an_error_that_lists_the_parts(part: str) -> None:
    code, said = collected("--part", part)

    assert code == pytest.ExitCode.USAGE_ERROR
    assert f"the slow tests have no part {part!r}, but these: all, simulation" in said
