"""Launches of the runtime for tests: a real spark-submit, its heartbeats, its files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pyspark
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from daggers.v1 import rules_pb2, spec_pb2, telemetry_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from services.runtime.tests.sink_contract import create
from services.runtime.tests.sink_protobuf import FILES
from tests.integration.bookings import COUNT_SQL, message_class

import runtime
from daggerspec import sinks
from daggerspec.defaults import fill_defaults
from daggerspec.topics import HEARTBEATS
from runtime.spark.home import ARCHIVE

MAIN = Path(runtime.__file__).with_name("__main__.py")
# What `daggers local setup` has prepared; a launch without it only takes longer.
TOOLS = Path(sys.prefix) / "share" / "daggers"
# A driver takes ten seconds, or minutes where everything else runs beside it.
DEADLINE_S = 240.0
Beat = telemetry_pb2.Heartbeat


@dataclass
class Dagger:
    """One dagger on a fresh topic: its spec, and its launches one after another."""

    folder: Path
    kafka: str
    sql: str = COUNT_SQL
    sinks: list[spec_pb2.ResolvedSink] = field(default_factory=list)
    start: str = "earliest"
    idle_timeout_s: int = 3
    emit: spec_pb2.Emit.ValueType = spec_pb2.EMIT_FINAL
    state: spec_pb2.StateStore.ValueType = spec_pb2.STATE_STORE_UNSPECIFIED
    forward: spec_pb2.Forward | None = None
    """In place of `sql`."""
    trigger_ms: int = 200
    longest_wait_s: int = 0
    conf: dict[str, str] = field(default_factory=dict)
    """Spark's settings on the command line."""
    root: str = ""
    """Checkpoint root; a local directory when empty."""
    partitions: int = 1
    group: str = ""
    """Consumer group; its own when empty."""
    late: str = ""
    """Name of the sink that takes late records."""
    update_s: int = 0
    """Seconds for which windows take late records, with which their rows are written again."""
    alerts: list[rules_pb2.AlertRule] = field(default_factory=list)
    references: list[spec_pb2.ReferenceTable] = field(default_factory=list)
    sink_files: bytes = b""
    """Files of the messages that its sinks write, serialised; beside those of its stream."""

    def __post_init__(self) -> None:
        """Create its topic."""
        self.name = f"d-{uuid4().hex[:8]}"
        self.topic = create(self.kafka, NewTopic(f"in-{self.name}", self.partitions, 1))
        self.generation = 100
        self.checkpoints = self.folder / "checkpoints"
        self._producer = Producer({"bootstrap.servers": self.kafka})

    def write(self, *values: bytes, partition: int = 0) -> None:
        """Append records and wait until the broker has them."""
        for value in values:
            self._producer.produce(self.topic, value, partition=partition)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        """The launch's file."""
        job = spec_pb2.JobSpec(
            dagger=self.name,
            version=1,
            generation=self.generation,
            checkpoint_root=self.root or str(self.checkpoints),
            run_dir=str(run_dir),
            sinks=self.sinks,
            references=self.references,
        )
        job.platform.bootstrap_servers = self.kafka
        if self.forward is None:
            job.spec.sql = self.sql
        else:
            job.spec.forward.CopyFrom(self.forward)
        job.spec.emit, job.spec.state = self.emit, self.state
        job.spec.consumer_group = self.group
        job.spec.alerts.extend(self.alerts)
        if self.late:
            job.spec.late.keep = self.late
        if self.update_s:
            job.spec.late.update.FromSeconds(self.update_s)
        job.spec.trigger.FromMilliseconds(self.trigger_ms)
        job.batches.longest_wait.FromSeconds(self.longest_wait_s)
        job.batches.records = 10_000
        stream = job.streams.add()
        stream.kafka.bootstrap_servers = self.kafka
        stream.input.table = "data_stream"
        stream.input.watermark_delay.FromSeconds(1)
        stream.input.idle_timeout.FromSeconds(self.idle_timeout_s)
        stream.input.future_tolerance.FromSeconds(300)
        setattr(stream.input.start, self.start, True)
        stream.stream.name, stream.stream.cluster = "bookings", "local"
        stream.stream.topics.append(self.topic)
        stream.stream.message, stream.stream.time_field = "it.v1.Booking", "event_timestamp"
        job.descriptors.CopyFrom(descriptors())
        job.descriptors.MergeFromString(self.sink_files)
        return job

    def launch(self) -> Launch:
        """Start the next generation with spark-submit, in a session of its own."""
        run_dir = self._prepare()
        return Launch(self, self.generation, run_dir, partial(submit, self, run_dir))

    def join(self, other: Launch) -> Launch:
        """Start the next generation as a member of the process of another launch, which ends with that."""
        run_dir = self._prepare()
        launch = Launch(self, self.generation, run_dir, lambda: other.process)
        (other.run_dir / "members").mkdir(exist_ok=True)
        (other.run_dir / "members" / f"{self.name}.{self.generation}").symlink_to(run_dir)
        return launch

    def _prepare(self) -> Path:
        """Write the run directory of the next generation."""
        self.generation += 1
        run_dir = self.folder / str(self.generation)
        run_dir.mkdir(parents=True)
        (run_dir / "spec.pb").write_bytes(whole(self.spec(run_dir)).SerializeToString())
        return run_dir


