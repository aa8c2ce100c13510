"""Keeps the spare of one scheduler: does what `scheduler.drivers.spare_policy` decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from daggers.v1 import events_pb2, spec_pb2

from chassis.logging import logger, note
from daggerspec import rundir
from daggerspec.catalogue import UnresolvedName
from fleet import Fleet
from fleet.fold.quotas import Room
from scheduler.drivers.command import Command
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.spare_policy import End, Failures, Spare, Start, cold, next_step
from scheduler.threads import to_its_end


class Spares:
    """One spare at most, while its scheduler leads. Not `on`: none, ever.

    `room` is what the host has, `left` what others leave a spare of it.
    """

    def __init__(
        self,
        fleet: Fleet,
        drivers: Drivers,
        command: Command,
        room: Callable[[], Room],
        clock: Callable[[], datetime],
        *,
        on: bool,
        left: Callable[[], Room],
    ) -> None:
        self._fleet, self._drivers, self._command = fleet, drivers, command
        self._room, self._now, self._on, self._left = room, clock, on, left
        self._spare: Spare | None = None
        self._failures = Failures()

    async def take(self, job: spec_pb2.JobSpec, master: str) -> events_pb2.DriverHandle | None:
        """Return the spare as the driver of this launch; None: it starts cold. Raises: OSError,
        UnresolvedName.
        """
        spare = self._observe()
        as_another = self._drivers.runs_as_another(job.spec.team)
        memory_mib = self._room().driver_memory_mib
        why = cold(job, master, spare, memory_mib, as_another=as_another) if self._on else ""
        if spare is None or why:
            note(**({"cold": why} if why else {}))
            return None
        self._spare = None  # whatever comes of it: who is cancelled here may have launched
        try:
            handle = await to_its_end(partial(self._drivers.assign, spare.identity, job))
        except (OSError, UnresolvedName):
            self._drivers.kill(spare.identity)  # by now it may say that it is what it did not become
            raise
        note(spare=handle is not None)
        return handle

    async def look(self) -> None:
        """Start a spare, or end it, as is due."""
        if not self._on:
            return
        self._spare = self._observe()
        match next_step(self._fleet, self._spare, self._left(), self._failures, self._now()):
            case Start(master):
                await self._start(master)
            case End(failed):
                if failed:
                    self._failures = Failures(self._failures.count + 1, self._now())
                    logger().warning("scheduler.spare_failed", attempt=self._failures.count)
                self.end()

    def end(self) -> None:
        """End the spare, if there is one."""
        if self._spare is not None:
            self._drivers.kill(self._spare.identity)
            self._spare = None

    async def clear(self) -> None:
        """End and remove what other schedulers' spares left."""
        own = self._spare.identity if self._spare is not None else None
        await to_its_end(partial(self._drivers.clear_spares, own))

    async def _start(self, master: str) -> None:
        now = self._now()
        number = int(now.timestamp() * 1_000_000)
        run_dir = self._drivers.runs / rundir.SPARE / str(number)
        job = spec_pb2.JobSpec(dagger=rundir.SPARE, generation=number, run_dir=str(run_dir))
        job.spec.driver_memory_mib = self._room().driver_memory_mib
        try:
            command, environment = self._command(job, master)
            identity = await to_its_end(partial(self._drivers.start_spare, job, command, environment))
        except (OSError, UnresolvedName) as error:
            self._failures = Failures(self._failures.count + 1, now)
            logger().warning("scheduler.spare_failed", attempt=self._failures.count, why=str(error))
        else:
            self._spare = Spare(identity=identity, master=master, since=now)

    def _observe(self) -> Spare | None:
        """Return the spare as it is now; None without one."""
        if self._spare is None:
            return None
        alive = self._drivers.lives(self._spare.identity)
        ready = alive and self._drivers.ready(self._spare.identity)
        if ready and not self._spare.ready:
            self._failures = Failures()
            logger().info("scheduler.spare_started", master=self._spare.master)
        return replace(self._spare, alive=alive, ready=ready)
