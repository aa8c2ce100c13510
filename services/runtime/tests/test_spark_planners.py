"""Spark's process for a planner hands its connection over, and a thread of this process answers Spark."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
from pyspark import cloudpickle
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.types import LongType, StructType

from runtime.spark import planners

PATIENCE_S = 60.0


class Planned(DataSource):
    """A stream that begins with the process which plans it."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return PlannedReader()


class PlannedReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"pid": os.getpid()}

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield from ()


def tell(to: IO[bytes], value: bytes) -> None:
    to.write(len(value).to_bytes(4) + value)


def integer(told: IO[bytes]) -> int:
    return int.from_bytes(told.read(4))


def becomes(pid: int, name: str) -> bool:
    """Whether the process gets this name."""
    deadline = time.monotonic() + PATIENCE_S
    while psutil.Process(pid).name() != name and time.monotonic() < deadline:
        time.sleep(0.01)
    return psutil.Process(pid).name() == name


def test_a_thread_of_this_process_plans_and_what_spark_started_ends_with_spark(tmp_path: Path) -> None:
    environment = planners.listen(tmp_path)
    shared = object()
    _accumulatorRegistry[-1] = shared  # type: ignore[assignment]  # whatever it is, it is the driver's
    path = list(sys.path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as spark:
        spark.settimeout(PATIENCE_S)
        spark.bind(str(tmp_path / "s"))
        spark.listen()
        started = subprocess.Popen(
            [sys.executable, "-m", runner.__name__],
            stdin=subprocess.PIPE,
            env={**environment, "PATH": os.defpath, "PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "s")},
        )
        connection, _ = spark.accept()
        with connection, connection.makefile("rwb") as channel:
            told = integer(channel)
            tell(channel, "{}.{}".format(*sys.version_info).encode())
            tell(channel, b"/nowhere")
            channel.write(bytes(4))
            tell(channel, cloudpickle.dumps(Planned({})))
            tell(channel, StructType().add("n", LongType()).json().encode())
            channel.write((10_000).to_bytes(4))
            channel.flush()
            ready = integer(channel)
            channel.write(runner.INITIAL_OFFSET_FUNC_ID.to_bytes(4))
            channel.flush()
            planner = json.loads(channel.read(integer(channel)))
            stands_in = becomes(started.pid, "cat")
        assert started.stdin is not None
        started.stdin.close()
        code = started.wait(PATIENCE_S)

    assert (told, ready, planner, stands_in) == (started.pid, 0, {"pid": os.getpid()}, True)
    assert (code, _accumulatorRegistry.pop(-1), sys.path) == (0, shared, path)


def test_other_processes_of_spark_begin_as_ever(tmp_path: Path) -> None:
    environment = planners.listen(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "print('worker')"], env=environment, capture_output=True, text=True, check=True
    )

    assert (done.stdout, done.stderr) == ("worker\n", "")
