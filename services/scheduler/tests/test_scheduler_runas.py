"""Drivers of two teams run as two users: neither reads what the other has; the scheduler rules both."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from daggers.v1 import events_pb2, spec_pb2
from pydantic import ValidationError
from services.scheduler.tests.scheduler_world import until

from daggerspec import anew, rundir
from fleet.decide.observation import Presence
from scheduler.drivers import process_table, runas
from scheduler.drivers.process_table import Drivers
from scheduler.host import reader_process
from scheduler.settings import SchedulerSettings

USERS = "pricing=nobody delivery=daemon"
SYSTEM_PYTHON = "/usr/bin/python3"
"""That of the tests may be in a folder where another user may not go."""
PROGRAM = (
    "import pathlib, signal, sys, time\n"
    "pathlib.Path(sys.argv[1], 'state').write_text('a secret')\n"
    "pathlib.Path('tmp', 'rows').write_text('a secret')\n"
    "print('a secret', flush=True)\n"
    "while not pathlib.Path('stop').exists(): time.sleep(0.05)\n"
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process of another user")


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A state directory on a way that other users may go, unlike pytest's own."""
    with TemporaryDirectory(prefix="daggers-users-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


def job(ours: Drivers, name: str, team: str) -> spec_pb2.JobSpec:
    """A launch of a team's dagger."""
    checkpoints = ours.runs.parent / "checkpoints" / f"{name}-1"
    return spec_pb2.JobSpec(
        dagger=name,
        generation=5,
        spec={"team": team},
        run_dir=str(ours.run_dir(name, 5)),
        checkpoint_root=str(checkpoints),
        checkpoints={"root": str(checkpoints.parent)},
    )


def launched(ours: Drivers, name: str, team: str) -> events_pb2.DriverHandle:
    """Launch a driver that writes where drivers write, and runs until it is told to stop."""
    told = job(ours, name, team)
    return ours.start(told, [SYSTEM_PYTHON, "-c", PROGRAM, told.checkpoint_root], {"LC_ALL": "C.UTF-8"})


def readable(user: str, *files: Path) -> list[str]:
    """The files that a user can read."""
    program = "import os, sys\nfor name in sys.argv[1:]:\n    if os.access(name, os.R_OK): print(name)"
    entry = pwd.getpwnam(user)
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", program, *map(str, files)],
        cwd="/", user=entry.pw_uid, group=entry.pw_gid, extra_groups=(),
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.stdout.split()


@as_root
async def test_drivers_of_two_teams_are_two_users_and_the_scheduler_rules_both(state_dir: Path) -> None:
    ours = Drivers(state_dir / "runs", host="here", python=sys.executable, run_as=runas.parse(USERS))
    handles = {team: launched(ours, team, team) for team in ("pricing", "delivery")}
    try:
        written = {
            team: [
                *(
                    ours.run_dir(team, 5) / name
                    for name in (rundir.SPEC, rundir.LOG, "tmp/rows", rundir.IDENTITY)
                ),
                state_dir / "checkpoints" / f"{team}-1" / "state",
            ]
            for team in handles
        }
        everything = [file for files in written.values() for file in files]
        await until(lambda: all(file.exists() for file in everything), "they never wrote")
        members = {team: psutil.Process(handle.pid) for team, handle in handles.items()}
        uids = {
            team: {one.uids().effective for one in (leader, *leader.children(recursive=True))}
            for team, leader in members.items()
        }
        seen = {user: readable(user, *everything) for user in ("nobody", "daemon", "games")}
        adopting = Drivers(ours.runs, host="here", python=sys.executable, run_as=runas.parse(USERS))
        adopted = adopting.find("pricing", 5)
        adopting.allow_refusals(handles["pricing"].run_dir, datetime.now(UTC))
        allowed = readable("nobody", ours.run_dir("pricing", 5) / rundir.ALLOWED)
        adopting.drain(handles["pricing"])
        await until(lambda: ours.presence(handles["pricing"]) is Presence.GONE, "it was not drained")
        ended = ours.exit(handles["pricing"])
        adopting.kill(handles["delivery"])
        await until(lambda: killed(adopting, handles["delivery"]), "it was not killed")
    finally:
        for handle in handles.values():
            await until(lambda handle=handle: killed(ours, handle), "it lives on")

    assert uids == {"pricing": {pwd.getpwnam("nobody").pw_uid}, "delivery": {pwd.getpwnam("daemon").pw_uid}}
    assert seen == {
        "nobody": [str(file) for file in written["pricing"]],
        "daemon": [str(file) for file in written["delivery"]],
        "games": [],
    }
    assert (state_dir / "checkpoints" / anew.MARKER).read_text() == anew.MARKED
    assert adopted == handles["pricing"]
    assert len(allowed) == 1
    assert ended.code == 0


def killed(ours: Drivers, handle: events_pb2.DriverHandle) -> bool:
    """Kill a driver; whether nothing of it is left."""
    ours.kill(handle)
    return ours.presence(handle) is Presence.GONE


@as_root
def test_a_root_of_checkpoints_that_was_used_is_not_marked_by_who_finds_no_marker(state_dir: Path) -> None:
    process_table._mark(spec_pb2.CheckpointRoot(root=str(state_dir), used=True))
    assert not (state_dir / anew.MARKER).exists()

    process_table._mark(spec_pb2.CheckpointRoot(root=str(state_dir)))
    assert (state_dir / anew.MARKER).exists()


@as_root
async def test_what_reads_rows_of_a_users_launch_is_that_user(state_dir: Path) -> None:
    (user,) = runas.parse("pricing=nobody").by_team.values()
    runas.hand_over(state_dir / "own", user)
    says = "import os; print(os.getresuid(), os.getresgid(), sorted(os.getgroups()), os.environ['HOME'])"
    owner = runas.owner(state_dir / "own")
    async with reader_process.running((SYSTEM_PYTHON, "-c", says), state_dir / "own", {}, owner) as process:
        assert process.stdout is not None
        said = await process.stdout.read()

    groups = sorted({user.gid, *user.groups()})
    ids = [(uid,) * 3 for uid in (user.uid, user.gid)]
    assert said.decode() == f"{ids[0]} {ids[1]} {groups} {user.home}\n"
    assert runas.owner(state_dir) is None


@as_root
def test_checkpoints_that_root_wrote_become_the_users_and_links_lead_nowhere(state_dir: Path) -> None:
    (user,) = runas.parse("pricing=nobody").by_team.values()
    checkpoints, outside = state_dir / "checkpoints", state_dir / "outside"
    (checkpoints / "offsets").mkdir(parents=True)
    (checkpoints / "offsets" / "1").write_text("x")
    outside.write_text("root's")
    (checkpoints / "link").symlink_to(outside)
    for _ in range(2):  # again is no harm
        runas.hand_over(checkpoints, user)

    owners = {path.name: path.lstat().st_uid for path in (checkpoints, *checkpoints.rglob("*"))}
    assert owners == dict.fromkeys(("checkpoints", "offsets", "1", "link"), user.uid)
    assert outside.stat().st_uid == 0
    assert checkpoints.stat().st_mode & 0o777 == 0o700


@as_root
def test_a_user_who_cannot_run_drivers_is_named_with_what_stands_in_the_way(state_dir: Path) -> None:
    (user,) = runas.parse("pricing=nobody").by_team.values()
    closed = state_dir / "closed"
    closed.mkdir(mode=0o700)
    tree = state_dir / "packages" / "scheduler"  # the real one may be in a folder where nobody may go
    (tree / "drivers").mkdir(parents=True)
    (tree / "drivers" / "wrapper.py").touch()
    python = state_dir / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tree.parent} exec {SYSTEM_PYTHON} "$@"\n')
    python.chmod(0o755)

    assert runas.obstacle(user, state_dir, str(python), "/bin/true") == ""
    assert "Permission denied" in runas.obstacle(user, closed, str(python), "/bin/true")
    assert "No module named 'scheduler'" in runas.obstacle(user, state_dir, SYSTEM_PYTHON, "/bin/true")
    java = closed / "java"
    assert runas.obstacle(user, state_dir, str(python), str(java)) == (
        f"no driver can run as the user nobody ({java}): Permission denied; {closed} is closed to that user"
    )
    archive = closed / "classes.jsa"
    assert runas.obstacle(user, state_dir, str(python), "/bin/true", [archive]) == (
        f"no driver can run as the user nobody ({python}): PermissionError: [Errno 13] Permission denied:"
        f" '{archive}'; {closed} is closed to that user"
    )


