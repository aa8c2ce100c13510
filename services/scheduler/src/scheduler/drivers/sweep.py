"""Sweeps a host now and then: kills drivers that nobody asks for, removes directories, notes how far the log
was read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from daggers.v1 import events_pb2

from chassis.files import replace_text
from chassis.logging import logger, unit_of_work
from daggerspec.rundir import DriverIdentity
from election import Election
from eventlog import Draft, LogError, LogPosition
from eventlog.fold import LogBaseline
from eventlog.follower import Follower
from fleet import ApplyResult, Fleet
from fleet.fold.phases import DELETED
from scheduler.drivers import retention
from scheduler.drivers.process_table import Drivers, as_handle
from scheduler.threads import to_its_end

BASELINE: Final = "control.json"
"""File in the state directory: which log was read, and how far."""
_LOOK: Final = timedelta(hours=1)
"""Time between two looks for leftovers though nothing has ended: some are kept for a while."""
_LOGS_S: Final = 10.0
"""Time that Kafka has to delete what waits for sinks: nothing else goes on meanwhile."""
_LOGS_AGAIN: Final = timedelta(minutes=5)
"""Time after a failure in which Kafka is not asked for that again."""
DeleteLogs = Callable[[Callable[[str], bool], Callable[[], Awaitable[None]]], Awaitable[None]]
"""Deletes the logs of sinks of deleted daggers: its arguments tell that of a name, and bring that up to date.
Raises LogError."""


def read_baseline(state_dir: Path) -> LogBaseline:
    """Read how far a scheduler of this state directory has read the log."""
    file, position = state_dir / BASELINE, LogPosition()
    with suppress(FileNotFoundError, ValueError, KeyError):
        document = json.loads(file.read_text())
        position = LogPosition(int(document["sequence"]), bytes.fromhex(document["history"]))
    return LogBaseline(position, f"remove {file}")


class Sweeper:
    """Sweeps the host of one scheduler; `state_dir` has how far the log was read, `checkpoints` is a root."""

    def __init__(
        self,
        follower: Follower[ApplyResult],
        fleet: Fleet,
        election: Election,
        drivers: Drivers,
        state_dir: Path,
        checkpoints: str,
        clock: Callable[[], datetime],
        delete_logs: DeleteLogs,
    ) -> None:
        self._clock, self._delete_logs = clock, delete_logs
        self._checkpoints = retention.directory(checkpoints)
        self._is_due = True
        self._last_look = clock()
        self._logs_failed: datetime | None = None
        self._follower = follower
        self._fleet = fleet
        self._election = election
        self._drivers = drivers
        self._baseline_file = state_dir / BASELINE

    async def sweep(self) -> None:
        """Kill orphans, remove leftovers and note how far the log was read, as the leader.

        Raises: LeadershipLost.
        """
        fleet = self._fleet
        launches = self._drivers.living()
        for driver in launches:
            if is_orphan(fleet, driver):
                with unit_of_work("scheduler.orphan", dagger=driver.dagger, generation=driver.generation):
                    self._election.ensure_leading()
                    self._drivers.kill(driver)
                    await self._follower.append(self._build_killed(driver))
        if await self._remove_leftovers(launches):
            await self._delete_sink_logs()
        text = json.dumps({"sequence": fleet.sequence, "history": fleet.history.hex()})
        await to_its_end(partial(replace_text, self._baseline_file, text, durable=True))

    def note_end(self) -> None:
        """Note that a launch has ended, which may leave something to remove."""
        self._is_due = True

    async def _remove_leftovers(self, launches: Sequence[DriverIdentity]) -> bool:
        """Remove directories, if it is time for it; return whether it was. launches: those that lived a
        moment ago, whose processes may work in the directories of others.
        """
        fleet, now = self._fleet, self._clock()
        if not self._is_due and now - self._last_look < _LOOK:
            return False
        self._is_due, self._last_look = False, now
        homes = {Path(launch.process_dir) for launch in launches if launch.process_dir}
        await to_its_end(
            lambda: retention.remove(
                retention.leftovers(fleet, self._drivers.runs, self._checkpoints, now, homes)
            )
        )
        return True

    async def _delete_sink_logs(self) -> None:
        """Delete what waits for sinks of deleted daggers; a later look tries again what fails.

        Raises: LeadershipLost.
        """
        daggers, now = self._fleet.daggers, self._clock()
        if self._logs_failed is not None and self._logs_failed <= now < self._logs_failed + _LOGS_AGAIN:
            return

        def is_deleted(name: str) -> bool:
            return name in daggers and daggers[name].phase == DELETED

        async def confirm() -> None:
            await self._follower.catch_up()
            self._election.ensure_leading()

        if not any(map(is_deleted, daggers)):
            return
        self._logs_failed = None
        try:
            async with asyncio.timeout(_LOGS_S):
                await self._delete_logs(is_deleted, confirm)
        except (LogError, TimeoutError) as error:
            self._logs_failed = self._clock()
            logger().warning("spool.not_deleted", why=str(error))

    async def look(self) -> None:
        """Kill the orphans of this host and remove leftovers, as a standby: a leader on another host cannot
        reach them.

        An orphan stays one, however much of the log is not read yet, so this needs no leadership.
        """
        fleet = self._fleet
        if fleet.leader is None or fleet.leader.host == self._drivers.host:
            return  # the leader does it, and says so in the log
        launches = self._drivers.living()
        for driver in launches:
            if is_orphan(fleet, driver):
                with unit_of_work("scheduler.orphan", dagger=driver.dagger, generation=driver.generation):
                    self._drivers.kill(driver)
        await self._remove_leftovers(launches)

    def _build_killed(self, driver: DriverIdentity) -> Draft:
        fact = events_pb2.OrphanKilled(driver=as_handle(driver, self._drivers.host))
        fact.meta.epoch = self._election.epoch
        fact.meta.name, fact.meta.generation = driver.dagger, driver.generation
        id_ = f"OrphanKilled/{driver.run_dir}/{driver.boot_id}/{driver.pid}/{driver.start_ticks}"
        return Draft(id_, self._election.source, driver.dagger, self._clock(), fact)


def is_orphan(fleet: Fleet, driver: DriverIdentity) -> bool:
    """Tell whether nobody asks for a driver that lives. One that the fold does not know is never judged."""
    dagger = fleet.daggers.get(driver.dagger)
    if dagger is None or driver.generation > fleet.sequence:
        return False
    return driver.generation not in dagger.running
