"""Run a driver's process from command line to exit code: one launch, or a spare without any yet (ADR 89).

Exit codes: 0 drained, 64 USER, 69 EXTERNAL, 70 INTERNAL, 75 fenced by a newer generation.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO, cast

from pyspark.sql import SparkSession

from chassis.logging import configure
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity
from runtime import members
from runtime.hiding import redact
from runtime.launch import warmup_run
from runtime.launch.member import write_error
from runtime.launch.process import DriverProcess, Sessions
from runtime.launch.spare import Spare
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch

_SHUTDOWN_S = 10.0
_LAST_WORDS_S = 2.0  # less than the scheduler's wrapper lingers


def main(arguments: Sequence[str], started: Callable[[], SparkSession]) -> int:
    """Run the process and return its exit code.

    started: blocks until Spark is up, or raises why it is not.
    """
    parser = argparse.ArgumentParser(prog="runtime", description="Runs launches of daggers.")
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
    configure(rundir.DRIVER_LOGGER, stream=cast(TextIO, members.Output()), as_driver=True, hidden=redact)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jvm = JvmWatch()
    with ExitStack() as stack:
        sessions = Sessions(lambda: stack.enter_context(spark.stop_at_exit(started())))
        process = DriverProcess(sessions, jvm)
        jvm.follow(lambda: _end_without_jvm(process, jvm))
        try:
            if options.spare is None:
                return process.run(options.spec.resolve().parent, options.generation)
            assigned = _wait(Spare.listen(options.spare), sessions, jvm)
            # a spare's directory was renamed to that of its launch, with its processes in it
            return process.run(Path.cwd(), assigned.generation) if assigned is not None else 0
        except Exception as failure:  # noqa: BLE001 - nothing above this can report why the process ends
            return write_error(Path(), jvm.explain(failure), failure)


def _wait(spare: Spare, sessions: Sessions, jvm: JvmWatch) -> DriverIdentity | None:
    """Warm up, and wait for a launch; None when it is over. Raises: what ends the spare."""
    session = sessions.open()
    warmup_run.warm_up(session, jvm, over=spare.is_over)
    return spare.wait(session.sparkContext.uiWebUrl or "")


def _end_without_jvm(process: DriverProcess, jvm: JvmWatch) -> None:
    """End the process after the JVM's death, with a pause in which members may log and end first."""
    code = process.fail(jvm.death())
    time.sleep(_LAST_WORDS_S)
    os._exit(code)


def leave(code: int) -> None:
    """Exit, even if a thread of Spark does not end."""
    last_resort = threading.Timer(_SHUTDOWN_S, os._exit, args=(code,))
    last_resort.daemon = True
    last_resort.start()
    sys.exit(code)
