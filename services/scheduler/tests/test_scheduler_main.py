"""The scheduler as a process: its settings, and its place beside another one."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

import pytest
from tests.contracts.beats import beat, first_heard

from eventlog.admin import ensure_topics
from eventlog.topics import Topic
from kafkaclient import Connection
from scheduler.__main__ import Missing, find_installation, find_java
from scheduler.leader.heartbeats import Heartbeats

DEADLINE_S = 60
MAIN = [sys.executable, "-m", "scheduler"]


def test_settings_that_are_missing_are_named_all_at_once() -> None:
    done = subprocess.run(MAIN, env={}, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    assert done.returncode == 2
    assert "DAGGERS_SCHEDULER_KAFKA_BOOTSTRAP_SERVERS" in done.stderr
    assert "DAGGERS_SCHEDULER_STATE_DIR" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("module", "prefix"), [("scheduler", "DAGGERS_SCHEDULER"), ("health_monitor", "DAGGERS_MONITOR")]
)
def test_a_state_directory_that_cannot_be_used_is_named_by_its_setting(
    tmp_path: Path, module: str, prefix: str
) -> None:
    (tmp_path / "file").touch()
    told = {
        f"{prefix}_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        f"{prefix}_STATE_DIR": str(tmp_path / "file" / "state"),
    }
    command = [sys.executable, "-m", module]
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    assert done.returncode == 2
    assert f"{prefix}_STATE_DIR: {tmp_path}/file/state cannot be written to: Not a directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_bad_places_for_checkpoints_properties_and_spark_are_named_all_at_once(tmp_path: Path) -> None:
    told = {
        "DAGGERS_SCHEDULER_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "DAGGERS_SCHEDULER_STATE_DIR": str(tmp_path),
        "DAGGERS_SCHEDULER_CHECKPOINT_ROOT": "checkpoints",
        "DAGGERS_SCHEDULER_SPARK_PROPERTIES_FILE": str(tmp_path / "none"),
        "DAGGERS_SCHEDULER_SPARK_HOME": str(tmp_path),
    }

    done = subprocess.run(MAIN, env=told, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    assert done.returncode == 2
    assert "CHECKPOINT_ROOT" in done.stderr
    assert "SPARK_PROPERTIES_FILE" in done.stderr
    assert "SPARK_HOME: has no bin/spark-submit: prepare it by" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_java_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="install Java 17 or newer, or set JAVA_HOME"):
        find_java(tmp_path, {"PATH": ""})


def test_java_is_what_is_told_then_java_home_then_the_path(tmp_path: Path) -> None:
    told, home, path = (tmp_path / each for each in ("told", "home", "path"))
    for each in (told, home, path):
        (each / "bin").mkdir(parents=True)
        (each / "bin" / "java").touch(mode=0o755)
    inherited = {"JAVA_HOME": str(home), "PATH": str(path / "bin")}

    assert find_java(told, inherited) == told
    assert find_java(None, inherited) == home
    assert find_java(None, {"PATH": str(path / "bin")}) == path


def test_everything_a_driver_needs_is_installed() -> None:
    found = find_installation()

    for file in (found.spark_home / "bin" / "spark-submit", found.python, found.runtime, found.log4j):
        assert file.is_file()


@pytest.mark.integration
async def test_heartbeats_of_every_partition_are_heard_from_now_on(kafka: str) -> None:
    topic = f"heartbeats-{uuid4().hex}"
    await ensure_topics(Connection(kafka), (Topic(topic, 3, {}),))
    async with Heartbeats(Connection(kafka), topic) as before:
        await before.append(beat("unheard"))
    names: set[str] = set()
    async with (
        asyncio.timeout(DEADLINE_S),
        Heartbeats(Connection(kafka), topic) as beats,
        aclosing(beats.follow()) as heard,
    ):
        await first_heard(beats, heard)
        for name in "abcdef":
            await beats.append(beat(name))
        while not names >= set("abcdef"):
            names.add((await anext(heard)).message.dagger)

    assert names - {"heard"} == set("abcdef")


@pytest.mark.integration
def test_a_second_scheduler_stands_by_and_ends_with_0_when_it_is_told_to(kafka: str, tmp_path: Path) -> None:
    told = {
        "DAGGERS_SCHEDULER_KAFKA_BOOTSTRAP_SERVERS": kafka,
        "DAGGERS_SCHEDULER_STATE_DIR": str(tmp_path),
        "DAGGERS_LEADER_TIMEOUT_S": "600",
        "PATH": os.environ["PATH"],  # noqa: TID251 - where Java is
        "JAVA_HOME": os.environ.get("JAVA_HOME", ""),  # noqa: TID251 - as above
    }
    with subprocess.Popen([*MAIN], env=told, stderr=subprocess.PIPE, text=True) as standby:
        assert standby.stderr is not None
        line = standby.stderr.readline()
        standby.terminate()
        rest = standby.stderr.read()
        code = standby.wait(DEADLINE_S)

    assert '"event": "scheduler.standby_begun"' in line
    assert (code, [json.loads(line)["event"] for line in rest.splitlines()]) == (0, ["service.stopped"])
