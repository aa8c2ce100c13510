"""Whether a host is overloaded, by what the kernel counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from chassis.pressure import Pressure, measure


def counted(folder: Path, load: float = 0.5, group: str = "", **shares: float) -> Pressure:
    """What is measured where the kernel counts these shares of a host, or of a control group."""
    files = folder / "cgroup" / "jobs" if group else folder / "proc" / "pressure"
    files.mkdir(parents=True)
    (folder / "proc" / "self").mkdir(parents=True, exist_ok=True)
    (folder / "proc" / "self" / "cgroup").write_text("4:memory:/old\n0::/jobs\n")
    (folder / "proc" / "loadavg").write_text(f"{load:.2f} 0.10 0.10 2/300 4711\n")
    for kind, share in shares.items():
        name = f"{kind}.pressure" if group else kind
        lines = [f"{line} avg10=0.00 avg60={share:.2f} avg300=0.00 total=1" for line in ("some", "full")]
        (files / name).write_text("\n".join(lines))
    return measure(folder / "proc", folder / "cgroup", 2)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"cpu": 60.0, "memory": 1.0, "io": 30.0}, ""),
        ({"cpu": 91.0}, "tasks waited for a processor 91 % of the last minute"),
        ({"cpu": 10.0, "memory": 44.0}, "tasks waited for memory 44 % of the last minute"),
        ({"cpu": 10.0, "io": 80.0}, "all tasks waited for a disk 80 % of the last minute"),
    ],
)
def test_a_host_whose_tasks_wait_is_overloaded(tmp_path: Path, shares: dict[str, float], words: str) -> None:
    told = counted(tmp_path, load=90.0, **shares).overload

    assert told == (f"the host is overloaded: {words}" if words else "")


def test_a_control_group_that_is_throttled_is_overloaded_on_a_host_that_is_not(tmp_path: Path) -> None:
    assert "a processor 88 %" in counted(tmp_path, group="jobs", cpu=88.0).overload


@pytest.mark.parametrize(("load", "words"), [(7.0, ""), (9.0, "4.5 tasks for each processor want to run")])
def test_where_waiting_is_not_counted_the_run_queue_is(tmp_path: Path, load: float, words: str) -> None:
    told = counted(tmp_path, load=load).overload

    assert told == (f"the host is overloaded: {words}" if words else "")


def test_a_host_that_tells_nothing_is_not_overloaded(tmp_path: Path) -> None:
    assert measure(tmp_path, tmp_path).overload == ""


def test_this_host_can_be_measured() -> None:
    assert measure().runnable > 0