@as_root
def test_what_is_closed_to_a_user_is_named_wherever_a_link_leads(state_dir: Path) -> None:
    (user,) = runas.parse("pricing=nobody").by_team.values()
    closed, link, file = state_dir / "closed", state_dir / "link", state_dir / "file"
    (closed / "python").mkdir(parents=True)
    link.symlink_to(closed / "python")
    file.touch(0o600)
    closed.chmod(0o700)

    assert runas.closed_to(user, link) == closed
    assert runas.closed_to(user, file) == file
    assert runas.closed_to(user, state_dir / "nothing") is None
    closed.chmod(0o711)
    assert runas.closed_to(user, link) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pricing", "must be TEAM=USER"),
        ("P!=nobody", "must be TEAM=USER"),
        ("pricing=nobody-of-that-name", "there is no user nobody-of-that-name"),
        ("pricing=root", "must not run as root"),
        ("pricing=nobody pricing=daemon", "named twice"),
    ],
)
def test_users_that_cannot_be_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        runas.parse(text)


def test_all_other_teams_may_have_a_user_of_theirs() -> None:
    users = runas.parse("pricing=nobody *=daemon")

    assert [users.user(team).name for team in ("pricing", "delivery", "")] == ["nobody", "daemon", "daemon"]
    assert not runas.parse("")
    assert runas.parse("").user("pricing") is None


def test_who_is_not_root_has_no_drivers_of_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ValidationError, match="needs a scheduler that runs as root"):
        SchedulerSettings(kafka_bootstrap_servers="k:1", state_dir=tmp_path, run_as="pricing=nobody")
