"""Observer: watches daggers by heartbeats, their past, and answers of their Spark drivers.

`fleet.health.watch` folds watches, `conditions` judges them. The clock and the calls are here.
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
from fleet import ApplyResult, Dagger, Fleet
from fleet.alerts.alert import Alert, Condition
from fleet.conditions import history
from fleet.conditions.condition_limits import ConditionSettings, apply_limits, find_layers, list_settings
from fleet.conditions.dagger_conditions import diagnose, to_probe
from fleet.conditions.finding import Finding
from fleet.conditions.history import History
from fleet.health import watch
from fleet.health.degradation import Limits
from fleet.health.watch import Hearing, Watch
from health_monitor.chart import Chart
from health_monitor.conditions import spark_away, store_away, team_quota
from health_monitor.observe import liveness, traces
from health_monitor.observe.traces import Trace

_PROBES: Final = 16
"""Limit of Spark drivers that are probed at the same time."""


class UnreadableHeartbeat(Exception):  # noqa: N818 - reads as what is wrong
    """Record of the heartbeats topic that cannot be decoded."""


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
        """`gap`: time without any record after which the monitor itself counts as deaf."""
        self.begun = False
        """Whether the recall is over: nothing can be judged before."""
        self.watches: dict[str, Watch] = {}
        """Watches by dagger."""
        self._fleet, self._spark, self._limits, self._clock = fleet, spark, limits, clock
        self._lives: dict[str, int] = {}
        self._histories: dict[str, History] = {}
        self._traces: dict[str, Trace] = {}
        self._hearing = Hearing(gap=gap)
        self._recalls_since: datetime | None = None
        self._hindered: dict[str, None] = {}
        """Daggers that are, or were at the last look."""

    # ---- Findings ------------------------------------------------------------------------------------------

    @property
    def hears(self) -> datetime | None:
        """Since when records arrive without a gap, so that a driver's silence is evidence; None: deaf."""
        return self._hearing.begin(self._clock())

    def findings(
        self, dagger: Dagger, settings: Mapping[Condition, ConditionSettings]
    ) -> Mapping[Condition, Finding]:
        """Judge the conditions of a dagger now, by what `settings` say; one without evidence is left out."""
        now = self._clock()
        return diagnose(
            dagger,
            self.watches[dagger.name],
            now=now,
            hearing=self._hearing.begin(now),
            limits=apply_limits(self._limits, settings),
            history=self._histories.get(dagger.name, History()),
        )

    def settings(self, dagger: Dagger) -> Mapping[Condition, ConditionSettings]:
        """Return what the dagger, its team and the platform say of its conditions."""
        return list_settings(find_layers(dagger.spec, self._fleet.catalogue))

    def finding_of_team(self, team: str) -> Finding | None:
        """Judge what a team uses now; None without evidence."""
        now = self._clock()
        hearing = self._hearing.begin(now)
        return team_quota.judge(self._fleet, team, self.watches, now=now, hearing=hearing)

    def change(self, name: str) -> alerts_pb2.LastChange | None:
        """Return the newest request that changed a dagger."""
        return self._histories.get(name, History()).change

    def build_chart(self, alert: Alert) -> Chart | None:
        """Build the chart of an alert by what heartbeats have said of its dagger."""
        name = alert.dagger
        return traces.build_chart(alert, self._traces.get(name), self.watches.get(name), self._clock())

    def list_hindered(self) -> list[str]:
        """List the daggers whose sinks do not take their rows, or whose drivers ended without executors."""
        for name in [name for name in self._hindered if not self._is_hindered(name)]:
            del self._hindered[name]
        return list(self._hindered)

    def find_store(self, dagger: Dagger) -> str:
        """Return a store that does not take a dagger's rows; empty where none is known."""
        if dagger.name not in self._hindered:
            return ""
        stores = store_away.list_stores(self._fleet, dagger, self.watches[dagger.name])
        return next((store for store, _ in stores), "")

    def _is_hindered(self, name: str) -> bool:
        dagger, current = self._fleet.daggers.get(name), self.watches.get(name)
        if dagger is None or current is None:
            return False
        retries = current.heartbeat is not None and bool(current.heartbeat.retrying)
        return retries or spark_away.is_waiting(dagger)

    # ---- Records -------------------------------------------------------------------------------------------

    def recall(self, since: datetime) -> None:
        """Expect recalled records of since then before `begin`."""
        self._recalls_since = since

    def begin(self) -> None:
        """End the recall, and watch every dagger from now on. A repeated call does nothing."""
        if self.begun:
            return
        now = self._clock()
        for name, dagger in self._fleet.daggers.items():
            since = self._recalls_since or now
            launched = min(max(since, dagger.phase_time), now)
            current = self.watches.get(name) or watch.begin(
                min(max(since, dagger.create_time), now), dagger.generation, launched=launched
            )
            self.watches[name] = watch.launch(current, dagger.generation, launched)
            self._lives[name] = dagger.create_sequence
            self._hindered[name] = None  # the next look leaves out those that are not
        self.begun = True

    def on_step(self, step: Step[ApplyResult]) -> None:
        """Update history and watch after a record of the control topic was folded into the fleet."""
        dagger = self._fleet.daggers.get(step.applied.subject)
        if not step.applied.changed or dagger is None:
            return
        before = self._histories.get(dagger.name, History())
        self._histories[dagger.name] = history.after(before, step.record, dagger)
        if spark_away.is_waiting(dagger):
            self._hindered[dagger.name] = None
        if self.begun:
            self._follow_launch(dagger)

    def receive(self, record: Record, came: datetime | None = None) -> None:
        """Fold a record of the heartbeats topic into its watch. Raises: UnreadableHeartbeat, to skip it.

        `came`: time of arrival of a recalled record; None: now.
        """
        now = self._clock()
        time = now if came is None else min(came, now)
        self._hearing = self._hearing.hears(now) if came is None else self._hearing.recalls(time)
        match record.message:
            case telemetry_pb2.Heartbeat() as heartbeat:
                self._receive_heartbeat(heartbeat, time)
            case None:
                raise UnreadableHeartbeat(f"a record of type {record.type or 'unknown'!r} cannot be read")

    def _receive_heartbeat(self, heartbeat: telemetry_pb2.Heartbeat, time: datetime) -> None:
        current = self.watches.get(heartbeat.dagger)
        if current is None and not self.begun:
            dagger = self._fleet.daggers.get(heartbeat.dagger)
            if dagger is not None and heartbeat.generation > dagger.create_sequence:
                current = watch.begin(time, heartbeat.generation)
        if current is None:  # the dagger's first record has not arrived from the control topic yet
            return
        if not self.begun:  # times of recalled records are by the clocks of several hosts: never go back
            time = max(time, current.heard_at or time)
        dagger = self._fleet.daggers.get(heartbeat.dagger)
        limits = self._limits if dagger is None else apply_limits(self._limits, self.settings(dagger))
        self.watches[heartbeat.dagger] = watch.hear(current, heartbeat, time, limits)
        if heartbeat.dagger not in self._traces:
            self._traces[heartbeat.dagger] = Trace()
        self._traces[heartbeat.dagger].add(self.watches[heartbeat.dagger])
        if heartbeat.retrying:
            self._hindered[heartbeat.dagger] = None

    def _follow_launch(self, dagger: Dagger) -> None:
        """Begin a new watch for a new dagger, or a new launch."""
        now = self._clock()
        if self._lives.get(dagger.name) != dagger.create_sequence:
            self._lives[dagger.name] = dagger.create_sequence
            self._traces.pop(dagger.name, None)
            self.watches[dagger.name] = watch.begin(now)
        self.watches[dagger.name] = watch.launch(self.watches[dagger.name], dagger.generation, now)

    # ---- Probes --------------------------------------------------------------------------------------------

    async def probe(self) -> None:
        """Ask the Spark drivers of silent daggers whether they live, _PROBES at a time."""
        if not self.begun:
            return
        now = self._clock()
        hearing = self._hearing.begin(now)
        probes = []
        for dagger in self._fleet.daggers.values():
            current = self.watches[dagger.name]
            url = to_probe(dagger, current, now=now, hearing=hearing, limits=self._limits)
            if url is not None:
                probes.append((dagger, current, url))
        room = asyncio.Semaphore(_PROBES)

        async def ask(dagger: Dagger, probed: Watch, url: str) -> None:
            async with room:
                answers = await liveness.answers(self._spark, url, dagger.name, probed.generation)
            if self.watches[dagger.name] is probed:  # otherwise a heartbeat or a launch came meanwhile
                self.watches[dagger.name] = watch.probe(probed, answers=answers)

        await asyncio.gather(*(ask(*silent) for silent in probes))
