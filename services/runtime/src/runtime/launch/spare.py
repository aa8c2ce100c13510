"""A driver that has no launch yet, and waits for one where it works (ADR 89).

Its working directory says what it is. Below the spares it is one, and renamed to a launch's run directory it
is that launch's driver: spec and identity are there already. SIGUSR1 only has it look at once: a SIGTERM that
came late would be a drain.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from chassis import drivers, processes
from chassis.files import replace_text
from chassis.logging import logger
from chassis.processes import Process
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity
from runtime.errors import internal

_POLL_S = 0.5


class Spare:
    """The spare that this process is. `scheduler` is whose it is: PID:START_TICKS."""

    def __init__(self, scheduler: str) -> None:
        pid, _, start_ticks = scheduler.partition(":")
        self._scheduler = int(pid), int(start_ticks)
        self._home = Path.cwd()
        self._look = threading.Event()

    @classmethod
    def listening(cls, scheduler: str) -> Self:
        """One whom signals have look. In the main thread."""
        spare = cls(scheduler)
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, lambda *_: spare._look.set())
        return spare

    def over(self) -> bool:
        """Whether it will get no launch: it was told to stop, or nobody is left to give it one.

        A launch that it got meanwhile counts: who is gone may have given it before.
        """
        ends = Path(rundir.STOP).exists() or not self._has_scheduler()
        return ends and not self._has_moved()

    def wait(self, ui_url: str) -> DriverIdentity | None:
        """Say that it is ready, and wait for the launch that it becomes; None when it is over.

        Raises: JobError when it cannot run it; OSError.
        """
        with suppress(FileNotFoundError):
            os.truncate(rundir.LOG, 0)  # whose log it becomes needs nothing of the warm-up run
        pid = os.getpid()
        facts = {"pid": pid, "start_ticks": processes.start_ticks(pid), "ui_url": ui_url}
        replace_text(Path(rundir.DRIVER), json.dumps(facts))
        while not self._has_moved():
            if self.over():
                return None
            self._look.wait(_POLL_S)
            self._look.clear()
        return self._assigned()

    def _assigned(self) -> DriverIdentity:
        """The launch whose directory this is now. Its old place leads here: Java was started with that."""
        run_dir = Path.cwd()
        identity = drivers.read(run_dir)
        if identity is None or identity.dagger == rundir.SPARE:
            raise internal("BAD_SPEC", f"The launch in {run_dir} has no identity.")
        with suppress(FileExistsError):
            self._home.symlink_to(run_dir)
        if self._home.resolve() != run_dir:
            raise internal("SPARE_LOST", f"Something else is where this driver was started: {self._home}.")
        logger().info("spare.assigned", dagger=identity.dagger, generation=identity.generation)
        return identity

    def _has_moved(self) -> bool:
        try:
            return Path.cwd() != self._home
        except FileNotFoundError:  # it was deleted
            return False

    def _has_scheduler(self) -> bool:
        pid, start_ticks = self._scheduler
        scheduler: Process | None = processes.find(pid)
        return self._home.is_dir() and scheduler is not None and scheduler.start_ticks == start_ticks
