"""What is heard and watched: heartbeats of drivers, the past of each dagger, answers of Spark drivers.

`fleet.health.watch` says what a watch is, `condition` what is found in it. The clock and the calls are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import httpx
from daggers.v1 import alerts_pb2, telemetry_pb2

from eventlog import Record
from eventlog.fold import Step
from fleet import Applied, Dagger, Fleet
from fleet.alerts.alert import Condition
from fleet.health import watch
from fleet.health.degradation import Limits
from fleet.health.watch import Hearing, Watch
from health_monitor.conditions import history, team_quota
from health_monitor.conditions.dagger_conditions import diagnose, to_probe
from health_monitor.conditions.finding import Finding
from health_monitor.conditions.history import History
from health_monitor.observe import liveness

_PROBES: Final = 16
"""Spark drivers that are asked at the same time."""


class UnreadableHeartbeat(Exception):  # noqa: N818 - reads as what is wrong
    """A record of the heartbeats topic that cannot be read."""


class Observer:
    """Watches the daggers of a fleet."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        spark: httpx.AsyncClient,
        limits: Limits,
        gap: timedelta,
        clock: Callable[[], datetime],
    ) -> None:
        """`gap`: hearing nothing at all for so long is deafness."""
        self.begun = False
        """Whether it has heard what there is to recall: before, nothing can be judged."""
        self.watches: dict[str, Watch] = {}
        """By dagger."""
        self._fleet, self._spark, self._limits, self._clock = fleet, spark, limits, clock
        self._lives: dict[str, int] = {}
        self._histories: dict[str, History] = {}
        self._hearing = Hearing(gap=gap)
        self._recalls_since: datetime | None = None

    # ---- What is known -------------------------------------------------------------------------------------

    @property
    def hears(self) -> datetime | None:
        """Since when silence means something; None while it is deaf."""
        return self._hearing.begin(self._clock())

    def findings(self, dagger: Dagger) -> Mapping[Condition, Finding]:
        """What there is to say about a dagger now."""
        now = self._clock()
        return diagnose(
            dagger,
            self.watches[dagger.name],
            now=now,
            hearing=self._hearing.begin(now),
            limits=self._limits,
            history=self._histories.get(dagger.name, History()),
        )

    def of_team(self, team: str) -> Finding | None:
        """What there is to say about what a team uses now."""
        now = self._clock()
        hearing = self._hearing.begin(now)
        return team_quota.judged(self._fleet, team, self.watches, now=now, hearing=hearing)

    def change(self, name: str) -> alerts_pb2.LastChange | None:
        """The newest request about a dagger."""
        return self._histories.get(name, History()).change

    # ---- What comes in -------------------------------------------------------------------------------------

    def recall(self, since: datetime) -> None:
        """What came `since` then is heard again first. Called before `begin`, or never."""
        self._recalls_since = since

    def begin(self) -> None:
        """What there is to recall was heard: watch every dagger from now on."""
        if self.begun:
            return
        now = self._clock()
        for name, dagger in self._fleet.daggers.items():
            since = self._recalls_since or now
            launched = min(max(since, dagger.phase_time), now)
            watched = self.watches.get(name) or watch.begin(
                min(max(since, dagger.create_time), now), dagger.generation, launched=launched
            )
            self.watches[name] = watch.launch(watched, dagger.generation, launched)
            self._lives[name] = dagger.create_sequence
        self.begun = True

    def folded(self, step: Step[Applied]) -> None:
        """A record of the control topic is in the fleet."""
        dagger = self._fleet.daggers.get(step.applied.subject)
        if not step.applied.changed or dagger is None:
            return
        known = self._histories.get(dagger.name, History())
        self._histories[dagger.name] = history.after(known, step.record, dagger)
        if self.begun:
            self._attend(dagger)

    def heard(self, record: Record, came: datetime | None = None) -> None:
        """Take in a record of the heartbeats topic. Raises: UnreadableHeartbeat, to have it set aside.

        `came`: when it came, of one that is recalled.
        """
        now = self._clock()
        time = now if came is None else min(came, now)
        self._hearing = self._hearing.hears(now) if came is None else self._hearing.recalls(time)
        match record.message:
            case telemetry_pb2.Heartbeat() as heartbeat:
                self._hear(heartbeat, time)
            case None:
                raise UnreadableHeartbeat(f"a record of type {record.type or 'unknown'!r} cannot be read")

    def _hear(self, heartbeat: telemetry_pb2.Heartbeat, time: datetime) -> None:
        watched = self.watches.get(heartbeat.dagger)
        if watched is None and not self.begun:
            dagger = self._fleet.daggers.get(heartbeat.dagger)
            if dagger is not None and heartbeat.generation > dagger.create_sequence:
                watched = watch.begin(time, heartbeat.generation)
        if watched is None:  # the control topic is still to tell of the dagger
            return
        if not self.begun:  # two of its drivers need not have one clock
            time = max(time, watched.heard or time)
        self.watches[heartbeat.dagger] = watch.hear(watched, heartbeat, time, self._limits)

    def _attend(self, dagger: Dagger) -> None:
        now = self._clock()
        if self._lives.get(dagger.name) != dagger.create_sequence:
            self._lives[dagger.name] = dagger.create_sequence
            self.watches[dagger.name] = watch.begin(now)
        self.watches[dagger.name] = watch.launch(self.watches[dagger.name], dagger.generation, now)

    # ---- What is asked -------------------------------------------------------------------------------------

    async def probe(self) -> None:
        """Ask the Spark drivers of silent daggers whether they live."""
        if not self.begun:
            return
        now = self._clock()
        hearing = self._hearing.begin(now)
        asked = []
        for dagger in self._fleet.daggers.values():
            watched = self.watches[dagger.name]
            url = to_probe(dagger, watched, now=now, hearing=hearing, limits=self._limits)
            if url is not None:
                asked.append((dagger, watched, url))
        room = asyncio.Semaphore(_PROBES)

        async def ask(dagger: Dagger, watched: Watch, url: str) -> None:
            async with room:
                answers = await liveness.answers(self._spark, url, dagger.name, watched.generation)
            if self.watches[dagger.name] is watched:  # else it was heard, or launched anew, in the meantime
                self.watches[dagger.name] = watch.probe(watched, answers=answers)

        await asyncio.gather(*(ask(*silent) for silent in asked))
