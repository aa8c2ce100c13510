"""The services in a simulated world: nothing doubles, nothing lies, nothing is forgotten."""

import os
import re
import subprocess
import sys

import pytest
from tests.simulation.run import main

FAULTS = {
    "Kafka away",
    "Spark UI away",
    "Spark UI broken",
    "Spark UI hung",
    "Spark UI of another",
    "acknowledgement lost",
    "database away",
    "driver died",
    "driver hung",
    "driver lied",
    "driver mute",
    "driver silent",
    "driver's clock jumped",
    "gateway killed",
    "host filled",
    "host rebooted",
    "host split",
    "host vanished",
    "monitor killed",
    "receiver failed",
    "record doubled",
    "record late",
    "scheduler killed",
    "scheduler paused",
}


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


def test_forty_lives_full_of_faults_without_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(seeds=40)

    last = capsys.readouterr().out.splitlines()[-1]
    found = re.fullmatch(r"seeds 1\.\.40: (\d+) faults, 0 violations", last)
    assert (code, bool(found)) == (0, True), last
    assert int(found[1]) > 1000


@pytest.mark.parametrize("seed", [1923, 6105], ids="a leader comes to the host of a replay: {}".format)
def test_a_life_in_which_something_was_wrong_once(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(seeds=1, first=seed) == 0, capsys.readouterr().out


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_ten_thousand_lives_of_every_fault_without_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(seeds=10_000, first=41, processes=os.cpu_count() or 1)

    told = capsys.readouterr().out
    *kinds, _ = told.splitlines()
    assert (code, FAULTS - {kind.partition(":")[0] for kind in kinds}) == (0, set()), told
