"""What is shown is true: real faults, and the phase of the dagger sampled every second meanwhile.

One dagger with input all the time. `Watching` knows from the files of the checkpoint when the last batch was
committed, so that it needs to believe nobody.
"""

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from conftest import Stack
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, telemetry_pb2
from tests.integration.bookings import Bookings, booking
from tests.integration.cli import Cli
from tests.integration.faults import driver, halves, header, kill, lasting, process, records, send, until, up
from tests.integration.standalone import register, standalone

pytestmark = [pytest.mark.integration, pytest.mark.long]

TRIGGER_S = 1.0
OLD_S = 3 * TRIGGER_S + 10
SAMPLE_S = 1.0
POLLS_S = 2 * SAMPLE_S + 5  # two polls, and the slack of a busy machine
STOP, CONT = signal.SIGSTOP, signal.SIGCONT


@dataclass(frozen=True)
class Sample:
    """The dagger as it was shown at one moment, and what was true."""

    at: float
    phase: str
    generation: int
    warnings: tuple[str, ...]
    degraded: str
    """What the gateway says of its own knowledge; empty when it knows."""
    waited: float
    """Seconds since a batch was committed, or since input has waited for the first one."""


@dataclass
class Watching:
    """Feeds a dagger, and samples what is shown of it, until its context ends."""

    stack: Stack
    name: str
    bookings: Bookings
    samples: list[Sample] = field(default_factory=list)
    fed_since: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def feed(self) -> None:
        """A record every half second, for ever."""
        second = 0.0
        self.fed_since = time.time()
        while not self._done.wait(0.5):
            second += 0.5
            self.bookings.produce(booking(second))

    def sample(self) -> None:
        """Ask the gateway every second, for ever."""
        with grpc.insecure_channel(self.stack.gateway) as channel:
            daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
            while not self._done.wait(SAMPLE_S):
                try:
                    answer, call = daggers.GetDagger.with_call(
                        gateway_pb2.GetDaggerRequest(name=self.name), timeout=10
                    )
                except grpc.RpcError:
                    continue  # a gateway that does not answer claims nothing
                shown, now = answer.dagger, time.time()
                self.samples.append(
                    Sample(
                        now,
                        gateway_pb2.Phase.Name(shown.phase),
                        shown.generation,
                        tuple(shown.warnings),
                        dict(call.trailing_metadata()).get("x-daggers-degraded", ""),
                        now - max(self.committed(), self.fed_since),
                    )
                )

    def committed(self) -> float:
        """When a batch was committed last, by the checkpoint's own files."""
        newest = 0.0
        for file in self.stack.state_dir.glob(f"checkpoints/{self.name}-*/**/commits/[0-9]*"):
            with suppress(FileNotFoundError):  # Spark removes old ones
                newest = max(newest, file.stat().st_mtime)
        return newest

    def until(self, wanted: Callable[[Sample], bool], *, deadline_s: float = 120) -> Sample:
        """The first sample from now on that is as wanted."""
        begin = len(self.samples)
        until(lambda: any(map(wanted, self.samples[begin:])), deadline_s=deadline_s)
        return next(filter(wanted, self.samples[begin:]))

    def stop(self) -> None:
        """End both threads."""
        self._done.set()


@contextmanager
def watched(stack: Stack, cli: Cli, folder: Path, **changes: object) -> Iterator[Watching]:
    """A dagger that runs, is fed and watched."""
    bookings = Bookings(stack.kafka, cli)
    query = "SELECT order_number, city_id, rowtime AS window_timestamp FROM data_stream"
    name, file = bookings.dagger(folder, sql=query, trigger=f"{TRIGGER_S:g}s", **changes)
    watch = Watching(stack, name, bookings)
    threads = [threading.Thread(target=work) for work in (watch.feed, watch.sample)]
    for thread in threads:
        thread.start()
    try:
        cli("apply", "-f", file, "--wait")
        yield watch
    finally:
        watch.stop()
        for thread in threads:
            thread.join(30)
    cli("delete", name, "--now", "--wait")


@pytest.fixture(scope="module")
def watching(stack: Stack, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watching]:
    """The dagger of most tests: each leaves it RUNNING."""
    with watched(stack, cli, tmp_path_factory.mktemp("phases")) as watch:
        yield watch


@contextmanager
def running(watch: Watching) -> Iterator[int]:
    """Around a fault: RUNNING before it and again after it. Gives the generation before."""
    before = watch.until(is_running).generation
    yield before
    watch.until(is_running)


def is_running(sample: Sample) -> bool:
    return sample.phase == "RUNNING" and sample.waited < OLD_S and not sample.degraded


def not_running(sample: Sample) -> bool:
    return sample.phase != "RUNNING"


