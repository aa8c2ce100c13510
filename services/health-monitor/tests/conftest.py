"""A world for the interpreter: logs in memory, a real HTTP receiver, time as a value, timers by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from aiohttp import web
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2
from google.protobuf.message import Message
from pydantic import SecretStr
from tests.contracts.logs import TroubledLog

from chassis.egress.addresses import EgressRules
from eventlog import Draft, LogUnavailable
from eventlog.memory import MemoryLog
from fleet.health.degradation import Limits
from fleet.health.watch import RECALL
from health_monitor.alerts.alert import Policy
from health_monitor.alerts.journal import FileJournal
from health_monitor.alerts.leadership import Identity
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.monitor import Monitor
from health_monitor.receiver import AlertReceiver, ReceivedCall
from health_monitor.receivers import pagerduty, slack

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
WAIT_S = 30
ROUTING_KEY = "0123456789abcdef0123456789abcdef"


class World:
    """Logs, a receiver and a clock that outlive any monitor."""

    def __init__(self, state: Path) -> None:
        self.now = NOON
        self.control, self.alerts, self.beats = MemoryLog(), TroubledLog(), TroubledLog()
        self.journal = FileJournal(state)
        self.watchdog: SecretStr | None = None
        self.allowed = ""
        self.refuses: Callable[[Message], bool] = lambda _: False
        """Which records the log of alerts does not take."""
        self.refused = asyncio.Event()
        self.alerts.before = self.beats.before = self._refuse
        self.shown: list[str] = []
        self.answer: Callable[[ReceivedCall], web.Response | None] = lambda _: None
        self.receiver = AlertReceiver(show=self.shown.append, misbehave=self._misbehave)
        self.called = asyncio.Event()
        self.epoch = self.generation = 0

    async def _misbehave(self, received: ReceivedCall) -> web.Response | None:
        self.called.set()
        return self.answer(received)

    async def _refuse(self, draft: Draft) -> None:
        if self.refuses(draft.message):
            self.refused.set()
            raise LogUnavailable("Kafka does not answer")

    async def tell(self, message: Message) -> None:
        number = await self.control.end() + 1
        await self.control.append(Draft(f"c-{number}", "/test", "bookings", self.now, message))

    async def fact(self, kind: Callable[..., Message], **fields: Any) -> None:
        meta = events_pb2.FactMeta(epoch=self.epoch, name="bookings", generation=self.generation)
        await self.tell(kind(meta=meta, **fields))

    async def run_dagger(self) -> None:
        """A dagger that runs."""
        await self.tell(events_pb2.SchedulerStarted(scheduler_id="s"))
        await self.tell(events_pb2.DaggerRequested(name="bookings", spec=spec_pb2.DaggerSpec(team="pricing")))
        await self.relaunch(version=1)

    async def relaunch(self, version: int) -> None:
        await self.fact(events_pb2.LaunchIntended, submission_id="x", version=version)
        self.generation = await self.control.end()
        await self.fact(events_pb2.Launched, driver=events_pb2.DriverHandle(host="h"))
        await self.fact(events_pb2.Running)

    async def fail_dagger(self) -> None:
        """It is given up."""
        error = events_pb2.DaggerError(reason="BAD_SQL")
        await self.fact(events_pb2.Exited, error=error)
        await self.fact(events_pb2.Failed, error=error)

    async def mend_dagger(self) -> None:
        """A person starts it again, and it runs."""
        await self.tell(events_pb2.StartRequested(name="bookings"))
        await self.relaunch(version=2)

    async def stop_dagger(self) -> None:
        await self.tell(events_pb2.StopRequested(name="bookings"))
        await self.fact(events_pb2.Stopped)

    async def delete_dagger(self) -> None:
        await self.stop_dagger()
        await self.tell(events_pb2.DeleteRequested(name="bookings"))

    async def beat(
        self, *, progressed: datetime | None = None, skew: timedelta = timedelta(), **fields: Any
    ) -> None:
        """What the driver says now, its clock ahead by `skew`; progress was just made unless told."""
        said = self.now + skew
        message = telemetry_pb2.Heartbeat(dagger="bookings", generation=self.generation, **fields)
        message.time.FromDatetime(said)
        message.last_progress.FromDatetime(progressed or said)
        await self.beats.append(Draft("b", "/test", "bookings", said, message))

    async def leader_beat(self) -> None:
        """The leading scheduler lives."""
        message = telemetry_pb2.SchedulerBeat(epoch=self.epoch, scheduler_id="s")
        await self.beats.append(Draft("s", "/test", "scheduler", self.now, message))

    def monitor(self, name: str = "one", *, recalls: bool = True, here: bool = True) -> Running:
        """A monitor; run it by `async with`. `recalls`: whether it reads first what was said before. `here`:
        whether it is on the machine with the journal.
        """
        return Running(self, name, recalls=recalls, journal=self.journal if here else FileJournal(None))

    async def events(self) -> list[str]:
        """The log of alerts: each event's type, and to whom it is told."""
        found = []
        async for record in self.alerts.replay():
            event = record.message
            receiver = getattr(event, "receiver", "")
            found.append(f"{record.type.rpartition('.')[2]} {receiver}".strip())
        return found

    def kinds(self) -> list[str]:
        """What a person was shown, in short."""
        return [" ".join(line.split()[:2]) for line in self.shown if line.startswith("pagerduty")]


