"""What one launch owns, and shares with no other launch of its process (ADR 39).

The process owns the rest: the JVM and its watch, the Spark application, signals, driver.log, its exit code.
Whoever works for a launch is given the launch; nothing of one stands in a module.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession

from daggerspec import rundir, sinks
from runtime.launch import progress
from runtime.launch.heartbeat import HeartbeatSender
from runtime.state.lease import Lease, LeaseWatcher
from runtime.state.store import Place, Store, open_root
from runtime.state.store.local import LocalStore
from runtime.values.registration import Registration


class Computed:
    """What is computed: a spec, its folder, and the SQL session that no other has."""

    def __init__(self, spec: spec_pb2.JobSpec, started: Callable[[], SparkSession]) -> None:
        """`started` waits for that session; raises why there is none."""
        self.spec = spec
        self.run_dir = Path(spec.run_dir)
        self._started = started

    @cached_property
    def session(self) -> SparkSession:
        """Its SQL session: its settings, views, functions and query."""
        return self._started()

    @cached_property
    def functions(self) -> Registration:
        """Our functions in its session, with its message types, and what they count."""
        return Registration(self.session, self.spec.descriptors.SerializeToString(deterministic=True))


class Launch(Computed):
    """One launch of one dagger: its spec, its heartbeat, and how to stop it."""

    def __init__(self, spec: spec_pb2.JobSpec, started: Callable[[], SparkSession]) -> None:
        """As what is computed."""
        super().__init__(spec, started)
        self.pid = os.getpid()
        self.heartbeat = HeartbeatSender(
            spec.platform,
            progress.launched(
                spec.dagger,
                spec.generation,
                socket.gethostname(),
                self.pid,
                sinks=sinks.called([sink_.sink for sink_ in spec.sinks]),
            ),
            quiet=spec.HasField("shadow"),
        )
        self.writing = threading.Event()
        """Set where it is the dagger's driver: a shadow is none until it is handed over."""
        if not spec.HasField("shadow"):
            self.writing.set()
        self.stopping = threading.Event()
        """Set when it is to drain, and once it has ended: nothing new is begun."""
        self.wake = threading.Event()
        """Set to end a wait of its main thread early."""
        self.ended = threading.Event()
        """Set once its query has ended: so do its threads."""
        self._asked = False
        self._watcher: LeaseWatcher | None = None

    @property
    def root(self) -> Place:
        """Where its checkpoints and its lease are. Raises `JobError` (EXTERNAL)."""
        return self._opened[0]

    @cached_property
    def lease(self) -> Lease:
        """Its right to write, not taken yet. Raises `JobError` (EXTERNAL)."""
        return Lease(self._opened[1], self.spec.generation, time.monotonic)

    def take_lease(self) -> None:
        """Take its right to write, and watch it from here on, however long the rest of its start takes.

        Raises: FencedError; `JobError` (EXTERNAL).
        """
        self.lease.take()
        self._watcher = LeaseWatcher(self.lease, wake=self.wake, ended=self.ended)

    def check_lease(self) -> None:
        """Return if it may go on, as far as its lease goes, once that is taken. Raises as `Lease.check`."""
        if self._watcher is not None:
            self._watcher.check()

    @cached_property
    def _opened(self) -> tuple[Place, Store]:
        """Where its checkpoints are, and its lease beside them. Raises `JobError` (EXTERNAL)."""
        return open_root(self.spec.checkpoint_root)

    @property
    def lease_in_workers(self) -> LocalStore | None:
        """The lease where workers can look at it."""
        store = self._opened[1]
        return store if isinstance(store, LocalStore) else None

    def stop(self) -> None:
        """Ask for a drain. Takes no lock: it is a signal handler, and its thread may hold any."""
        self._asked = True

    def may_refuse(self) -> bool:
        """Whether its sinks may refuse as many rows as they like now: somebody said so for a while."""
        try:
            return time.time() < float((self.run_dir / rundir.ALLOWED).read_text())
        except (OSError, ValueError):
            return False

    def must_stop(self) -> bool:
        """Whether a drain was asked for, by signal or by the stop file."""
        if self._asked or (self.run_dir / rundir.STOP).exists():
            self.stopping.set()
        return self.stopping.is_set()