def whole(job: spec_pb2.JobSpec) -> spec_pb2.JobSpec:
    """The launch as a scheduler writes it: its spec says all that its streams and sinks are."""
    spec = job.spec
    spec.cluster = "local"
    cluster = job.clusters.add(name="local", spark_master="local[2]", kafka=job.platform)
    del spec.streams[:], spec.sinks[:]
    for number, stream in enumerate(job.streams):
        stream.stream.name = stream.stream.name or f"stream-{number}"
        stream.stream.cluster = cluster.name
        stream.input.stream = stream.stream.name
        spec.streams.append(stream.input)
    for sink in job.sinks:
        sinks.fill(sink.sink, job.dagger, spec)
        spec.sinks.append(sink.sink)
    spec.CopyFrom(fill_defaults(job.dagger, spec))
    return job


def submit(dagger: Dagger, run_dir: Path) -> subprocess.Popen[bytes]:
    """Start the process of a launch."""
    spark = Path(pyspark.__file__).parent
    java_options = ["-XX:TieredStopAtLevel=1"]
    for prepared in TOOLS.glob(f"spark-{pyspark.__version__}-*/{ARCHIVE}"):
        spark = prepared.parent
        java_options.append(f"-XX:SharedArchiveFile={prepared}")
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    java = os.environ.get("JAVA_HOME")  # noqa: TID251 - a machine without a java on its path
    home = {} if java is None else {"JAVA_HOME": java}
    # as the scheduler has it: a short path, because a socket's may have no more than 107 bytes
    sockets = {"enabled": "true", "dir": "."}
    settings = {f"spark.python.unix.domain.socket.{name}": value for name, value in sockets.items()}
    settings |= dagger.conf
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with (run_dir / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [spark / "bin" / "spark-submit", "--master", "local[1]", "--driver-memory", "600m",
             "--driver-java-options", " ".join(java_options), *conf,
             MAIN, "--spec", run_dir / "spec.pb", "--generation", str(dagger.generation)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=run_dir,
            env={**home, "PATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark),
                 "SPARK_LOCAL_IP": "127.0.0.1", "LC_ALL": "C.UTF-8",
                 "PYTHONSAFEPATH": "1"},
        )  # fmt: skip


class Launch:
    """Handle of one launch. A context manager: nothing of its process is left afterwards."""

    def __init__(
        self, dagger: Dagger, generation: int, run_dir: Path, start: Callable[[], subprocess.Popen[bytes]]
    ) -> None:
        self.run_dir = run_dir
        self.beats: list[telemetry_pb2.Heartbeat] = []
        self.dagger, self.generation = dagger, generation
        self._consumer = Consumer({"bootstrap.servers": dagger.kafka, "group.id": uuid4().hex})
        there = self._consumer.list_topics(HEARTBEATS, 10).topics[HEARTBEATS].partitions
        self._read = dict.fromkeys(there, 0)
        self._read = self._ends()
        self._consumer.assign([TopicPartition(HEARTBEATS, p, end) for p, end in self._read.items()])
        self.process = start()

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.wait()
        self._consumer.close()

    def until(self, wanted: Callable[[telemetry_pb2.Heartbeat], object]) -> telemetry_pb2.Heartbeat:
        """The first heartbeat that satisfies `wanted`; fails at the deadline, or when the launch ends."""
        end = time.monotonic() + DEADLINE_S
        seen = len(self.beats)
        if self.beats and wanted(self.beats[-1]):
            return self.beats[-1]
        while time.monotonic() < end and (self.process.poll() is None or self._poll(1.0)):
            self._poll(0.5)
            while seen < len(self.beats):
                seen += 1
                if wanted(self.beats[seen - 1]):
                    return self.beats[seen - 1]
        last = self.beats[-1] if self.beats else "no heartbeat"
        raise AssertionError(f"it never came to that; last: {last}\n{self.log()[-4000:]}")

    def until_true(self, wanted: Callable[[], bool]) -> None:
        """Until something is so, looked at often; fails at the deadline."""
        end = time.monotonic() + DEADLINE_S
        while not wanted():
            assert time.monotonic() < end, self.log()[-4000:]
            time.sleep(0.01)  # bounded by the deadline

    def running(self) -> telemetry_pb2.Heartbeat:
        """The first heartbeat that says RUNNING."""
        return self.until(lambda beat: beat.state == Beat.STATE_RUNNING)

    def stop(self) -> int:
        """Ask for a drain by the stop file; the exit code."""
        (self.run_dir / "stop").touch()
        return self.wait()

    def wait(self) -> int:
        """The exit code of spark-submit; every heartbeat up to the last is in `beats` then."""
        code = self.process.wait(DEADLINE_S)
        end, ends = time.monotonic() + DEADLINE_S, self._ends()
        while any(self._read[p] < last for p, last in ends.items()):
            assert time.monotonic() < end, "the heartbeats cannot be read to their end"
            self._poll(1.0)
        return code

    def end(self, *, stop: bool = True) -> int:
        """Wait for the launch's own exit code, which a drain by the stop file ends with; others go on."""
        if stop:
            (self.run_dir / "stop").touch()
        code = self.run_dir / "exit-code"
        self.until_true(code.exists)
        return int(code.read_text())

    def kill(self) -> None:
        """kill -9 of every process of the driver."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def processes(self) -> list[psutil.Process]:
        """What runs in the driver's session."""
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return found

    def python(self) -> psutil.Process:
        """The Python half, once driver.json says which it is."""
        end = time.monotonic() + DEADLINE_S
        while not (self.run_dir / "driver.json").exists():
            assert time.monotonic() < end, self.log()[-4000:]
            assert self.process.poll() is None, self.log()[-4000:]
            self._poll(0.2)
        return psutil.Process(json.loads((self.run_dir / "driver.json").read_text())["pid"])

    def error(self) -> Any:
        """What exit.json says."""
        return json.loads((self.run_dir / "exit.json").read_text())

    def log(self) -> str:
        """driver.log."""
        return (self.run_dir / "driver.log").read_text(errors="replace")

    def _ends(self) -> dict[int, int]:
        """Where each partition of the heartbeats ends now."""
        places = [TopicPartition(HEARTBEATS, partition) for partition in self._read]
        return {place.partition: self._consumer.get_watermark_offsets(place, 10)[1] for place in places}

    def _poll(self, seconds: float) -> bool:
        """Take one heartbeat in, if there is one."""
        record = self._consumer.poll(seconds)
        if record is None or record.error() is not None:
            return False
        self._read[record.partition() or 0] = (record.offset() or 0) + 1
        beat = telemetry_pb2.Heartbeat()
        if record.key() == self.dagger.name.encode():
            beat.ParseFromString(record.value() or b"")
            if beat.generation == self.generation:
                self.beats.append(beat)
        return True


def command_line(process: psutil.Process) -> str:
    """A process's words, with spaces between; nothing once it is dead, which it may be at any moment."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def terminate(process: psutil.Process) -> None:
    """SIGTERM."""
    process.send_signal(signal.SIGTERM)


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    """The booking and the sinks' messages, with everything they import."""
    found = descriptor_pb2.FileDescriptorSet.FromString(FILES)
    _add(found, message_class().DESCRIPTOR.file)
    return found


def _add(found: descriptor_pb2.FileDescriptorSet, file: FileDescriptor) -> None:
    if file.name not in {one.name for one in found.file}:
        for dependency in file.dependencies:
            _add(found, dependency)
        file.CopyToProto(found.file.add())
