"""Two checkouts on one machine: each takes its own stack, and asks before it stops the other's."""

import json
from pathlib import Path

import pytest

from cli.__main__ import run
from cli.errors import UnreachableError
from devstack import processes, remembered, state
from devstack.extension import Devstack
from devstack.processes import StackProcess
from devstack.up import plan


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's folder for state."""
    return tmp_path / "state"


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """The virtual environment of one checkout."""
    return _folder(tmp_path / "ours" / ".venv")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """That of another one."""
    return _folder(tmp_path / "theirs" / ".venv")


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def _started(folder: Path, home: Path, installation: Path) -> Path:
    """A stack that was started by the command of an installation."""
    folder.mkdir(parents=True)
    state.save(plan(folder, None, installation=installation))
    remembered.remember(home, folder, installation)
    return folder


def _started_long_ago(folder: Path, home: Path) -> Path:
    """A stack of a version that knew of no installations."""
    folder.mkdir(parents=True)
    state.save(plan(folder, None))
    raw = json.loads((folder / state.FILE).read_text())
    del raw["installation"]
    (folder / state.FILE).write_text(json.dumps(raw))
    (home / "daggers").mkdir(parents=True, exist_ok=True)
    (home / "daggers" / "last-stack.json").write_text(json.dumps({"state_dir": str(folder)}))
    return folder


def test_each_installation_takes_the_stack_that_it_started(
    tmp_path: Path, home: Path, ours: Path, theirs: Path
) -> None:
    mine = _started(tmp_path / "mine", home, ours)
    other = _started(tmp_path / "other", home, theirs)

    assert (remembered.last(home, ours), remembered.last(home, theirs)) == (mine, other)


def test_two_installations_share_no_usual_directory(home: Path, ours: Path, theirs: Path) -> None:
    usual = {remembered.resolve_state_dir(None, home, installation) for installation in (ours, theirs)}

    assert len(usual) == 2


def test_whoever_started_none_does_not_take_anothers_and_hears_of_it(
    tmp_path: Path, home: Path, ours: Path, theirs: Path
) -> None:
    other = _started(tmp_path / "other", home, theirs)

    assert remembered.last(home, ours) is None
    assert remembered.resolve_state_dir(None, home, ours) != other
    with pytest.raises(UnreachableError, match=rf"no stack was started from {ours}.*{other} is of {theirs}"):
        Devstack(ours).gateway(None, home)


def test_a_stack_from_before_is_found_until_an_installation_starts_it(
    tmp_path: Path, home: Path, ours: Path, theirs: Path
) -> None:
    old = _started_long_ago(tmp_path / "old", home)
    before = [remembered.last(home, installation) for installation in (ours, theirs)]
    state.save(plan(old, None, installation=ours))
    remembered.remember(home, old, ours)

    assert before == [old, old]
    assert [remembered.last(home, installation) for installation in (ours, theirs)] == [old, None]


def test_the_usual_directory_from_before_is_still_used(home: Path, ours: Path) -> None:
    old = _started_long_ago(home / "daggers" / "local", home)
    (home / "daggers" / "last-stack.json").unlink()

    assert remembered.resolve_state_dir(None, home, ours) == old


def test_the_stack_of_an_installation_that_is_gone_is_anybodys(
    tmp_path: Path, home: Path, ours: Path
) -> None:
    left = _started(tmp_path / "left", home, tmp_path / "removed" / ".venv")

    assert remembered.last(home, ours) == left


def test_a_stack_whose_files_are_gone_stays_its_installations(
    tmp_path: Path, home: Path, ours: Path, theirs: Path
) -> None:
    other = _started(tmp_path / "other", home, theirs)
    (other / state.FILE).unlink()

    assert (remembered.last(home, ours), remembered.last(home, theirs)) == (None, other)


def _running(folder: Path, installation: Path) -> StackProcess:
    """A process that runs in a stack of an installation's."""
    folder.mkdir()
    stack = plan(folder, None, installation=installation)
    log = folder / "logs" / "kafka.log"
    process = processes.start("kafka", ["sleep", "60"], stack=folder, log=log, env={})
    state.save(stack.with_process(process))
    return process


def test_a_stack_of_another_installation_is_not_stopped_unasked(
    tmp_path: Path,
    home: Path,
    theirs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    folder = tmp_path / "other"
    process = _running(folder, theirs)

    refused = run(["--state-dir", str(folder), "local", "down"], Devstack())
    still, said = process.alive(), capsys.readouterr().err
    agreed = run(["--state-dir", str(folder), "local", "down", "--yes"], Devstack())

    assert (refused, still, agreed, process.alive()) == (1, True, 0, False)
    assert f"the stack in {folder} was started from {theirs}: `--yes` stops it all the same" in said


def test_ones_own_stack_is_stopped_without_a_question(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    process = _running(tmp_path / "mine", remembered.INSTALLATION)

    assert run(["--state-dir", str(tmp_path / "mine"), "local", "down"], Devstack()) == 0
    assert not process.alive()
