"""What a replay of rows that a sink refused takes: until it begins to write, in all, and of memory.

    .venv/bin/python bench/replay.py [--rows N] [--others N]

N rows of one dagger stand in `daggers.quarantine`, behind as many records of another one as --others says.
`python -m runtime.replay` writes them to a topic by the sink `kafka`, as the scheduler would start it. Start:
until it has read what is meant; in seconds, and in those of a processor, which say the same on a machine that
has other work. Memory: the most that was resident, as the kernel counts it. It ends with 1 above a bar: 2 s
until it begins, 30 s in all, 200 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import pyarrow as pa
import workload
from confluent_kafka import Consumer, TopicPartition
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2
from google.protobuf import descriptor_pb2
from machine import header
from stack import stack

from daggerspec import rundir, sinks
from daggerspec.defaults import fill_defaults
from daggerspec.topics import QUARANTINE
from runtime.clients.quarantine import Quarantine
from runtime.launch.refused_rows import to_ipc_stream
from scheduler.drivers import command

NAME: Final = "bench"
GENERATION: Final = 100
START_S: Final = 2.0
WHOLE_S: Final = 30.0
MEMORY_MIB: Final = 200.0
_TIME: Final = pa.timestamp("us", "UTC")


class Taken(NamedTuple):
    """What something takes."""

    s: float
    cpu_s: float
    """Of a processor."""

    def __str__(self) -> str:
        return f"{self.s:.2f} s ({self.cpu_s:.2f} CPU-s)"


SCHEMA: Final = pa.schema(
    [("tag_status", pa.string()), ("n", pa.int64()), ("window_timestamp", _TIME), ("__window_start", _TIME),
     ("__window_end", _TIME), ("__key_0", pa.string())]
)  # fmt: skip
SQL: Final = (
    "SELECT status AS tag_status, count(1) AS n,"
    " TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp"
    " FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), status"
)


def main() -> None:
    """Measure it once."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=100_000)
    arguments.add_argument("--others", type=int, default=100_000)
    given = arguments.parse_args()
    print(header("pyarrow", "confluent-kafka"))
    with stack() as on, tempfile.TemporaryDirectory(prefix="daggers-bench-") as folder:
        workload.create_topic(on.kafka, "replayed")
        fill(on.kafka, "another", given.others)
        before = ends(on.kafka)
        fill(on.kafka, NAME, given.rows)
        up_to = ends(on.kafka)
        asked = events_pb2.QuarantineReplayRequested(
            name=NAME, replay_id="bench", up_to=up_to, records=given.rows
        )
        asked.starts.update({number: before[number] for number in up_to})
        start, whole, memory, counts = run(job(on.kafka, folder), asked, Path(folder))
    print(f"{counts}: start {start}, in all {whole}, {memory:.0f} MiB")
    assert counts == {"REPLAYED": given.rows}
    sys.exit(start.s > START_S or whole.s > WHOLE_S or memory > MEMORY_MIB)


def fill(kafka: str, dagger: str, count: int) -> None:
    """So many rows that a sink refused."""
    quarantine = Quarantine({"bootstrap.servers": kafka})
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for number in range(count):
        begin = noon + timedelta(minutes=number % 1_000)
        end, status = begin + timedelta(minutes=1), f"STATUS-{number}"
        row = {"tag_status": status, "n": number, "window_timestamp": end, "__window_start": begin,
               "__window_end": end, "__key_0": status}  # fmt: skip
        record = telemetry_pb2.Quarantined(
            dagger=dagger, generation=GENERATION - 1, topic="out", sink="out", stage="sink",
            reason="CONSTRAINT", detail="it is refused", key=status.encode(),
            decoded_prefix=json.dumps({"tag_status": status, "n": number}),
            row=to_ipc_stream(pa.RecordBatch.from_pylist([row], schema=SCHEMA)),
        )  # fmt: skip
        quarantine.put(record, status)
    quarantine.flush()


def ends(kafka: str) -> dict[int, int]:
    """Where each partition of the quarantine ends."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "bench"})
    try:
        partitions = consumer.list_topics(QUARANTINE, 10).topics[QUARANTINE].partitions
        return {n: consumer.get_watermark_offsets(TopicPartition(QUARANTINE, n), 10)[1] for n in partitions}
    finally:
        consumer.close()


def job(kafka: str, folder: str) -> spec_pb2.JobSpec:
    """The launch as a scheduler writes it."""
    made = spec_pb2.JobSpec(
        dagger=NAME,
        version=1,
        generation=GENERATION,
        checkpoint_root=f"{folder}/checkpoints",
        run_dir=f"{folder}/run",
    )
    made.platform.bootstrap_servers = kafka
    made.spec.sql, made.spec.cluster = SQL, "local"
    made.clusters.add(name="local", spark_master="local[2]", kafka=made.platform)
    read = made.streams.add()
    read.kafka.bootstrap_servers = kafka
    read.input.table, read.input.stream = "data_stream", "bookings"
    read.stream.name, read.stream.cluster = "bookings", "local"
    read.stream.topics.append("bookings")
    read.stream.message, read.stream.time_field = workload.MESSAGE, "event_timestamp"
    made.spec.streams.append(read.input)
    made.descriptors.CopyFrom(files())
    out = made.sinks.add()
    out.kafka.bootstrap_servers = kafka
    out.sink.name, out.sink.kafka.topic, out.sink.kafka.format = (
        "out",
        "replayed",
        spec_pb2.KafkaSink.FORMAT_JSON,
    )
    sinks.fill(out.sink, NAME, made.spec)
    made.spec.sinks.append(out.sink)
    made.spec.CopyFrom(fill_defaults(NAME, made.spec))
    return made


def files() -> descriptor_pb2.FileDescriptorSet:
    """The message of the stream, and what it imports."""
    message = workload.message_class().DESCRIPTOR.file
    made = descriptor_pb2.FileDescriptorSet()
    for file in (*message.dependencies, message):
        file.CopyToProto(made.file.add())
    return made


def run(
    spec: spec_pb2.JobSpec, asked: events_pb2.QuarantineReplayRequested, folder: Path
) -> tuple[Taken, Taken, float, dict[str, int]]:
    """What it takes until it knows what is meant, and in all, MiB, and what became of the rows."""
    home = folder / "run"
    home.mkdir()
    (home / rundir.SPEC).write_bytes(spec.SerializeToString())
    (home / rundir.REPLAY).write_bytes(asked.SerializeToString())
    words = ["--generation", str(GENERATION), "--sequence", "90", "--created", "10"]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "runtime.replay", "--run-dir", home, *words],
        env=command.replay_environment(spec, {"HOME": str(folder), "USER": "bench"}),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    start, said = Taken(0.0, 0.0), list[str]()
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if not start.s and re.search(r"\bmeant", line):
            spent = psutil.Process(process.pid).cpu_times()
            start = Taken(time.monotonic() - began, spent.user + spent.system)
    _, status, used = os.wait4(process.pid, 0)
    whole = Taken(time.monotonic() - began, used.ru_utime + used.ru_stime)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("".join(said[-20:]))
    return start, whole, used.ru_maxrss / 1024, json.loads((home / rundir.OUTCOMES).read_text())


if __name__ == "__main__":
    main()
