"""Run a spare: a driver without a launch that waits for one in its working directory (ADR 89).

Its working directory is its state. Below the spares it is a spare; renamed to a launch's run directory it is
that launch's driver, and finds spec and identity there. SIGUSR1 only makes it check at once: a SIGTERM for
that, if it came late, would be a drain.
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
    """Spare that this process is. scheduler: its owner, as PID:START_TICKS."""

    def __init__(self, scheduler: str) -> None:
        pid, _, start_ticks = scheduler.partition(":")
        self._scheduler = int(pid), int(start_ticks)
        self._home = Path.cwd()
        self._wake_up = threading.Event()

    @classmethod
    def listen(cls, scheduler: str) -> Self:
        """Create a spare that signals wake up. Only in the main thread."""
        spare = cls(scheduler)
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, lambda *_: spare._wake_up.set())
        return spare

    def is_over(self) -> bool:
        """Tell whether it will get no launch: it was ordered to stop, or its scheduler is gone.

        A launch that it got before that still counts.
        """
        ends = Path(rundir.STOP).exists() or not self._has_scheduler()
        return ends and not self._has_moved()

    def wait(self, ui_url: str) -> DriverIdentity | None:
        """Announce that it is ready, and wait for its launch; None when it is over.

        Raises: JobError when it cannot run it; OSError.
        """
        with suppress(FileNotFoundError):
            os.truncate(rundir.LOG, 0)  # the launch's log needs nothing of the warm-up run
        pid = os.getpid()
        facts = {"pid": pid, "start_ticks": processes.start_ticks(pid), "ui_url": ui_url}
        replace_text(Path(rundir.DRIVER), json.dumps(facts))
        while not self._has_moved():
            if self.is_over():
                return None
            self._wake_up.wait(_POLL_S)
            self._wake_up.clear()
        return self._take_launch()

    def _take_launch(self) -> DriverIdentity:
        """Return the launch whose directory this is now.

        The old path becomes a link to it: Java was started with that path.
        """
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
