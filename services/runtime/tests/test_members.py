"""A thread writes to the log of the launch that it works for, and all else to that of the process."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import pytest

from chassis import lastword, threads
from daggerspec import rundir
from runtime import members
from runtime.errors import JobError, external
from runtime.launch.member import Member
from runtime.spark.jvm import JvmWatch

DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget whom other tests have worked for in this thread."""
    for variable in ("_run_dir", "_served"):
        monkeypatch.setattr(members, variable, ContextVar(variable, default=None))


def test_threads_of_two_launches_write_to_their_own_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    both = threading.Barrier(2)

    def run(run_dir: Path) -> None:
        with members.join(run_dir):
            both.wait(DEADLINE_S)
            members.write(f"printed for {run_dir.name}\n")
            threads.start(partial(members.Output().write, f"logged for {run_dir.name}\n"), "x").join(
                DEADLINE_S
            )
            counts.append(members.count())
            both.wait(DEADLINE_S)

    counts: list[int] = []
    started = []
    for run_dir in (one, other):
        run_dir.mkdir()
        started.append(threads.start(partial(run, run_dir), run_dir.name))
    for thread in started:
        thread.join(DEADLINE_S)
    members.Output().write("of nobody\n")

    assert counts == [2, 2]
    assert members.count() == 1
    for run_dir in (one, other):
        expected = f"printed for {run_dir.name}\nlogged for {run_dir.name}\n"
        assert (run_dir / "driver.log").read_text() == expected
    assert capsys.readouterr() == ("", "of nobody\n")


def test_what_works_for_a_launch_that_has_ended_writes_to_the_log_of_the_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with members.join(tmp_path):
        pass
    with members.working_for(tmp_path):
        members.Output().write("late\n")

    assert capsys.readouterr().err == "late\n"
    assert (tmp_path / "driver.log").read_text() == ""


def test_a_full_disk_has_lines_go_to_the_log_of_the_process_and_ends_no_launch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "driver.log").symlink_to("/dev/full")
    with members.join(tmp_path):
        members.Output().write("logged\n")
        members.Output().flush()
        members.write("printed\n")

    assert capsys.readouterr() == ("printed\n", "logged\n")


def test_the_first_member_of_a_process_is_so_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "_firsts", [])
    firsts = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        with members.join(tmp_path / name):
            firsts.append(members.is_first())

    assert (firsts, members.is_first()) == ([True, False], True)


def test_a_worker_writes_to_the_log_of_the_launch_whose_task_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, output = tmp_path / "driver.log", members.Output()

    def work() -> None:
        members.serve(str(tmp_path))
        output.write("nowhere\n")
        log.touch()
        output.write("of its launch\n")
        members.serve("")
        output.write("of nobody\n")

    threads.start(work, "worker").join(DEADLINE_S)

    assert log.read_text() == "of its launch\n"
    assert capsys.readouterr().err == "nowhere\nof nobody\n"


def test_the_last_word_of_a_process_is_in_the_directory_that_it_works_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with members.in_step("dagger", 7, "compute"):
        assert lastword.read(tmp_path) == ()  # nobody made the file: it is no driver's process
    lastword.create(tmp_path)
    with members.in_step("dagger", 7, "compute"):
        assert lastword.read(tmp_path) == (lastword.LastWord("dagger", 7, "compute"),)
    with pytest.raises(JobError), members.in_step("dagger", 7, "commit"):
        raise external("SINK_AWAY", "It is away.")

    assert lastword.read(tmp_path) == ()


class GoneJvm(JvmWatch):
    """A JVM that is gone."""

    def is_gone(self) -> bool:
        return True


@pytest.mark.parametrize(("jvm", "has_code"), [(GoneJvm, False), (JvmWatch, True)])
def test_a_member_that_fails_with_the_jvm_leaves_no_exit_code(
    tmp_path: Path, jvm: type[JvmWatch], has_code: bool
) -> None:
    ended = threading.Event()
    member = Member(tmp_path, 7, lambda: pytest.fail("it has no spec"), jvm())
    member.start(ended=ended.set)

    assert ended.wait(DEADLINE_S)
    assert (tmp_path / rundir.EXIT).exists()
    assert (tmp_path / rundir.EXIT_CODE).exists() is has_code
