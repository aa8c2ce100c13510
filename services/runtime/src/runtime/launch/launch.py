"""Hold what one launch owns and shares with no other launch of its process (ADR 39).

The process owns the rest: the JVM and its watch, the Spark application, signals, driver.log, its exit code.
Code that works for a launch gets the launch as an argument; modules have no state of one.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession

from daggerspec import rundir, sinks
from runtime import members
from runtime.launch import progress
from runtime.launch.heartbeat import HeartbeatSender
from runtime.state.lease import Lease, LeaseWatcher
from runtime.state.store import Place, Store, open_root
from runtime.state.store.local import LocalStore
from runtime.values.registration import Registration


class Computation:
    """A query to compute: its spec, its folder, and a SQL session of its own."""

    def __init__(self, spec: spec_pb2.JobSpec, started: Callable[[], SparkSession]) -> None:
        """started: blocks until the session is there, or raises why it is not."""
        self.spec = spec
        self.run_dir = Path(spec.run_dir)
        self._wait_for_session = started

    @cached_property
    def session(self) -> SparkSession:
        """SQL session, with settings, views and functions of this query alone."""
        return self._wait_for_session()

    @cached_property
    def functions(self) -> Registration:
        """Registration of our functions in the session, with the message types, and their counts."""
        return Registration(self.session, self.spec.descriptors.SerializeToString(deterministic=True))


class Launch(Computation):
    """One launch of one dagger: its spec, lease and heartbeat, and its stop signals."""

    def __init__(self, spec: spec_pb2.JobSpec, started: Callable[[], SparkSession]) -> None:
        """Begin a launch that has not started. started: blocks until the session is there."""
        super().__init__(spec, started)
        self.pid = os.getpid()
        self.heartbeat = HeartbeatSender(
            spec.platform,
            progress.initial(
                spec.dagger,
                spec.generation,
                socket.gethostname(),
                self.pid,
                sinks=sinks.display_names([sink_.sink for sink_ in spec.sinks]),
                objective=spec.spec.freshness.ToTimedelta() if spec.spec.HasField("freshness") else None,
                late_sink=spec.spec.late.keep,
            ),
            run_dir=self.run_dir,
            quiet=spec.HasField("shadow"),
        )
        self.writing = threading.Event()
        """Set while the launch is the dagger's driver: a shadow is not until it takes over."""
        if not spec.HasField("shadow"):
            self.writing.set()
        self.stopping = threading.Event()
        """Set when the launch has to drain, and once it has ended: nothing new begins."""
        self.wake = threading.Event()
        """Set to wake the main thread."""
        self.ended = threading.Event()
        """Set once the query has ended: the launch's threads end, too."""
        self._is_stop_requested = False
        self._watcher: LeaseWatcher | None = None

    @property
    def root(self) -> Place:
        """Root of the checkpoints and the lease. Raises: JobError (EXTERNAL)."""
        return self._open_root[0]

    @cached_property
    def lease(self) -> Lease:
        """Lease of the right to write, not taken yet. Raises: JobError (EXTERNAL)."""
        return Lease(self._open_root[1], self.spec.generation, time.monotonic)

    def take_lease(self) -> None:
        """Take the lease, and watch it from now on, however long the start takes.

        Raises: FencedError; `JobError` (EXTERNAL).
        """
        self.lease.take()
        self._watcher = LeaseWatcher(self.lease, wake=self.wake, ended=self.ended)

    def check_lease(self) -> None:
        """Check the lease, once it is taken. Raises: FencedError, JobError (EXTERNAL)."""
        if self._watcher is not None:
            self._watcher.check()

    @cached_property
    def _open_root(self) -> tuple[Place, Store]:
        """The checkpoints' root, and the store of the lease beside it. Raises: JobError (EXTERNAL)."""
        return open_root(self.spec.checkpoint_root)

    @property
    def lease_in_workers(self) -> LocalStore | None:
        """Store of the lease, if workers can read it; else None."""
        store = self._open_root[1]
        return store if isinstance(store, LocalStore) else None

    def in_step(self, step: str) -> AbstractContextManager[None]:
        """Record a step within the context: the last word of this process, if it is killed there."""
        return members.in_step(self.spec.dagger, self.spec.generation, step)

    def stop(self) -> None:
        """Request a drain. Takes no lock: it runs in signal handlers, whose thread may hold any."""
        self._is_stop_requested = True

    def may_refuse(self) -> bool:
        """Tell whether somebody has allowed sinks, for a while, to refuse any number of rows."""
        try:
            return time.time() < float((self.run_dir / rundir.ALLOWED).read_text())
        except (OSError, ValueError):
            return False

    def paused_sinks(self) -> frozenset[str]:
        """Return the sinks that somebody has paused: their rows wait in their logs."""
        try:
            return frozenset((self.run_dir / rundir.PAUSED).read_text().split())
        except (OSError, ValueError):
            return frozenset()

    def must_stop(self) -> bool:
        """Tell whether a drain was requested, by a signal or the stop file."""
        if self._is_stop_requested or (self.run_dir / rundir.STOP).exists():
            self.stopping.set()
        return self.stopping.is_set()
