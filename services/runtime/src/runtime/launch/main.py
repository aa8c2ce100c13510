"""Run one launch of one dagger, or a spare before it has one (ADR 89), from command line to exit code.

Exit codes: 0 drained, 64 USER, 69 EXTERNAL, 70 INTERNAL, 75 fenced by a newer generation. With an error,
`exit.json` beside the spec has it in one sentence; stack traces stay on stderr, which is driver.log.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from daggers.v1 import events_pb2
from pyspark.sql import SparkSession

from chassis.files import replace_text
from chassis.logging import configure, logger
from daggerspec import exits, rundir
from runtime import errors
from runtime.hiding import redact
from runtime.launch import driverlog, planned, warmup_run
from runtime.launch.driver import Driver
from runtime.launch.launch import Launch
from runtime.launch.spare import Spare
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch

_SHUTDOWN_S = 10.0
_LAST_WORDS_S = 2.0  # less than the scheduler's wrapper lingers


def main(arguments: Sequence[str], started: Callable[[], SparkSession]) -> int:
    """Run the launch and return its exit code. started: blocks until Spark is up, or raises why it is not."""
    parser = argparse.ArgumentParser(prog="runtime", description="Runs one launch of one dagger.")
    parser.add_argument("--spec", type=Path, help="file that holds the serialised JobSpec")
    parser.add_argument("--generation", type=int, help="generation of this launch")
    parser.add_argument(
        "--spare",
        metavar="PID:TICKS",
        help="wait for a launch, as long as this scheduler lives, in its place",
    )
    options = parser.parse_args(arguments)
    if (options.spec is None, options.generation is None) != (options.spare is not None,) * 2:
        parser.error("a launch has --spec and --generation, a spare has --spare alone")
    configure(rundir.DRIVER_LOGGER, as_driver=True, hidden=redact)
    # a spare's directory is renamed to that of its launch, with its processes in it
    folder = Path() if options.spare else options.spec.resolve().parent
    jvm = JvmWatch()
    jvm.follow(lambda: _end_without_jvm(folder, jvm.death()))
    try:
        with ExitStack() as process:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

            def session() -> SparkSession:
                return process.enter_context(spark.stop_at_exit(started()))

            if options.spare is None:
                _run(folder, options.generation, session, jvm)
            else:
                _wait(folder, Spare.listen(options.spare), session(), jvm)
    except Exception as failure:  # noqa: BLE001 - nothing above this can report why the process ends
        return _write_exit(folder, jvm.explain(failure), failure)
    return 0


def _wait(folder: Path, spare: Spare, session: SparkSession, jvm: JvmWatch) -> None:
    """Warm up, wait for a launch, and run it. Raises: what ends the launch."""
    warmup_run.warm_up(session, jvm, over=spare.is_over)
    assigned = spare.wait(session.sparkContext.uiWebUrl or "")
    if assigned is not None:
        _run(folder, assigned.generation, lambda: spark.another(session), jvm)


def _run(folder: Path, generation: int, session: Callable[[], SparkSession], jvm: JvmWatch) -> None:
    """Run the launch of this directory. Raises: what ends it."""
    driverlog.follow(folder)
    launch = Launch(planned.read_spec(folder / rundir.SPEC, generation), session)
    driver = Driver(launch, jvm)
    signal.signal(signal.SIGTERM, lambda *_: launch.stop())
    driver.announce()
    driver.run()


def _end_without_jvm(folder: Path, why: events_pb2.DaggerError) -> None:
    """End the process after the JVM's death, with a pause in which the main thread may log and end first."""
    code = _write_exit(folder, why)
    time.sleep(_LAST_WORDS_S)
    os._exit(code)


def _write_exit(folder: Path, error: events_pb2.DaggerError, failure: Exception | None = None) -> int:
    """Write exit.json and log the error; return the exit code."""
    replace_text(folder / rundir.EXIT, errors.as_json(error))
    with suppress(OSError):  # output goes through the JVM, which may be gone
        # the trace follows the line, as text without a time of its own
        logger().error("driver.ended", reason=error.reason, detail=error.detail, exc_info=failure)
    return exits.code(error)


def leave(code: int) -> None:
    """Exit, even if a thread of Spark does not end."""
    last_resort = threading.Timer(_SHUTDOWN_S, os._exit, args=(code,))
    last_resort.daemon = True
    last_resort.start()
    sys.exit(code)
