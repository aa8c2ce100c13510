"""One attempt of a replay, from its command line to its exit code: without Spark, or, where its request asks
for the query to be computed, as the Python half of a Spark application.

0: each record that was meant has an outcome, and `outcomes.json` counts them. Else as a driver: 64 USER,
69 EXTERNAL, 70 INTERNAL, 75 fenced by a newer attempt, and `exit.json` says why.
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
from runtime.hiding import hidden
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
    """Run the attempt; the exit code. `session` waits for Spark; None: there is none."""
    parser = argparse.ArgumentParser(
        prog="python -m runtime.replay",
        description="Runs one attempt of a replay of what a dagger has set aside.",
    )
    parser.add_argument(
        "--replay", action="store_true", help="said to a Spark application, which may be more"
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="directory with spec.pb and replay.pb")
    parser.add_argument(
        "--generation", type=int, required=True, help="number of the attempt: newer ones are greater"
    )
    parser.add_argument("--sequence", type=int, required=True, help="sequence of the replay's request")
    parser.add_argument("--created", type=int, required=True, help="sequence of the dagger's creation")
    options = parser.parse_args(arguments)
    folder: Path = options.run_dir.resolve()
    configure(rundir.REPLAY_LOGGER, as_driver=True, hidden=hidden)
    driverlog.follow(folder)
    try:
        attempt = Attempt(
            planned.read_spec(folder / rundir.SPEC, options.generation),
            _request(folder / rundir.REPLAY),
            options.sequence,
            options.created,
        )
        counts = _Run(attempt.spec, folder).counts(attempt, session)
    except Exception as failure:  # noqa: BLE001 - the last place that can say why the process ends
        error = explain(failure)
        replace_text(folder / rundir.EXIT, errors.as_json(error))
        with suppress(OSError):
            logger().error("replay.ended", reason=error.reason, detail=error.detail, exc_info=failure)
        return exits.code(error)
    replace_text(folder / rundir.OUTCOMES, json.dumps(counts), durable=True)
    logger().info("replay.finished", **counts)
    return 0


class _Run:
    """One attempt's right to write, and what ends it."""

    def __init__(self, spec: spec_pb2.JobSpec, folder: Path) -> None:
        self._folder, self._stopping = folder, threading.Event()
        self._root, self._has_spark = _local(spec.checkpoint_root), False
        self._spec = spec
        store = LocalStore(self._root / "replay" if self._root else folder.parent / f"{spec.dagger}.lease")
        self._lease = Lease(store, spec.generation, time.monotonic)

    def counts(self, attempt: Attempt, session: Callable[[], SparkSession] | None) -> dict[str, int]:
        """Run it. Raises: JobError."""
        with suppress(ValueError):  # not the main thread of a test
            signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())
        self._lease.take()
        computed = None
        if session is not None:
            from runtime.launch.launch import Computed  # with Spark, which no other replay has

            computed, self._has_spark = Computed(attempt.spec, session), True
        counts = replay(
            attempt, wait=self._wait, confirm=self._confirm, closed=self._closed, computed=computed
        )
        return dict(counts)

    def _confirm(self) -> None:
        self._stand()
        self._lease.confirm()

    def _wait(self, seconds: float) -> None:
        self._stopping.wait(seconds)
        self._stand()

    def _stand(self) -> None:
        if self._stopping.is_set() or (self._folder / rundir.STOP).exists():
            raise external(
                "STOPPED", "It was told to stop before each record had its outcome.", retryable=True
            )

    def _closed(self, plan: daggersql.Plan) -> datetime | None:
        """Up to which event time the dagger's driver has closed windows; None: none, or it takes a JVM."""
        identity = state.identity(self._spec.spec, plan)
        if self._root is not None:
            return checkpoint.closed(LocalPlace(self._root), identity)
        if not self._has_spark:
            return None
        return checkpoint.closed(open_root(self._spec.checkpoint_root)[0], identity)


def _local(checkpoint_root: str) -> Path | None:
    """The directory that a checkpoint root names; None for one that takes a JVM to look at."""
    directory = checkpointroot.directory(checkpoint_root)
    return None if directory is None else Path(directory)


def _request(path: Path) -> events_pb2.QuarantineReplayRequested:
    try:
        return events_pb2.QuarantineReplayRequested.FromString(path.read_bytes())
    except (OSError, DecodeError):
        raise internal("BAD_SPEC", f"The replay's file {path} is none.") from None
