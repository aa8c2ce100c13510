"""Run previews one after another in a process that listens at a socket.

A connection is a preview: a `PreviewJob` comes, and its steps go back in frames, as `runtime.framed` writes
them. A caller that hangs up has ended it; the connection is closed from here once the process is free again.

    P  PreviewDaggerResponse   a step
    E  DaggerError             why there are no more
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

from daggers.v1 import events_pb2, host_pb2
from pyspark.sql import SparkSession

from chassis import processes
from chassis.logging import configure, logger
from daggerspec import exits, rundir
from runtime import framed
from runtime.hiding import redact
from runtime.launch import warmup_run
from runtime.preview.run import Preview, Step
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch

STEP: Final = b"P"
_POLL_S: Final = 0.5
_LONGEST: Final = 64 * 1024 * 1024


def main(arguments: Sequence[str], started: Callable[[], SparkSession]) -> int:
    """Preview until the scheduler is gone; return the exit code. `started` waits for Spark."""
    parser = argparse.ArgumentParser(prog="runtime", description="Previews daggers.")
    parser.add_argument("--preview", metavar="PID:TICKS", required=True, help="preview as long as this lives")
    whose = parser.parse_args(arguments).preview
    configure(rundir.DRIVER_LOGGER, as_driver=True, hidden=redact)
    jvm = JvmWatch()
    jvm.follow(lambda: _leave(jvm.death()))
    try:
        with ExitStack() as process, _listening() as server:
            session = process.enter_context(spark.stop_at_exit(started()))
            _serve(server, session, jvm, partial(_gone, whose))
    except Exception as failure:  # noqa: BLE001 - the last place that can say why the process ends
        error = jvm.explain(failure)
        logger().error("preview.ended", reason=error.reason, detail=error.detail, exc_info=failure)
        return exits.code(error)
    return 0


def _serve(server: socket.socket, session: SparkSession, jvm: JvmWatch, gone: Callable[[], bool]) -> None:
    """Run a preview for each connection. With none at once the process warms up first; else a preview does
    it.
    """
    if not _waits(server, 0):
        warmup_run.warm_up(session, jvm, over=lambda: gone() or _waits(server, 0))
    logger().info("preview.host_started")
    while not gone():
        if _waits(server, _POLL_S):
            connection, _ = server.accept()
            with connection:
                _answer(connection, session, jvm)


def _answer(connection: socket.socket, session: SparkSession, jvm: JvmWatch) -> None:
    """Run one preview, and remove its folder."""
    request = _read(connection)
    if request is None:
        return
    job = host_pb2.PreviewJob.FromString(request)
    run_dir = Path(job.job.run_dir)
    run_dir.mkdir()
    hung_up = threading.Event()
    threading.Thread(target=_listen, args=(connection, hung_up), name="caller", daemon=True).start()
    out = connection.makefile("wb")

    def send(kind: bytes, message: bytes) -> None:
        try:
            framed.frame(out, kind, message)
        except OSError:
            hung_up.set()

    def send_step(message: Step) -> None:
        send(STEP, message.SerializeToString())

    preview = Preview(job, session, send_step, hung_up.is_set)
    try:
        preview.run()
    except Exception as failure:  # noqa: BLE001 - the caller gets it
        error = jvm.explain(failure)
        logger().info("preview.failed", reason=error.reason, detail=error.detail)
        send(framed.ERROR, error.SerializeToString())
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)
        with suppress(OSError):
            out.close()
    if not preview.ends():  # the next one would share the processor with it
        logger().warning("preview.blocked")
        os._exit(1)


def _listening() -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(rundir.SOCKET)  # by a short name: a path may have 107 bytes
    server.listen(1)
    return server


def _waits(server: socket.socket, seconds: float) -> bool:
    return bool(select.select([server], [], [], seconds)[0])


def _read(connection: socket.socket) -> bytes | None:
    """Read the one message of a connection; None when the caller has hung up before."""
    with connection.makefile("rb") as source:
        head = source.read(4)
        size = int.from_bytes(head, "big")
        content = source.read(size) if len(head) == 4 and size <= _LONGEST else b""
    return content if content and len(content) == size else None


def _listen(connection: socket.socket, hung_up: threading.Event) -> None:
    """Wait until the caller hangs up: it sends nothing more."""
    with suppress(OSError):
        connection.recv(1)
    hung_up.set()


def _gone(scheduler: str) -> bool:
    pid, _, ticks = scheduler.partition(":")
    return processes.start_ticks(int(pid)) != int(ticks) or not Path.cwd().is_dir()


def _leave(why: events_pb2.DaggerError) -> None:
    os._exit(exits.code(why))
