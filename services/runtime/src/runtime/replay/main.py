"""Run one attempt of a replay, from its command line to its exit code: without Spark, or, where its request
wants the query computed, as the Python half of a Spark application.

Exit codes: 0: each selected record has an outcome, and `outcomes.json` counts them. Else those of a driver:
64 USER, 69 EXTERNAL, 70 INTERNAL, 75 fenced by a newer attempt; `exit.json` has the error.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import DecodeError

import daggersql
from chassis.files import replace_text
from chassis.logging import configure, logger
from daggerspec import checkpointroot, exits, rundir, state
from runtime import errors
from runtime.errors import external, internal
from runtime.hiding import redact
from runtime.launch import driverlog, planned
from runtime.replay.replaying import Attempt, replay
from runtime.state import checkpoint
from runtime.state.lease import Lease
from runtime.state.store import open_root
from runtime.state.store.local import LocalPlace, LocalStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(
    arguments: Sequence[str],
    session: Callable[[], SparkSession] | None = None,
    explain: Callable[[BaseException], events_pb2.DaggerError] = errors.explain,
) -> int:
    """Run the attempt and return its exit code.

    session: blocks until the Spark session is up; None: this attempt has no Spark. explain: turns a failure
    into the error of `exit.json`.
    """
    parser = argparse.ArgumentParser(
        prog="python -m runtime.replay",
        description="Runs one attempt of a replay of what a dagger has quarantined.",
    )
    parser.add_argument(
        "--replay",
        action="store_true",
        help="selects the replay in a Spark application that has other modes, too",
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="directory with spec.pb and replay.pb")
    parser.add_argument(
        "--generation", type=int, required=True, help="number of the attempt: newer ones are greater"
    )
    parser.add_argument("--sequence", type=int, required=True, help="sequence of the replay's request")
    parser.add_argument("--created", type=int, required=True, help="sequence of the dagger's creation")
    options = parser.parse_args(arguments)
    folder: Path = options.run_dir.resolve()
    configure(rundir.REPLAY_LOGGER, as_driver=True, hidden=redact)
    driverlog.follow(lambda: [folder])
    try:
        attempt = Attempt(
            planned.read_spec(folder / rundir.SPEC, options.generation),
            _read_request(folder / rundir.REPLAY),
            options.sequence,
            options.created,
        )
        counts = _AttemptRun(attempt.spec, folder).run(attempt, session)
    except Exception as failure:  # noqa: BLE001 - nothing above this can report why the process ends
        error = explain(failure)
        replace_text(folder / rundir.EXIT, errors.as_json(error))
        with suppress(OSError):
            logger().error("replay.ended", reason=error.reason, detail=error.detail, exc_info=failure)
        return exits.code(error)
    replace_text(folder / rundir.OUTCOMES, json.dumps(counts), durable=True)
    logger().info("replay.finished", **counts)
    return 0


class _AttemptRun:
    """Runs an attempt under its lease, until it is done, stopped or fenced."""

    def __init__(self, spec: spec_pb2.JobSpec, folder: Path) -> None:
        self._folder, self._stopping = folder, threading.Event()
        self._root, self._has_spark = _local_directory(spec.checkpoint_root), False
        self._spec = spec
        store = LocalStore(self._root / "replay" if self._root else folder.parent / f"{spec.dagger}.lease")
        self._lease = Lease(store, spec.generation, time.monotonic)

    def run(self, attempt: Attempt, session: Callable[[], SparkSession] | None) -> dict[str, int]:
        """Take the lease, replay, and return how many records have each outcome. Raises: JobError."""
        with suppress(ValueError):  # a test may run this outside the main thread
            signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())
        self._lease.take()
        computed = None
        if session is not None:
            from runtime.launch.launch import Computation  # brings Spark, which no other replay has

            computed, self._has_spark = Computation(attempt.spec, session), True
        counts = replay(
            attempt,
            wait=self._wait,
            confirm=self._confirm,
            closed_until=self._closed_until,
            computed=computed,
        )
        return dict(counts)

    def _confirm(self) -> None:
        self._raise_if_stopped()
        self._lease.confirm()

    def _wait(self, seconds: float) -> None:
        self._stopping.wait(seconds)
        self._raise_if_stopped()

    def _raise_if_stopped(self) -> None:
        if self._stopping.is_set() or (self._folder / rundir.STOP).exists():
            raise external(
                "STOPPED", "It was told to stop before each record had its outcome.", retryable=True
            )

    def _closed_until(self, plan: daggersql.Plan) -> datetime | None:
        """Return the event time up to which the dagger's driver has closed windows.

        None: it has closed none, or the checkpoint is in a store that only a JVM can read.
        """
        identity = state.identity(self._spec.spec, plan)
        if self._root is not None:
            return checkpoint.closed_until(LocalPlace(self._root), identity)
        if not self._has_spark:
            return None
        return checkpoint.closed_until(open_root(self._spec.checkpoint_root)[0], identity)


def _local_directory(checkpoint_root: str) -> Path | None:
    """Return the directory of a checkpoint root; None for a store that only a JVM can read."""
    directory = checkpointroot.directory(checkpoint_root)
    return None if directory is None else Path(directory)


def _read_request(path: Path) -> events_pb2.QuarantineReplayRequested:
    try:
        return events_pb2.QuarantineReplayRequested.FromString(path.read_bytes())
    except (OSError, DecodeError):
        raise internal("BAD_SPEC", f"The replay's file {path} is none.") from None
