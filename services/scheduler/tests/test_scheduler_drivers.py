"""Processes and directories: who is ours, who is somebody else, what may be removed."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, rules_pb2, spec_pb2
from services.scheduler.tests.scheduler_world import until

from chassis import lastword, processes
from daggerspec import checkpointroot, exits, rundir
from daggerspec.catalogue import UnresolvedName
from daggerspec.rundir import DriverIdentity
from eventlog.testing import START, given
from fleet import Fleet
from fleet.decide.observation import Presence
from fleet.fold.phases import DELETED
from scheduler.drivers import retention
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.sweep import is_orphan

META = events_pb2.RequestMeta(actor="ada")
LATER = START + timedelta(days=2)
ALONE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def drivers(tmp_path: Path) -> Drivers:
    return Drivers(tmp_path / "runs", host="here", python=sys.executable)


def started(of: Drivers, program: str = "import signal; signal.pause()") -> events_pb2.DriverHandle:
    job = spec_pb2.JobSpec(dagger="d", generation=5, run_dir=str(of.run_dir("d", 5)))
    words = [sys.executable, "-c", program, "--spec", f"{job.run_dir}/spec.pb", "--generation", "5"]
    return of.start(job, words, {"LC_ALL": "C.UTF-8"})


def killed(ours: Drivers, handle: events_pb2.DriverHandle) -> bool:
    """Kill it, and what was just being forked at the last call; whether nothing of it is left."""
    ours.kill(handle)
    return ours.presence(handle) is Presence.GONE


async def test_a_driver_is_known_by_its_process_and_found_by_its_identity(tmp_path: Path) -> None:
    ours = drivers(tmp_path)
    handle = started(ours)
    try:
        assert ours.presence(handle) is Presence.ALIVE
        assert os.getsid(handle.pid) == handle.pid
        await until(lambda: ours.find("d", 5) is not None, "its wrapper never said who it is")
        assert ours.find("d", 5) == handle
        assert [(dagger.dagger, dagger.generation) for dagger in ours.living()] == [("d", 5)]
        assert ours.find("d", 6) is None
        assert drivers(tmp_path / "other").living() == []
    finally:
        await until(lambda: killed(ours, handle), "it lives on")

    assert ours.find("d", 5) is None


@pytest.mark.parametrize("name", ["../d", "/tmp/d", "a/b", "..", "", "d\n", "D"])
def test_a_name_of_the_log_that_leads_elsewhere_is_no_directory(tmp_path: Path, name: str) -> None:
    ours = drivers(tmp_path)
    job = spec_pb2.JobSpec(dagger=name, generation=5)
    with pytest.raises(UnresolvedName, match="cannot be the name"):
        ours.start(job, [sys.executable, "-c", ""], {})

    assert ours.find(name, 5) is None
    assert ours.build_lost_handle(name, 5).run_dir == ""
    assert list(tmp_path.rglob("*")) == []


async def test_a_driver_whose_wrapper_was_killed_still_lives(tmp_path: Path) -> None:
    ours = drivers(tmp_path)
    handle = started(ours)
    await until(lambda: len(processes.session(handle.pid)) == 2, "its program never started")

    os.kill(handle.pid, 9)
    await until(lambda: processes.find(handle.pid) is None, "its wrapper lives on")

    assert ours.presence(handle) is Presence.ALIVE
    assert ours.find("d", 5).pid == handle.pid
    await until(lambda: killed(ours, handle), "it lives on")


@pytest.mark.parametrize("killed_wrapper", [False, True])
async def test_a_driver_of_an_older_version_is_found_by_the_next_scheduler_and_kept_by_its_identity(
    tmp_path: Path, killed_wrapper: bool
) -> None:
    before = drivers(tmp_path)
    handle = started(before)
    await until(lambda: len(processes.session(handle.pid)) == 2, "its program never started")
    (before.run_dir("d", 5) / "identity.json").unlink()  # as its wrapper did not write any
    if killed_wrapper:
        os.kill(handle.pid, 9)
        await until(lambda: processes.find(handle.pid) is None, "its wrapper lives on")
    unfound = before.find("d", 5)

    ours = drivers(tmp_path)
    try:
        found = ours.find("d", 5)

        assert unfound is None
        assert found is not None
        assert (found.pid, found.run_dir) == (handle.pid, handle.run_dir)
        assert ours.presence(found) is ours.presence(handle) is Presence.ALIVE
        assert [(dagger.dagger, dagger.generation) for dagger in before.living()] == [("d", 5)]
    finally:
        await until(lambda: killed(ours, handle), "it lives on")

    assert ours.living() == []


def test_a_process_that_was_given_the_pid_later_is_not_the_driver(tmp_path: Path) -> None:
    ours, me = drivers(tmp_path), processes.find(os.getpid())
    handle = events_pb2.DriverHandle(
        host="here", boot_id=processes.boot_id(), pid=me.pid, start_ticks=me.start_ticks - 1, run_dir="/r"
    )

    ours.kill(handle)
    ours.drain(handle)

    assert ours.presence(handle) is Presence.GONE


def test_another_boot_is_proof_of_death_and_another_host_is_none(tmp_path: Path) -> None:
    me = processes.find(os.getpid())
    before_boot = events_pb2.DriverHandle(host="here", boot_id="x", pid=me.pid, start_ticks=me.start_ticks)
    elsewhere = events_pb2.DriverHandle(host="there", boot_id="x", pid=me.pid)

    assert drivers(tmp_path).presence(before_boot) is Presence.GONE
    assert drivers(tmp_path).presence(elsewhere) is Presence.REMOTE


def test_a_driver_of_another_boot_and_one_that_was_told_to_stop_were_ended_by_the_deployment(
    tmp_path: Path,
) -> None:
    me = processes.find(os.getpid())
    mine = events_pb2.DriverHandle(
        boot_id=processes.boot_id(), pid=me.pid, start_ticks=me.start_ticks, run_dir=str(tmp_path)
    )
    before_boot = events_pb2.DriverHandle(boot_id="x", pid=me.pid, run_dir=str(tmp_path))
    ours = drivers(tmp_path)
    proven = [ours.deployment(before_boot), ours.deployment(mine)]
    (tmp_path / "stop").touch()

    assert proven == ["its machine or its container was started anew", ""]
    assert ours.deployment(mine) == "its deployment was taken down, and told it to stop"


def in_a_container(program: str, *words: str) -> str:
    """What a program prints as the first process of a name space of its own; all others in it end with it."""
    command = [*ALONE, sys.executable, "-c", program, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


STARTS = """
import sys
from pathlib import Path
from daggers.v1 import spec_pb2
from scheduler.drivers.process_table import Drivers
ours = Drivers(Path(sys.argv[1]), host="here", python=sys.executable)
job = spec_pb2.JobSpec(dagger="d", generation=5, run_dir=str(ours.run_dir("d", 5)))
handle = ours.start(job, [sys.executable, "-c", "import signal; signal.pause()"], {"LC_ALL": "C.UTF-8"})
assert ours.deployment(handle) == ""
print(handle.SerializeToString().hex())
"""
LOOKS = """
import sys
from pathlib import Path
from daggers.v1 import events_pb2
from scheduler.drivers.process_table import Drivers
ours = Drivers(Path(sys.argv[1]), host="here", python=sys.executable)
handle = events_pb2.DriverHandle.FromString(bytes.fromhex(sys.argv[2]))
print(ours.presence(handle).name, ours.exit(handle).error.reason, ours.deployment(handle), sep=": ")
"""


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode != 0,
    reason="a process namespace needs root here",
)
def test_a_container_that_is_started_anew_has_ended_the_drivers_that_were_in_it(tmp_path: Path) -> None:
    """The boot is the same, and the first process of the container is another."""
    handle = in_a_container(STARTS, str(tmp_path)).strip()
    told = in_a_container(LOOKS, str(tmp_path), handle)

    assert told == "GONE: DRIVER_LOST: its machine or its container was started anew\n"


def test_an_exit_code_that_nobody_could_have_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "exit-code").write_text("twelve")

    fact = drivers(tmp_path).exit(events_pb2.DriverHandle(run_dir=str(tmp_path)))

    assert fact.error.reason == "DRIVER_LOST"


def joined_launch(tmp_path: Path, process_code: int) -> events_pb2.DriverHandle:
    """Leave what a joined launch leaves that never wrote how it ended, in a process that ended so."""
    home, run_dir = tmp_path / "a" / "1", tmp_path / "b" / "2"
    for place in (home, run_dir):
        place.mkdir(parents=True)
    (home / rundir.PROCESS_EXIT_CODE).write_text(f"{process_code}\n")
    (home / rundir.EXIT_CODE).write_text("0\n")
    return events_pb2.DriverHandle(host="here", run_dir=str(run_dir), process_dir=str(home))


@pytest.mark.parametrize(
    ("process_code", "reason"), [(0, exits.PROCESS_LOST), (75, exits.PROCESS_LOST), (-9, exits.KILLED)]
)
def test_the_end_of_a_process_is_not_that_of_a_launch_which_left_no_code(
    tmp_path: Path, process_code: int, reason: str
) -> None:
    # a process that ends by itself has the code of the launch that joined last
    fact = drivers(tmp_path).exit(joined_launch(tmp_path, process_code))

    assert (fact.error.reason, fact.error.retryable) == (reason, True)


def test_a_step_that_a_launch_was_in_makes_it_a_suspect(tmp_path: Path) -> None:
    handle, home = joined_launch(tmp_path, 137), tmp_path / "a" / "1"
    lastword.create(home)
    steps = lastword.StepRecorder(home)
    with steps.step("b", 2, "write"), steps.step("a", 1, "compute"):
        fact = drivers(tmp_path).exit(handle)

    assert (fact.suspect, fact.error.reason) == (True, exits.KILLED)
    assert fact.error.detail.endswith("it shared its process with others, and was at this step then: write")


def test_files_for_launches_are_written_once_for_each_version_however_many_there_are(tmp_path: Path) -> None:
    table, rules = drivers(tmp_path), [rules_pb2.AlertRule(name="low", when="n < 1")]
    files = [tmp_path / f"d{number}" / "1" / rundir.RULES for number in range(1_100)]
    found = []
    for revision in (1, 1, 2):
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            table.give_rules(str(file.parent), revision, rules)
        found.append({file.read_text() for file in files})
        for file in files:
            file.write_text("as it was")
    table.give_rules(str(files[0].parent), 3, [])
    table.pause_sinks(str(files[0].parent), ())

    assert found[1] == {"as it was"}
    assert [json.loads(text)["revision"] for texts in (found[0], found[2]) for text in texts] == ["1", "2"]
    assert json.loads(files[0].read_text()) == {"revision": "3"}
    assert not (files[0].parent / rundir.PAUSED).exists()


def test_only_what_belongs_to_the_deleted_and_the_long_past_is_removed(tmp_path: Path) -> None:
    runs, checkpoints = tmp_path / "runs", tmp_path / "checkpoints"
    fleet = Fleet()
    for record in given(
        events_pb2.SchedulerStarted(scheduler_id="s"),
        events_pb2.DaggerRequested(meta=META, name="gone"),
        events_pb2.DeleteRequested(meta=META, name="gone"),
        events_pb2.Deleted(meta={"name": "gone"}),
        events_pb2.DaggerRequested(meta=META, name="again"),
        events_pb2.DeleteRequested(meta=META, name="again"),
        events_pb2.Deleted(meta={"name": "again"}),
        events_pb2.DaggerRequested(meta=META, name="again"),
        events_pb2.LaunchIntended(meta={"name": "again"}, version=1),
    ):
        assert fleet.apply(record).refused == ""
    keep = [runs / "again/8/tmp", runs / "unknown/3", checkpoints / "again-7", checkpoints / "unknown-1"]
    drop = [runs / "gone", runs / "again/5", checkpoints / "gone-1", checkpoints / "again-4"]
    for directory in (*keep, *drop):
        (directory / "x").mkdir(parents=True)

    found = retention.leftovers(fleet, runs, checkpoints, LATER)
    retention.remove([*found, tmp_path / "nothing"])

    assert sorted(found) == sorted(drop)
    assert all(path.exists() for path in keep)


def test_logs_outlive_their_dagger_by_a_day_also_where_its_name_was_given_again(tmp_path: Path) -> None:
    runs, checkpoints = tmp_path / "runs", tmp_path / "checkpoints"
    fleet = Fleet()
    for record in given(
        events_pb2.SchedulerStarted(scheduler_id="s"),
        events_pb2.DaggerRequested(meta=META, name="gone"),
        events_pb2.LaunchIntended(meta={"name": "gone"}, version=1),
        events_pb2.DeleteRequested(meta=META, name="gone"),
        events_pb2.Exited(meta={"name": "gone", "generation": 2}),
        events_pb2.Deleted(meta={"name": "gone", "generation": 2}),
        events_pb2.DaggerRequested(meta=META, name="again"),
    ):
        fleet.apply(record)
    assert fleet.daggers["gone"].phase == DELETED
    logs = [runs / "gone/2/driver.log", runs / "again/1/driver.log"]
    for log in logs:
        (log.parent / "tmp").mkdir(parents=True)
        log.touch()
    (checkpoints / "gone-1").mkdir(parents=True)

    def left(now: datetime) -> list[bool]:
        retention.remove(retention.leftovers(fleet, runs, checkpoints, now))
        return [log.exists() for log in logs]

    almost = left(fleet.daggers["gone"].phase_time + timedelta(hours=23))

    assert (almost, list(runs.glob("*/*/tmp")), list(checkpoints.iterdir())) == ([True, True], [], [])
    assert left(LATER) == [False, False]


def test_a_shadow_is_nobodys_orphan_and_keeps_its_scratch_space_until_it_is_ended(tmp_path: Path) -> None:
    meta, beside = events_pb2.FactMeta(name="d", generation=2), events_pb2.FactMeta(name="d", generation=6)
    asked = events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(sql="two"))
    told = [
        events_pb2.SchedulerStarted(scheduler_id="s"),
        events_pb2.DaggerRequested(meta=META, name="d"),
        events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1),
        events_pb2.Launched(meta=meta, driver={"host": "here"}),
        events_pb2.Running(meta=meta),
        asked,
        events_pb2.ShadowIntended(meta=events_pb2.FactMeta(name="d"), version=2),
        events_pb2.ShadowEnded(meta=beside),
    ]
    scratch = [tmp_path / "d" / generation / "tmp" for generation in ("2", "6")]
    for place in scratch:
        place.mkdir(parents=True)
    fleet, left = Fleet(), []
    drivers = [
        DriverIdentity(dagger="d", generation=number, run_dir="", boot_id="", pid=1, start_ticks=1)
        for number in (2, 6)
    ]
    for record in given(*told):
        fleet.apply(record)
        if isinstance(record.message, events_pb2.ShadowIntended | events_pb2.ShadowEnded):
            orphans = [driver.generation for driver in drivers if is_orphan(fleet, driver)]
            left.append((orphans, retention.leftovers(fleet, tmp_path, None, LATER)))

    assert left == [([], []), ([6], [scratch[1]])]


@pytest.mark.parametrize(
    ("root", "of_d", "here"),
    [
        ("/var/checkpoints", "/var/checkpoints/d-0", Path("/var/checkpoints")),
        ("file:///mnt/checkpoints/", "file:///mnt/checkpoints/d-0", Path("/mnt/checkpoints")),
        ("hdfs://namenode:8020/daggers", "hdfs://namenode:8020/daggers/d-0", None),
        ("s3a://bucket/", "s3a://bucket/d-0", None),
    ],
)
def test_checkpoints_are_below_any_root_and_swept_only_on_this_host(
    root: str, of_d: str, here: Path | None
) -> None:
    fleet = Fleet()
    for record in given(events_pb2.DaggerRequested(meta=META, name="d")):
        fleet.apply(record)

    assert checkpointroot.is_root(root)
    assert retention.checkpoint_root(root, fleet.daggers["d"]) == of_d
    assert retention.directory(root) == here


@pytest.mark.parametrize("root", ["/a b", "/a#1", "/a?b", "/a%41", "/a:b/c", "/ü,=$'\"", "//a"])
def test_a_directory_is_taken_as_it_is_called(root: str) -> None:
    assert checkpointroot.is_root(root)
    assert retention.directory(root) == Path(root)


@pytest.mark.parametrize("root", ["checkpoints", "hdfs:///daggers", "hdfs://namenode:8020", "s3a://b/x?y"])
def test_a_root_without_a_host_or_a_path_is_none(root: str) -> None:
    assert not checkpointroot.is_root(root)


def test_the_logs_of_the_last_launches_are_kept_without_their_scratch_space(tmp_path: Path) -> None:
    fleet = Fleet()
    for record in given(events_pb2.DaggerRequested(meta=META, name="d")):
        fleet.apply(record)
    for generation in range(1, 14):
        (tmp_path / "d" / str(generation) / "tmp").mkdir(parents=True)

    retention.remove(retention.leftovers(fleet, tmp_path, tmp_path / "checkpoints", LATER))

    assert sorted(int(path.name) for path in (tmp_path / "d").iterdir()) == list(range(4, 14))
    assert list(tmp_path.glob("d/*/tmp")) == []
