"""Planners of streams as threads of the driver's Python, where Spark would start a process for each.

Such a process takes 70 MiB and a second of CPU, and imports what the driver's Python has imported. Spark has
no setting for it. So what it starts hands its connection over (`handover.sitecustomize`), through a named
pipe that only this user can open, and a thread answers Spark in its place, by PySpark's own code.
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
    """Plan the streams of this session's application here; again changes nothing."""
    context = session.sparkContext
    if _PIPE in context.environment:
        return
    context.environment |= listen(Path(str(context._temp_dir)))  # noqa: SLF001 - Spark removes it when it stops


def listen(folder: Path) -> dict[str, str]:
    """Take over whoever is started with the environment that this returns; the pipe is in `folder`."""
    pipe = folder / "planners"
    os.mkfifo(pipe, 0o600)
    _leave_the_process_alone()
    # Open for writing as well: else there would be an end whenever nobody writes.
    told = os.fdopen(os.open(pipe, os.O_RDWR), encoding="utf-8")
    threading.Thread(target=_take, args=(told,), name="planners", daemon=True).start()
    return {_PIPE: str(pipe), "PYTHONPATH": str(Path(handover.__file__).parent)}


def _take(told: IO[str]) -> None:
    for line in told:
        threading.Thread(target=_plan, args=json.loads(line), name="planner", daemon=True).start()


def _plan(path: str | None, port: str | None, secret: str | None, pid: int) -> None:
    """Answer Spark until it hangs up. What fails is told to Spark, which ends its query by it."""
    file, socket = local_connect_and_auth(path or int(port or 0), secret)
    with suppress(OSError, SystemExit), socket, file:  # nobody listens any more, or PySpark wants to exit
        socket.settimeout(None)
        file.write(pid.to_bytes(4))
        file.flush()
        runner.main(file, file)


def _leave_the_process_alone() -> None:
    """PySpark's code takes its process for one of its own: it would change what this one shares."""
    shared: Any = runner
    shared.setup_spark_files = _skip_spark_files
    shared.setup_memory_limits = _keep_limits
    shared.send_accumulator_updates = _no_updates
    shared._accumulatorRegistry = {}  # noqa: SLF001 - it empties the driver's own otherwise


def _skip_spark_files(told: IO[bytes]) -> None:
    """The driver has its path, and its files."""
    told.read(_int(told))
    for _ in range(_int(told)):
        told.read(_int(told))


def _keep_limits(mib: int) -> None:
    """The driver has its own."""


def _no_updates(told: IO[bytes]) -> None:
    """Planners count nothing."""
    told.write(bytes(4))


def _int(told: IO[bytes]) -> int:
    return int.from_bytes(told.read(4))
