"""What is shown is true: real faults, and the phase of the dagger sampled every second meanwhile.

Most are done to one dagger with input all the time, which each leaves RUNNING.
"""

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import Stack
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli
from tests.integration.faults import driver, halves, kill, lasting, process, send, until, up
from tests.integration.standalone import register
from tests.integration.watching import (
    OLD_S,
    POLLS_S,
    Watching,
    heartbeats,
    is_running,
    lies,
    not_running,
    running,
    watched,
)

from devstack.sparkcluster import spark_cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

STOP, CONT = signal.SIGSTOP, signal.SIGCONT


@pytest.fixture(scope="module")
def watching(stack: Stack, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watching]:
    """The dagger of most tests: each leaves it RUNNING. None of them may have seen a lie."""
    with watched(stack, cli, tmp_path_factory.mktemp("phases")) as watch:
        yield watch
        assert lies(watch) == []  # RUNNING, while input waited and nothing was committed


def test_a_driver_that_was_stopped_in_its_tracks_is_degraded_and_recovers(
    stack: Stack, watching: Watching
) -> None:
    with running(watching) as before:
        (session,) = driver(stack, watching.name).values()
        lints = watching.samples[-1].warnings
        send(STOP, *session)
        try:
            late = watching.until(not_running, deadline_s=OLD_S + POLLS_S)
            silent = watching.until(lambda sample: "NO_HEARTBEAT" in sample.warnings)
        finally:
            send(CONT, *session)
    (after,) = {sample.generation for sample in watching.samples[-3:]}

    assert (late.phase, late.warnings) == ("DEGRADED", (*lints, "NO_PROGRESS"))
    assert silent.phase == "DEGRADED"
    assert after == before


def test_a_batch_that_does_not_end_is_degraded_while_its_driver_beats_and_lag_grows(
    stack: Stack, watching: Watching
) -> None:
    with running(watching):
        jvm, python = halves(stack, watching.name)
        workers = [child for child in jvm.children(recursive=True) if python not in (child, *child.parents())]
        send(STOP, *workers)
        try:
            late = watching.until(not_running, deadline_s=OLD_S + POLLS_S)
            unread = watching.unread()
            lasting(10)  # two heartbeats
            shown, more = watching.samples[-1], watching.unread()
        finally:
            send(CONT, *workers)
    beats = [beat for beat in heartbeats(stack, watching.name) if beat.last_progress.seconds < late.at]

    assert workers
    assert late.phase == shown.phase == "DEGRADED"
    assert {"NO_PROGRESS", "BATCH_STUCK"} & set(shown.warnings)
    assert beats
    assert more > unread > 0


def test_a_database_that_hangs_is_degraded_and_says_which_sink(stack: Stack, watching: Watching) -> None:
    database = process(stack, "influxdb")
    with running(watching):
        send(STOP, database)
        try:
            late = watching.until(not_running, deadline_s=OLD_S + POLLS_S)
            lasting(5)
            shown = watching.samples[-1]
        finally:
            send(CONT, database)

    assert (late.phase, shown.phase) == ("DEGRADED", "DEGRADED")
    assert {"NO_PROGRESS", "BATCH_STUCK", "SINK_RETRYING"} & set(shown.warnings)


def test_a_dead_jvm_whose_python_half_lives_on_is_not_running_and_is_replaced(
    stack: Stack, watching: Watching
) -> None:
    with running(watching) as before:
        jvm, python = halves(stack, watching.name)
        send(STOP, python)  # it cannot see that its JVM is gone
        send(signal.SIGKILL, jvm)
        late = watching.until(not_running, deadline_s=OLD_S + POLLS_S)
        again = watching.until(is_running)

    assert late.phase in ("DEGRADED", "BACKING_OFF", "PENDING", "STARTING")
    assert again.generation > before
    assert python not in itertools.chain(*driver(stack, watching.name).values())


def test_while_the_broker_is_dead_nothing_is_claimed(stack: Stack, watching: Watching) -> None:
    with running(watching):
        kill(stack, "kafka")
        away = watching.until(lambda sample: bool(sample.degraded), deadline_s=OLD_S + POLLS_S)
        up(stack)
        back = watching.until(lambda sample: not sample.degraded)

    assert "does not answer" in away.degraded
    assert back.at > away.at


