"""The wrapper: it leads a session, and writes down how its driver ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from services.scheduler.tests.scheduler_world import DEADLINE_S, there
from tests.cgroups import limited

from chassis import drivers, processes
from daggerspec.rundir import DriverIdentity
from scheduler.drivers.wrapper import _LOOK_MS

PYTHON = [sys.executable, "-c"]


def wrapped(run_dir: Path, *command: str) -> subprocess.Popen[bytes]:
    """A wrapper around a command, in a session of its own."""
    words = ["-P", "-m", "scheduler.drivers.wrapper", "--run-dir", str(run_dir)]
    words += ["--dagger", "d", "--generation", "7", "--"]
    return subprocess.Popen([sys.executable, *words, *command], start_new_session=True)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(0)", "0"),
        ("raise SystemExit(64)", "64"),
        ("import os; os.kill(os.getpid(), 9)", "-9"),
    ],
)
def test_the_exit_code_is_written_down(tmp_path: Path, program: str, code: str) -> None:
    wrapped(tmp_path, *PYTHON, program).wait(DEADLINE_S)

    assert (tmp_path / "exit-code").read_text() == f"{code}\n"


async def test_a_driver_that_the_kernel_killed_for_memory_is_told_from_one_that_somebody_killed(
    tmp_path: Path,
) -> None:
    program = (
        "import os, time; open('pid', 'w').write(str(os.getpid()));\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "kept = bytearray(os.urandom(64 * 2**20))"
    )
    for name in ("counted", "somebody"):
        (tmp_path / name).mkdir()
    hungry, killed = (wrapped(tmp_path / name, *PYTHON, program) for name in ("counted", "somebody"))
    for name in ("counted", "somebody"):
        await there(tmp_path / name / "pid")
    pids = [int((tmp_path / name / "pid").read_text()) for name in ("counted", "somebody")]
    twice_s = 2 * _LOOK_MS / 1000 + 1
    with limited([psutil.Process(pids[0])], 16 * 2**20, settle_s=twice_s) as kills:
        (tmp_path / "counted" / "go").touch()
        os.kill(pids[1], signal.SIGKILL)
        for wrapper in (hungry, killed):
            wrapper.wait(DEADLINE_S)
        counted = kills()
    files = [tmp_path / name / "killed-for-memory" for name in ("counted", "somebody")]

    assert [(file.parent / "exit-code").read_text() for file in files] == ["-9\n"] * 2
    assert counted > 0
    assert [file.exists() for file in files] == [True, False]


def test_the_code_of_a_launch_that_ended_before_the_others_of_its_process_stays(tmp_path: Path) -> None:
    (tmp_path / "members").mkdir()
    program = "open('exit-code', 'w').write('0'); raise SystemExit(69)"

    wrapped(tmp_path, *PYTHON, program).wait(DEADLINE_S)

    assert (tmp_path / "exit-code").read_text() == "0"


def test_a_program_that_cannot_be_started_has_an_exit_code_too(tmp_path: Path) -> None:
    wrapped(tmp_path, str(tmp_path / "nothing")).wait(DEADLINE_S)

    assert (tmp_path / "exit-code").read_text() == "127\n"


def test_the_driver_runs_in_its_directory_and_ignores_sigterm_until_it_says_otherwise(tmp_path: Path) -> None:
    program = "import signal; print(signal.getsignal(signal.SIGTERM).name, file=open('term', 'w'))"

    wrapped(tmp_path, *PYTHON, program).wait(DEADLINE_S)

    assert (tmp_path / "term").read_text() == "SIG_IGN\n"


async def test_sigterm_to_the_group_leaves_the_wrapper_alive_to_tell_the_end(tmp_path: Path) -> None:
    program = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {15}); signal.signal(15, lambda *_: None);"
        "open('ready', 'w').close(); signal.sigwait({15}); raise SystemExit(69)"
    )
    wrapper = wrapped(tmp_path, *PYTHON, program)
    await there(tmp_path / "ready")

    os.killpg(wrapper.pid, signal.SIGTERM)
    wrapper.wait(DEADLINE_S)

    assert (tmp_path / "exit-code").read_text() == "69\n"


def test_what_the_driver_leaves_behind_is_killed_before_the_exit_is_told(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys;"
        "left = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']);"
        "open('left', 'w').write(str(left.pid)); import os; os._exit(3)"
    )

    wrapped(tmp_path, *PYTHON, program).wait(DEADLINE_S)

    assert (tmp_path / "exit-code").read_text() == "3\n"
    assert processes.find(int((tmp_path / "left").read_text())) is None


def test_its_identity_stands_in_its_directory_before_the_driver_runs(tmp_path: Path) -> None:
    wrapper = wrapped(tmp_path, *PYTHON, "import shutil; shutil.copy('identity.json', 'seen.json')")
    ticks = processes.start_ticks(wrapper.pid)
    wrapper.wait(DEADLINE_S)

    assert (tmp_path / "seen.json").read_text() == (tmp_path / "identity.json").read_text()
    assert drivers.read(tmp_path) == DriverIdentity(
        dagger="d",
        generation=7,
        run_dir=str(tmp_path),
        boot_id=processes.boot_id(),
        pid=wrapper.pid,
        start_ticks=ticks or 0,
    )


def test_a_wrapper_that_cannot_say_which_driver_it_leads_starts_none(tmp_path: Path) -> None:
    (tmp_path / "identity.json").mkdir()

    wrapped(tmp_path, *PYTHON, "open('ran', 'w')").wait(DEADLINE_S)

    assert (tmp_path / "exit-code").read_text() == "127\n"
    assert not (tmp_path / "ran").exists()
