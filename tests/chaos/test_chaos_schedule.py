"""The faults of a chaos run come from its seed alone."""

import subprocess
import sys

import pytest
from tests.chaos.faults import HITS
from tests.chaos.schedule import AWAY_S, HOSTS, KINDS, LASTS_S, OF_HOSTS, schedule

SEEDS = range(1, 51)


def test_the_same_seed_gives_the_same_faults_whatever_the_hash_seed() -> None:
    script = "from tests.chaos.schedule import schedule; print(schedule(7, 10))"
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }  # fmt: skip

    assert told == {str(schedule(7, 10))}


def test_another_seed_gives_other_faults() -> None:
    assert len({str(schedule(seed, 2)) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("minutes", [1, 2, 60])
def test_rounds_follow_one_another_and_end_in_time(minutes: int) -> None:
    rounds = [schedule(seed, minutes) for seed in SEEDS]

    for run in rounds:
        ends = [0.0, *(step.at_s + step.lasts_s for step in run)]
        assert len(run) >= minutes
        assert ends[-1] <= minutes * 60
        assert all(end < each.at_s for end, each in zip(ends, run, strict=False))


def test_nothing_is_hit_twice_at_once() -> None:
    for seed in SEEDS:
        for each in schedule(seed, 60):
            hit = [fault.target.partition("/")[0] for fault in each.faults]

            assert len(hit) == len(set(hit)) > 0


def test_an_hour_has_every_fault_there_is_and_the_longest_of_all() -> None:
    wanted = {(kind, target) for kind, targets in KINDS.items() for target in targets}
    for seed in SEEDS:
        run = schedule(seed, 60)

        assert {(fault.kind, fault.target) for step in run for fault in step.faults} == wanted
        assert max(step.lasts_s for step in run) == max(LASTS_S)


def test_two_minutes_have_most_kinds() -> None:
    kinds = [{fault.kind for each in schedule(seed, 2) for fault in each.faults} for seed in SEEDS]

    assert min(map(len, kinds)) >= len(KINDS) / 2


def test_every_kind_is_something_that_can_be_done() -> None:
    assert HITS.keys() == KINDS.keys() | OF_HOSTS.keys()


def test_an_hour_with_two_hosts_kills_each_and_leaves_some_away_until_they_are_given_up() -> None:
    for seed in SEEDS:
        faults = [fault for step in schedule(seed, 60, hosts=2) for fault in step.faults]
        killed = [fault for fault in faults if fault.kind == "host killed"]

        assert {fault.kind for fault in faults} == OF_HOSTS.keys()
        assert {fault.target for fault in killed} == set(HOSTS)
        assert {fault.amount for fault in killed} == set(AWAY_S)
        assert len(killed) >= 8