def test_a_spark_cluster_that_is_gone_leaves_nothing_running(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    with spark_cluster(tmp_path / "spark", 1, minutes=30) as spark:
        register(cli, stack, "vanishing", spark.url, tmp_path)
        with watched(stack, cli, tmp_path, cluster="vanishing") as watch:
            watch.until(is_running)
            spark.stop()
            late = watch.until(not_running, deadline_s=OLD_S + POLLS_S)
            lasting(OLD_S)
            phases = {sample.phase for sample in watch.samples if sample.at > late.at}

    assert "RUNNING" not in phases
    assert lies(watch) == []


def test_a_topic_that_was_made_anew_fails_its_dagger(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    with watched(stack, cli, tmp_path) as watch:
        watch.until(is_running)
        make_anew(stack.kafka, watch.bookings.name)
        watch.until(lambda sample: sample.phase == "FAILED")
        error = cli("get", watch.name)["last_error"]
        left = driver(stack, watch.name)

    assert (error["domain"], error["reason"], left) == ("EXTERNAL", "TOPIC_RECREATED", {})
    assert lies(watch) == []


def test_without_a_scheduler_a_new_dagger_is_pending_and_is_started_by_the_next(
    stack: Stack, cli: Cli, watching: Watching, tmp_path: Path
) -> None:
    with running(watching):
        kill(stack, "scheduler")
        name, file = watching.bookings.dagger(tmp_path, sql="SELECT order_number, rowtime FROM data_stream")
        cli("apply", "-f", file)
        lasting(POLLS_S)
        pending = cli("get", name)["phase"]
        up(stack)
        starting = cli.until(name, lambda dagger: dagger["phase"] == "STARTING")
        until(lambda: bool(driver(stack, name)))
        (session,) = driver(stack, name).values()
        send(STOP, *session)  # before its first batch
        lasting(OLD_S)
        held = cli("get", name)["phase"]
        send(CONT, *session)
        cli("stop", name, "--now", "--wait")
        cli("delete", name, "--wait")

    assert pending == "PENDING"
    assert starting["generation"] > 0
    assert held == "STARTING"
    assert driver(stack, name) == {}


def test_no_input_and_no_output_are_running_and_progress(
    stack: Stack, cli: Cli, watching: Watching, tmp_path: Path
) -> None:
    with running(watching):
        silent = Bookings(stack.kafka, cli)
        no_input, file = silent.dagger(tmp_path)
        cli("apply", "-f", file, "--wait")
        empty = {cli("get", no_input)["phase"] for _ in seconds(OLD_S + POLLS_S)}
        cli("delete", no_input, "--wait")
        query = "SELECT order_number, rowtime AS window_timestamp FROM data_stream WHERE status = 'NEVER'"
        no_output, file = watching.bookings.dagger(tmp_path, sql=query)
        cli("apply", "-f", file, "--wait")
        filtered = {cli("get", no_output)["phase"] for _ in seconds(OLD_S + POLLS_S)}
        beat = heartbeats(stack, no_output)[-1]
        cli("delete", no_output, "--wait")

    assert empty == {"RUNNING"}
    assert filtered == {"RUNNING"}
    assert (beat.rows_in > 0, list(beat.rows_out)) == (True, [0])


def test_a_driver_of_another_host_that_is_silent_is_unreachable_and_comes_back(
    stack: Stack, watching: Watching, tmp_path: Path
) -> None:
    elsewhere = ["unshare", "--uts", "sh", "-c", 'hostname another-host && exec "$0" "$@"']
    if subprocess.run([*elsewhere, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a process of another host name needs root (unshare --uts)")
    env = process(stack, "scheduler").environ()
    log = tmp_path / "scheduler.log"
    with running(watching) as before:
        (session,) = driver(stack, watching.name).values()
        kill(stack, "scheduler")
        command = [*elsewhere, sys.executable, "-m", "scheduler"]
        with log.open("wb") as out, subprocess.Popen(command, env=env, stderr=out, cwd=tmp_path) as other:
            try:
                until(lambda: b"scheduler.leadership_gained" in log.read_bytes())
                send(STOP, *session)
                late = watching.until(not_running, deadline_s=OLD_S + POLLS_S)
                gone = watching.until(lambda sample: sample.phase == "UNREACHABLE")
                send(CONT, *session)
                back = watching.until(is_running)
            finally:
                send(CONT, *session)
                other.terminate()
                other.wait(30)
        up(stack)

    assert (late.phase, gone.generation, back.generation) == ("DEGRADED", before, before)


def seconds(span: float) -> Iterator[int]:
    """One after the other, a second apart."""
    for number in range(int(span)):
        lasting(1)
        yield number


def make_anew(kafka: str, topic: str) -> None:
    """Delete a topic and make it again; a producer that was quicker did the same."""
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([topic])[topic].result(30)
    problem = admin.create_topics([NewTopic(topic, 1, 1)])[topic].exception(30)
    assert problem is None or "already exists" in str(problem)
