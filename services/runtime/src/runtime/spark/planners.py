"""Run planners of streams as threads of the driver's Python, where Spark would start a process for each.

Such a process takes 70 MiB and a second of CPU, and imports again what the driver has imported. Spark has no
setting for it. So a process that Spark starts hands over its connection (`handover.sitecustomize`), through a
named pipe that only this user can open, and a thread answers Spark in its place, by PySpark's own code.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.util import local_connect_and_auth

from runtime.spark import handover

_PIPE = "DAGGERS_PLANNERS"


def serve(session: SparkSession) -> None:
    """Plan the streams of this session's application in this process. Idempotent."""
    context = session.sparkContext
    if _PIPE in context.environment:
        return
    context.environment |= listen(Path(str(context._temp_dir)))  # noqa: SLF001 - Spark removes it when it stops


def listen(folder: Path) -> dict[str, str]:
    """Take over from processes started with the returned environment. The pipe is made in `folder`."""
    pipe = folder / "planners"
    os.mkfifo(pipe, 0o600)
    _disable_process_changes()
    # open for writing, too: else the reader gets an end of file whenever there is no writer
    stream = os.fdopen(os.open(pipe, os.O_RDWR), encoding="utf-8")
    threading.Thread(target=_take, args=(stream,), name="planners", daemon=True).start()
    return {_PIPE: str(pipe), "PYTHONPATH": str(Path(handover.__file__).parent)}


def _take(stream: IO[str]) -> None:
    for line in stream:
        threading.Thread(target=_plan, args=json.loads(line), name="planner", daemon=True).start()


def _plan(path: str | None, port: str | None, secret: str | None, pid: int) -> None:
    """Answer Spark until it hangs up. A failure is sent to Spark, which ends the query by it."""
    file, socket = local_connect_and_auth(path or int(port or 0), secret)
    with suppress(OSError, SystemExit), socket, file:  # Spark has hung up, or PySpark exits
        socket.settimeout(None)
        file.write(pid.to_bytes(4))
        file.flush()
        runner.main(file, file)


def _disable_process_changes() -> None:
    """Disable the steps of PySpark's code that change its process, which here is the driver's."""
    shared: Any = runner
    shared.setup_spark_files = _skip_spark_files
    shared.setup_memory_limits = _skip_limits
    shared.send_accumulator_updates = _send_no_updates
    shared._accumulatorRegistry = {}  # noqa: SLF001 - it empties the driver's own otherwise


def _skip_spark_files(stream: IO[bytes]) -> None:
    """Skip Spark's files in the stream: the driver has its path and files."""
    stream.read(_read_int(stream))
    for _ in range(_read_int(stream)):
        stream.read(_read_int(stream))


def _skip_limits(mib: int) -> None:
    """Leave the memory limits: the driver has its own."""


def _send_no_updates(stream: IO[bytes]) -> None:
    """Send 0 accumulator updates: planners have none."""
    stream.write(bytes(4))


def _read_int(stream: IO[bytes]) -> int:
    return int.from_bytes(stream.read(4))
