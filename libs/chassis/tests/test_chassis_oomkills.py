"""A kill for memory is known by the count of the kernel, and by that of the right control group alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chassis.oomkills import KillCount, OomKills, RecentKills


def write_count(file: Path, number: int) -> None:
    """Write a count as the kernel does."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"low 0\noom 3\noom_kill {number}\noom_group_kill 0\n")


def test_kills_of_another_group_are_not_those_of_this_one() -> None:
    before = KillCount(Path("a"), 1)

    assert KillCount(Path("a"), 3).since(before) == 2
    assert KillCount(Path("b"), 3).since(before) == 0
    assert KillCount(Path("a"), 0).since(before) == 0


def test_a_process_without_a_group_of_its_own_is_counted_with_its_host(tmp_path: Path) -> None:
    host = tmp_path / "vmstat"
    write_count(host, 7)

    assert OomKills(os.getpid(), groups=tmp_path / "none", host=host).read() == KillCount(host, 7)
    assert OomKills(os.getpid(), groups=tmp_path, host=tmp_path / "none").read().number == 0


@pytest.mark.parametrize("name", ["memory/memory.oom_control", "memory.events"])
def test_a_container_is_counted_where_its_groups_are_mounted(tmp_path: Path, name: str) -> None:
    write_count(tmp_path / name, 2)
    kills = OomKills(os.getpid(), groups=tmp_path, host=tmp_path / "vmstat")

    assert kills.read() == KillCount(tmp_path / name, 2)


def test_a_process_that_is_gone_is_counted_where_it_was(tmp_path: Path) -> None:
    write_count(tmp_path / "vmstat", 1)
    kills = OomKills(2**22 + 1, groups=tmp_path, host=tmp_path / "vmstat")

    assert kills.read().number == 1


def test_kills_before_the_look_before_the_last_one_are_of_others() -> None:
    numbers = iter((1, 2, 3, 3))
    kills = RecentKills(lambda: KillCount(Path("a"), next(numbers)))
    kills.look()
    kills.look()

    assert kills.count() == 1


def test_the_kernel_counts_for_this_process() -> None:
    count = OomKills(os.getpid()).read()

    assert count.number >= 0
    assert count.file.is_file()
