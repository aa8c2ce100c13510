"""Run the launches of a driver's process, its members: one, several beside each other, or for now none.

A member has all that a launch owns (ADR 39), a thread, a SQL session and a log. The process has the JVM, the
Spark application and signals, and ends with its last member. One member is there from the beginning: that of
the process's own directory, or the one that a spare is given. Others join by a link in the directory that the
process works in: `members/DAGGER.GENERATION` leads to the run directory of a launch (ADR 230).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from daggers.v1 import events_pb2
from pyspark.sql import SparkSession

from chassis import lastword
from chassis.logging import logger
from daggerspec import exits, rundir
from runtime.launch import driverlog
from runtime.launch.member import Member, write_error
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch

_POLL_S = 1.0


class Sessions:
    """SQL sessions of one Spark application. Thread-safe."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        """start: blocks until Spark is up, and returns the session that it begins with, or raises why not."""
        self._start = start
        self._first: SparkSession | None = None
        self._lock = threading.Lock()

    def open(self) -> SparkSession:
        """Open a session that nobody else has, the first time the one that Spark begins with.

        Raises: why Spark did not start.
        """
        with self._lock:
            if self._first is not None:
                return spark.another(self._first)
            self._first = self._start()
            return self._first


class DriverProcess:
    """The members of this process. Only for the main thread, but for `fail`."""

    def __init__(self, sessions: Sessions, jvm: JvmWatch) -> None:
        self._sessions, self._jvm = sessions, jvm
        self._members: list[Member] = []
        self._joined = set[str]()
        """Names of the links that are members, or were."""
        self._is_stopping = False
        self._news: SimpleQueue[None] = SimpleQueue()  # unlike locks it may be put to in signal handlers

    def run(self, run_dir: Path, generation: int) -> int:
        """Run the launch of a run directory and whatever joins it; return the exit code of the last one."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        signal.signal(signal.SIGUSR1, lambda *_: self._news.put(None))
        driverlog.follow(self._folders)
        with suppress(OSError):  # a full disk costs the last word, not the launch
            lastword.create(Path())
        self._begin(run_dir, generation)
        while True:
            for name, joining in self._find_joining():
                self._joined.add(name)
                self._begin(joining, int(name.rpartition(".")[2]))
            if not self._running():
                if not self._jvm.is_gone():  # else its members have failed of that, and are not to blame
                    lastword.remove(Path())
                return self._members[-1].code or 0
            with suppress(Empty):
                self._news.get(timeout=_POLL_S)

    def fail(self, error: events_pb2.DaggerError) -> int:
        """Write the error that ends the process for each member that runs, or for the process where none
        does; return the exit code.
        """
        for run_dir in [member.run_dir for member in self._running()] or [Path()]:
            write_error(run_dir, error)
        return exits.code(error)

    def _begin(self, run_dir: Path, generation: int) -> None:
        member = Member(run_dir, generation, self._sessions.open, self._jvm)
        self._members.append(member)
        if self._is_stopping:
            member.stop()
        member.start(ended=lambda: self._news.put(None))

    def _running(self) -> list[Member]:
        return [member for member in self._members if member.code is None]

    def _stop(self) -> None:
        self._is_stopping = True
        for member in self._members:
            member.stop()

    def _find_joining(self) -> Iterator[tuple[str, Path]]:
        """Yield the links to launches that have not begun, by name."""
        with suppress(FileNotFoundError):
            for link in sorted(Path(rundir.MEMBERS).iterdir()):
                if link.name not in self._joined and link.name.rpartition(".")[2].isdigit():
                    logger().info("member.joined", link=link.name)
                    yield link.name, link.resolve()

    def _folders(self) -> set[Path]:
        """Return the directories that have a log of this process, or of a member."""
        return {Path.cwd(), *(member.run_dir for member in self._running())}
