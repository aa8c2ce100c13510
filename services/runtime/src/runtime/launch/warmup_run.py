"""Warm up a process by launches of an artificial dagger, from its spec to rows in its sink.

They do most of what slows a process's first launch: class loading, code generation, Python workers, Kafka
clients. Both its Kafka and the platform's run inside this process (`clients.mock_cluster`). The dagger is a
typical one: a window, a count and a sum, to Kafka.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer
from daggers.v1 import spec_pb2, telemetry_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from pyspark.sql import SparkSession

from daggerspec import rundir
from daggerspec.defaults import fill_defaults
from daggerspec.topics import HEARTBEATS, QUARANTINE
from runtime.clients import mock_cluster
from runtime.clients.kafka import client, client_properties
from runtime.errors import internal
from runtime.launch.driver import Driver
from runtime.launch.launch import Launch
from runtime.source import warmup_source
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch

NAME = "warmup"
# From the second one on they begin as every launch of a spare does: another session of a Spark that has run
# a query. Later ones are for the JVM, which compiles what it has met often: with 6 in place of 2 the launch
# that is waited for takes 1.7 CPU-s, not 2.2. On a slow machine they would take minutes: none of them begins
# after so long.
LAUNCHES, NEEDED = 6, 2
_LONG_S = 60.0
_PATIENCE_S = 120.0
_POLL_S = 0.05
_TOPIC, _ROWS = "beats", "rows"
_SQL = """
SELECT dagger AS tag_dagger, COUNT(1) AS beats, SUM(rows_in) AS records,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM data_stream WHERE host <> ''
GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), dagger"""
_MINUTES, _DAGGERS = 5, 20


def warm_up(session: SparkSession, jvm: JvmWatch, *, over: Callable[[], bool]) -> None:
    """Warm up in a folder of the working directory, until done or `over()`, which is polled.

    Raises: what ends a launch.
    """
    folder = Path.cwd() / rundir.TEMPORARY / NAME
    with mock_cluster.run_cluster([_TOPIC, _ROWS, HEARTBEATS, QUARANTINE]) as address:
        _write(spec_pb2.KafkaAddress(bootstrap_servers=address))
        began = time.monotonic()
        for number in range(1, 1 + LAUNCHES):
            late = number > NEEDED and time.monotonic() - began > _LONG_S
            if not (late or over()):
                _run_launch(job(folder, address, number), session, jvm, over)
    warmup_source.read(session)  # its processes ended after the first batch, as in every launch
    shutil.rmtree(folder, ignore_errors=True)


def job(folder: Path, address: str, number: int) -> spec_pb2.JobSpec:
    """Build a launch's spec as a scheduler would; each launch has a checkpoint of its own."""
    kafka = spec_pb2.KafkaAddress(bootstrap_servers=address)
    spec = spec_pb2.DaggerSpec(cluster=NAME, sql=_SQL)
    spec.trigger.FromMilliseconds(100)
    stream = spec.streams.add(stream=_TOPIC)
    stream.watermark_delay.FromSeconds(1)
    stream.start.earliest = True
    spec.sinks.add().kafka.topic = _ROWS
    job_spec = spec_pb2.JobSpec(
        dagger=NAME,
        version=1,
        generation=number,
        spec=fill_defaults(NAME, spec),
        descriptors=_descriptors(),
        platform=kafka,
        checkpoint_root=str(folder / f"checkpoints-{number}"),
        run_dir=str(folder / str(number)),
    )
    job_spec.clusters.add(name=NAME, spark_master="local", kafka=kafka)
    resolved = job_spec.streams.add(input=job_spec.spec.streams[0], kafka=kafka)
    resolved.stream.name, resolved.stream.cluster = _TOPIC, NAME
    resolved.stream.topics.append(_TOPIC)
    resolved.stream.message, resolved.stream.time_field = telemetry_pb2.Heartbeat.DESCRIPTOR.full_name, "time"
    job_spec.sinks.add(sink=job_spec.spec.sinks[0], kafka=kafka)
    job_spec.batches.records = 1
    return job_spec


def _run_launch(
    job_spec: spec_pb2.JobSpec, session: SparkSession, jvm: JvmWatch, over: Callable[[], bool]
) -> None:
    """Run a launch until it has written rows. Raises: what ends it; JobError when it wrote none."""
    launch = Launch(job_spec, lambda: spark.another(session))
    launch.run_dir.mkdir(parents=True)
    threading.Thread(target=_end_in_time, args=(launch, over), name="warm-up", daemon=True).start()
    Driver(launch, jvm).run()
    if not _has_written(launch) and not over():
        raise internal("WARMUP_FAILED", f"The warm-up run wrote no row within {_PATIENCE_S:g} s.")


def _end_in_time(launch: Launch, over: Callable[[], bool]) -> None:
    """Stop the launch once rows are written and no batch runs, or its time is over."""
    end, is_idle = time.monotonic() + _PATIENCE_S, False
    while not (is_idle or over() or time.monotonic() > end or launch.ended.wait(_POLL_S)):
        is_idle = _has_written(launch) and launch.heartbeat.progress.running_since is None
    launch.stop()
    launch.wake.set()


def _has_written(launch: Launch) -> bool:
    return any(launch.heartbeat.progress.beat.rows_out)


def _write(kafka: spec_pb2.KafkaAddress) -> None:
    """Produce records of some minutes, so that all windows but the last one close."""
    producer = client(Producer, client_properties(kafka) | {"linger.ms": 0})
    begin = datetime.now(UTC) - timedelta(minutes=_MINUTES)
    for minute in range(_MINUTES):
        for number in range(_DAGGERS):
            beat = telemetry_pb2.Heartbeat(dagger=f"dagger-{number}", host="here", rows_in=number)
            beat.time.FromDatetime(begin + timedelta(minutes=minute))
            producer.produce(_TOPIC, beat.SerializeToString(), beat.dagger)
    producer.flush(_PATIENCE_S)


def _descriptors() -> descriptor_pb2.FileDescriptorSet:
    """Collect the descriptors of the message's file and its imports, imports first."""
    files: dict[str, FileDescriptor] = {}

    def add(file: FileDescriptor) -> None:
        for imported in file.dependencies:
            add(imported)
        files.setdefault(file.name, file)

    add(telemetry_pb2.DESCRIPTOR)
    descriptors = descriptor_pb2.FileDescriptorSet()
    for file in files.values():
        file.CopyToProto(descriptors.file.add())
    return descriptors
