"""Who leads: standing by until the leader is known to be dead or its beat is missing.

A claim is a SchedulerStarted record; its offset is the epoch and the newest epoch leads. So two claims at
once do no harm: one of the two is older, and stands by.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import uuid4

from daggers.v1 import events_pb2, telemetry_pb2

from chassis import processes
from eventlog import Draft, LogUnavailable, Record
from eventlog.follower import Follower
from fleet import Applied, Fleet

# How long the very first scheduler of a log waits, in case another one starts with it.
FIRST_WAIT: Final = timedelta(milliseconds=500)


def identity() -> str:
    """A name for this scheduler that proves, on this host, whether its process still lives."""
    me = processes.find(os.getpid())
    ticks = me.start_ticks if me else 0
    return f"{_place()}@{os.getpid()}-{ticks}-{uuid4().hex[:8]}"


def host_name() -> str:
    """Name of this host, as drivers and schedulers are known by."""
    return socket.gethostname()


def proven_dead(scheduler_id: str) -> bool:
    """Whether the process with this identity ran in this boot of this host, and is gone."""
    place, _, process_id = scheduler_id.rpartition("@")
    if place != _place():
        return False
    pid, ticks, _ = process_id.split("-", maxsplit=2)
    process = processes.find(int(pid))
    return process is None or process.start_ticks != int(ticks)


def _place() -> str:
    """This boot and this space of process ids."""
    return f"{processes.boot_id()}/{processes.pid_namespace()}"


class Deposed(Exception):  # noqa: N818 - reads as what happened
    """Another scheduler leads: stand by."""


class Beats(Protocol):
    """The heartbeats topic: `Heartbeats`, or a MemoryLog."""

    async def append(self, draft: Draft) -> None:
        """Send one. Raises: LogUnavailable."""

    def follow(self) -> AsyncIterator[Record]:
        """What comes, for ever."""


class Leadership:
    """This scheduler's claim to lead, and what it knows of the leader's life while it stands by."""

    def __init__(
        self,
        follower: Follower[Applied],
        fleet: Fleet,
        beats: Beats,
        *,
        scheduler_id: str,
        host: str,
        patience: timedelta,
        clock: Callable[[], datetime],
        dead: Callable[[str], bool],
    ) -> None:
        """`patience`: how long a missing beat is borne. `dead`: whether a scheduler's death is proven."""
        self.scheduler_id = scheduler_id
        self.epoch = -1
        """Our newest claim; -1 while we stand by."""
        self.patience = patience
        self._follower = follower
        self._fleet = fleet
        self._beats = beats
        self._host = host
        self._clock = clock
        self._dead = dead
        self._since = self._last_beat = clock()

    @property
    def source(self) -> str:
        """ce_source of what this scheduler writes."""
        return f"/scheduler/{self.scheduler_id}"

    def heard(self, beat: telemetry_pb2.SchedulerBeat, now: datetime) -> None:
        """A beat came. One of an older epoch is the beat of a leader that was replaced."""
        leader = self._fleet.leader
        if leader is None or beat.epoch >= leader.epoch:
            self._last_beat = now

    def claimed(self, now: datetime) -> None:
        """Somebody claimed to lead: the claim is its first beat."""
        self._last_beat = now

    def may_claim(self, now: datetime) -> bool:
        """Whether nobody leads any more."""
        leader = self._fleet.leader
        if leader is None:
            return now - self._since >= FIRST_WAIT
        return now - self._last_beat >= self.patience or self._dead(leader.scheduler_id)

    async def claim(self, now: datetime) -> None:
        """Append a claim and read it back. Raises: Deposed when another one came before or after it."""
        await self._follower.catch_up()
        if not self.may_claim(now):  # somebody was faster
            raise Deposed
        id_ = f"SchedulerStarted/{self.scheduler_id}/{self._fleet.sequence}"
        claim = events_pb2.SchedulerStarted(scheduler_id=self.scheduler_id, host=self._host)
        step = await self._follower.append(Draft(id_, self.source, "scheduler", now, claim))
        self.epoch = step.record.sequence
        await self._follower.catch_up()
        self.still()

    def still(self) -> None:
        """Raises: Deposed when ours is not the newest epoch."""
        leader = self._fleet.leader
        if leader is None or leader.epoch != self.epoch:
            raise Deposed

    def resign(self, now: datetime) -> None:
        """Stand by from now on."""
        self.epoch = -1
        self._last_beat = now

    async def beat(self) -> None:
        """Say that the leader lives, for ever."""
        message = telemetry_pb2.SchedulerBeat(epoch=self.epoch, scheduler_id=self.scheduler_id)
        while True:
            draft = Draft(uuid4().hex, self.source, "scheduler", self._clock(), message)
            with suppress(LogUnavailable):  # a standby takes over, as it should
                await self._beats.append(draft)
            await asyncio.sleep(self.patience.total_seconds() / 5)