class Running:
    """A monitor with its followers; leaving kills it as SIGKILL does."""

    def __init__(
        self, world: World, name: str = "one", *, recalls: bool = True, journal: FileJournal
    ) -> None:
        self.world, self.recalls = world, recalls
        listed = EgressRules.parse(f"127.0.0.1:{world.receiver.port},{world.allowed}")
        self.spark = httpx.AsyncClient(trust_env=False)
        self.monitor = Monitor(
            Identity(monitor_id=name, host="h"),
            control=world.control,
            alerts=world.alerts,
            beats=world.beats,
            channels=[
                Channel("slack", slack, slack.Settings(url=SecretStr(world.receiver.slack_url))),
                Channel(
                    "pagerduty",
                    pagerduty,
                    pagerduty.Settings(
                        url=SecretStr(world.receiver.pagerduty_url), routing_key=SecretStr(ROUTING_KEY)
                    ),
                ),
            ],
            webhooks=Webhooks(listed, timeout=30 * SECOND),
            spark=self.spark,
            limits=Limits(share_time=timedelta(0)),
            policy=Policy(hold=2 * SECOND, resolve_hold=2 * SECOND),
            patience=10 * SECOND,
            clock=lambda: world.now,
            journal=journal,
            watchdog=world.watchdog,
        )
        self.followers: list[asyncio.Task[None]] = []
        self.heard = -1

    async def __aenter__(self) -> Self:
        self.follow()
        await self.monitor.catch_up()
        if self.recalls:
            self.monitor.observer.recall(self.world.now - RECALL)
            async for record in self.world.beats.replay():
                if record.time >= self.world.now - RECALL:
                    self.monitor.receive(record, record.time)
        self.heard = await self.world.beats.end()
        self.monitor.observer.begin()
        return self

    def follow(self) -> None:
        """Read on."""
        self.followers = [asyncio.create_task(follower.run()) for follower in self.monitor.followers]

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self.followers, *self.monitor.deliveries.under_way]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.spark.aclose()

    async def step(self, seconds: float = 1, *, notify: bool = True) -> None:
        """Time goes on, what was written is read, and every timer runs once."""
        self.world.now += seconds * SECOND
        await self._read()
        await self._timer(self.monitor.leadership.lead)
        await self._read()
        await self._timer(self.monitor.observer.probe)
        await self._timer(self.monitor.judge)
        await self._timer(self.monitor.judge_rules)
        await self._timer(self.monitor.judge_platform)
        if notify:
            for channel in self.monitor.channels:
                await self._timer(partial(self.monitor.deliveries.notify, channel))
                await self._timer(partial(self.monitor.deliveries.notify_outage, channel))
            await self._timer(self.monitor.team_deliveries.notify)
            await self._timer(self.monitor.team_deliveries.notify_outage)
            await self._timer(self.monitor.receiver_tests.run)

    async def _timer(self, body: Callable[[], Awaitable[None]]) -> None:
        """As `host.every` runs it."""
        with suppress(LogUnavailable):
            await body()

    async def steps(self, count: int) -> None:
        for _ in range(count):
            await self.step()

    async def run(self, steps: int) -> None:
        """Let time go on, and what is under way beside the timers end."""
        for _ in range(steps):
            await self.step()
            async with asyncio.timeout(WAIT_S):
                while self.monitor.deliveries.under_way or self.monitor.team_deliveries._tasks:
                    await asyncio.sleep(0.005)
                    await self.monitor.team_deliveries.notify()

    async def _read(self) -> None:
        async for record in self.world.beats.replay(self.heard):
            self.heard = record.sequence
            self.monitor.receive(record)
        async with asyncio.timeout(5):
            behind = True
            while behind:
                await asyncio.sleep(0)  # the followers' turn
                control, alerts = await self.world.control.end(), await self.world.alerts.end()
                behind = self.monitor.fleet.sequence < control or self.monitor.ledger.sequence < alerts


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    async with made.receiver:
        await made.run_dagger()
        yield made