def test_a_driver_that_was_stopped_in_its_tracks_is_degraded_and_recovers(watching: Watching) -> None:
    with running(watching) as before:
        (session,) = driver(watching.name).values()
        send(STOP, *session)
        try:
            late = watching.until(not_running, deadline_s=OLD_S + POLLS_S)
            silent = watching.until(lambda sample: "NO_HEARTBEAT" in sample.warnings)
        finally:
            send(CONT, *session)
    (after,) = {sample.generation for sample in watching.samples[-3:]}

    assert (late.phase, late.warnings) == ("DEGRADED", ("NO_PROGRESS",))
    assert silent.phase == "DEGRADED"
    assert after == before


def test_a_batch_that_does_not_end_is_degraded_while_its_driver_beats_and_lag_grows(
    stack: Stack, watching: Watching
) -> None:
    with running(watching):
        jvm, python = halves(watching.name)
        workers = [each for each in jvm.children(recursive=True) if python not in (each, *each.parents())]
        send(STOP, *workers)
        try:
            late = watching.until(not_running, deadline_s=OLD_S + POLLS_S)
            lasting(10)  # two heartbeats
            shown = watching.samples[-1]
        finally:
            send(CONT, *workers)
    beats = [each for each in heartbeats(stack, watching.name) if each.last_progress.seconds < late.at]

    assert workers
    assert late.phase == shown.phase == "DEGRADED"
    assert {"NO_PROGRESS", "BATCH_STUCK"} & set(shown.warnings)
    assert beats


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


def test_a_dead_jvm_whose_python_half_lives_on_is_not_running_and_is_replaced(watching: Watching) -> None:
    with running(watching) as before:
        jvm, python = halves(watching.name)
        send(STOP, python)  # it cannot see that its JVM is gone
        send(signal.SIGKILL, jvm)
        late = watching.until(not_running, deadline_s=OLD_S + POLLS_S)
        again = watching.until(is_running)

    assert late.phase in ("DEGRADED", "BACKING_OFF", "PENDING", "STARTING")
    assert again.generation > before
    assert python not in itertools.chain(*driver(watching.name).values())


def test_while_the_broker_is_dead_nothing_is_claimed(stack: Stack, watching: Watching) -> None:
    with running(watching):
        kill(stack, "kafka")
        away = watching.until(lambda sample: bool(sample.degraded), deadline_s=OLD_S + POLLS_S)
        up(stack)
        back = watching.until(lambda sample: not sample.degraded)

    assert "does not answer" in away.degraded
    assert back.at > away.at


def test_a_spark_cluster_that_is_gone_leaves_nothing_running(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    with standalone(tmp_path) as (url, gone):
        register(cli, stack, "vanishing", url, tmp_path)
        with watched(stack, cli, tmp_path, cluster="vanishing") as watch:
            watch.until(is_running)
            gone()
            late = watch.until(not_running, deadline_s=OLD_S + POLLS_S)
            lasting(OLD_S)
            phases = {sample.phase for sample in watch.samples if sample.at > late.at}

    assert "RUNNING" not in phases
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
        (session,) = driver(name).values()
        send(STOP, *session)  # before its first batch
        lasting(OLD_S)
        held = cli("get", name)["phase"]
        send(CONT, *session)
        cli("delete", name, "--now", "--wait")

    assert pending == "PENDING"
    assert starting["generation"] > 0
    assert held == "STARTING"
    assert driver(name) == {}


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
        (session,) = driver(watching.name).values()
        kill(stack, "scheduler")
        command = [*elsewhere, sys.executable, "-m", "scheduler"]
        with log.open("wb") as out, subprocess.Popen(command, env=env, stderr=out, cwd=tmp_path) as other:
            try:
                until(lambda: b"scheduler.leading" in log.read_bytes())
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


def test_no_sample_showed_running_while_input_waited_and_nothing_was_committed(watching: Watching) -> None:
    assert len(watching.samples) > 100
    assert lies(watching) == []


def lies(watch: Watching) -> list[Sample]:
    """The samples that call it RUNNING though input waits and the last commit is old."""
    return [
        sample
        for sample in watch.samples
        if sample.phase == "RUNNING" and not sample.degraded and sample.waited > OLD_S
    ]


def heartbeats(stack: Stack, name: str) -> list[telemetry_pb2.Heartbeat]:
    """Every heartbeat of a dagger that stands in the topic."""
    kind = telemetry_pb2.Heartbeat.DESCRIPTOR.full_name
    return [
        telemetry_pb2.Heartbeat.FromString(each.value() or b"")
        for each in records(stack.kafka, "daggers.heartbeats")
        if header(each, "ce_type") == kind and header(each, "ce_subject") == name
    ]


def seconds(span: float) -> Iterator[int]:
    """One after the other, a second apart."""
    for number in range(int(span)):
        lasting(1)
        yield number
