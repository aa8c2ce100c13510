"""The interpreter over logs in memory and a real HTTP receiver; time is a value, timers go by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import httpx
import pytest
from aiohttp import web
from daggers.v1 import alerts_pb2, events_pb2, spec_pb2, telemetry_pb2
from google.protobuf.message import Message
from pydantic import SecretStr

from eventlog import Draft, LogUnavailable, MemoryLog, read_record
from health_monitor.addresses import Allowed
from health_monitor.alert import Policy
from health_monitor.condition import Limits
from health_monitor.ledger import read
from health_monitor.monitor import Identity, Monitor, UnreadableHeartbeat
from health_monitor.receiver import AlertReceiver, Received
from health_monitor.receivers import pagerduty, slack
from health_monitor.webhook import Channel, Webhooks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ROUTING_KEY = "0123456789abcdef0123456789abcdef"


class FragileLog(MemoryLog):
    """A log that a test may make fail."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Callable[[Message], bool] = lambda _: False
        self.refused = asyncio.Event()

    async def append(self, draft: Draft) -> None:
        if self.refuses(draft.message):
            self.refused.set()
            raise LogUnavailable("Kafka does not answer")
        await super().append(draft)


class World:
    """Logs, a receiver and a clock that outlive any monitor."""

    def __init__(self) -> None:
        self.now = NOON
        self.control, self.alerts, self.beats = MemoryLog(), FragileLog(), MemoryLog()
        self.shown: list[str] = []
        self.answer: Callable[[Received], web.Response | None] = lambda _: None
        self.receiver = AlertReceiver(show=self.shown.append, misbehave=self._misbehave)
        self.called = asyncio.Event()
        self.epoch = self.generation = 0

    async def _misbehave(self, received: Received) -> web.Response | None:
        self.called.set()
        return self.answer(received)

    async def tell(self, message: Message) -> None:
        number = await self.control.end() + 1
        await self.control.append(Draft(f"c-{number}", "/test", "bookings", self.now, message))

    async def fact(self, kind: Callable[..., Message], **fields: Any) -> None:
        meta = events_pb2.FactMeta(epoch=self.epoch, name="bookings", generation=self.generation)
        await self.tell(kind(meta=meta, **fields))

    async def run_dagger(self) -> None:
        """A dagger that runs."""
        await self.tell(events_pb2.SchedulerStarted(scheduler_id="s"))
        await self.tell(events_pb2.DaggerRequested(name="bookings", spec=spec_pb2.DaggerSpec()))
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

    async def events(self) -> list[str]:
        """The log of alerts: each event's type, and to whom it is told."""
        found = []
        async for record in self.alerts.replay():
            event = read(record)
            receiver = getattr(event, "receiver", "")
            found.append(f"{record.type.rpartition('.')[2]} {receiver}".strip())
        return found

    def kinds(self) -> list[str]:
        """What a person was shown, in short."""
        return [" ".join(line.split()[:2]) for line in self.shown if line.startswith("pagerduty")]


class Running:
    """A monitor with its followers; leaving kills it as SIGKILL does."""

    def __init__(self, world: World, name: str = "one") -> None:
        self.world = world
        listed = Allowed.parse(f"127.0.0.1:{world.receiver.port}")
        self.spark = httpx.AsyncClient(trust_env=False)
        self.monitor = Monitor(
            Identity(monitor_id=name, host="h"),
            control=world.control,
            alerts=world.alerts,
            beats=world.beats,
            channels=[
                Channel("slack", slack, SecretStr(world.receiver.slack_url)),
                Channel(
                    "pagerduty", pagerduty, SecretStr(world.receiver.pagerduty_url), SecretStr(ROUTING_KEY)
                ),
            ],
            webhooks=Webhooks(listed, timeout=2 * SECOND),
            spark=self.spark,
            limits=Limits(),
            policy=Policy(hold=2 * SECOND, resolve_hold=2 * SECOND),
            patience=10 * SECOND,
            clock=lambda: world.now,
        )
        self.followers: list[asyncio.Task[None]] = []
        self.heard = -1

    async def __aenter__(self) -> Self:
        await self.monitor.catch_up()
        self.followers = [
            asyncio.create_task(self.monitor.follow_control()),
            asyncio.create_task(self.monitor.follow_alerts()),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self.followers, *self.monitor._under_way]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.spark.aclose()

    async def step(self, seconds: float = 1, *, notify: bool = True) -> None:
        """Time goes on, what was written is read, and every timer runs once."""
        self.world.now += seconds * SECOND
        await self._read()
        await self.monitor.lead()
        await self._read()
        await self.monitor.probe()
        await self.monitor.judge()
        if notify:
            for channel in self.monitor.channels:
                await self.monitor.notify(channel)

    async def steps(self, count: int) -> None:
        for _ in range(count):
            await self.step()

    async def _read(self) -> None:
        async for record in self.world.beats.replay(self.heard):
            self.heard = record.sequence
            self.monitor.heard(record)
        async with asyncio.timeout(5):
            behind = True
            while behind:
                await asyncio.sleep(0)  # the followers' turn
                control, alerts = await self.world.control.end(), await self.world.alerts.end()
                behind = self.monitor.fleet.sequence < control or self.monitor.ledger.sequence < alerts


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    async with made.receiver:
        await made.run_dagger()
        yield made


FIRED = ["AlertFired", "NotificationSent pagerduty", "NotificationSent slack"]
RESOLVED = ["AlertResolved", "NotificationSent pagerduty", "NotificationSent slack"]


async def test_an_alert_is_recorded_first_then_told_then_recorded_as_told(world: World) -> None:
    async with Running(world) as running:
        await world.fail_dagger()
        await running.steps(6)
        events = await world.events()

    assert events[:2] == ["MonitorStarted", "AlertFired"]
    assert sorted(events[1:]) == FIRED
    assert world.kinds() == ["pagerduty triggered"]


async def test_it_resolves_when_the_dagger_runs_again(world: World) -> None:
    async with Running(world) as running:
        await world.fail_dagger()
        await running.steps(6)
        await world.mend_dagger()
        await running.steps(6)

    assert sorted(await world.events()) == sorted(["MonitorStarted", *FIRED, *RESOLVED])
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


async def test_a_stopped_dagger_resolves_its_incidents(world: World) -> None:
    async with Running(world) as running:
        await world.fail_dagger()
        await running.steps(6)
        await world.stop_dagger()
        await running.steps(3)

    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


@pytest.mark.parametrize("crash_after", [*range(1, 9), *range(26, 34)])
async def test_a_restart_at_any_step_repeats_nothing_and_loses_nothing(
    world: World, crash_after: int
) -> None:
    """The monitor is killed after so many steps, and another one takes over when its patience is spent."""
    script = {2: world.fail_dagger, 26: world.mend_dagger}
    for name, steps in (("one", range(crash_after)), ("two", range(crash_after, 60))):
        async with Running(world, name) as running:
            for number in steps:
                if number in script:
                    await script[number]()
                await beat(world)
                await running.step()

    assert sorted(await world.events()) == sorted([*["MonitorStarted"] * 2, *FIRED, *RESOLVED])
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


async def test_a_crash_between_the_post_and_its_record_repeats_one_under_the_same_key(world: World) -> None:
    world.alerts.refuses = lambda message: isinstance(message, alerts_pb2.NotificationSent)
    async with Running(world) as running:
        await world.fail_dagger()
        await running.steps(2)
        last = asyncio.create_task(running.steps(2))
        await world.alerts.refused.wait()
        last.cancel()
    world.alerts.refuses = lambda _: False
    async with Running(world, "two") as running:
        await running.steps(14)

    told = [each.body for each in world.receiver.received]
    texts = [body["text"] for body in told if "text" in body]
    keys = {body["dedup_key"] for body in told if "dedup_key" in body}
    assert (len(texts), len(set(texts)), keys) == (2, 1, {"daggers/bookings/failed"})


async def test_what_was_sent_is_recorded_when_kafka_is_back_and_not_sent_again(world: World) -> None:
    async with Running(world) as running:
        await world.fail_dagger()
        await running.steps(2)
        world.alerts.refuses = lambda message: isinstance(message, alerts_pb2.NotificationSent)
        going = asyncio.create_task(running.steps(4))
        await world.alerts.refused.wait()
        world.alerts.refuses = lambda _: False
        await going

    assert sorted(await world.events()) == sorted(["MonitorStarted", *FIRED])
    assert len(world.receiver.received) == 2


async def test_a_drain_lets_what_is_under_way_be_recorded(world: World) -> None:
    async with Running(world) as running:
        await world.fail_dagger()
        await running.step(notify=False)
        await running.step(2, notify=False)
        timer = asyncio.create_task(running.monitor.notify(running.monitor.channels[0]))
        await world.called.wait()
        timer.cancel()
        await running.monitor.drain(5 * SECOND)

    assert await world.events() == ["MonitorStarted", "AlertFired", "NotificationSent slack"]


async def test_nothing_is_fired_while_kafka_is_away_and_once_when_it_is_back(world: World) -> None:
    async with Running(world) as running:
        await running.step()
        world.alerts.refuses = lambda _: True
        await world.fail_dagger()
        await running.step()
        with pytest.raises(LogUnavailable):
            await running.step(3)
        world.alerts.refuses = lambda _: False
        await running.steps(4)

    assert sorted(await world.events()) == sorted(["MonitorStarted", *FIRED])


# ---- Receivers in bad health -------------------------------------------------------------------------------


async def test_a_receiver_in_trouble_is_tried_again_and_does_not_hold_up_the_other(world: World) -> None:
    troubles = [web.Response(status=500), web.Response(status=503)]
    world.answer = lambda received: troubles.pop() if "text" in received.body and troubles else None
    async with Running(world) as running:
        await world.fail_dagger()
        await running.steps(20)
        events = await world.events()

    assert [each for each in events if each.endswith("pagerduty")] == ["NotificationSent pagerduty"]
    assert [each for each in events if each.endswith("slack")] == [
        "NotificationFailed slack",
        "NotificationFailed slack",
        "NotificationSent slack",
    ]


async def test_what_a_receiver_refuses_is_given_up_and_the_end_is_told_all_the_same(world: World) -> None:
    refusals = [web.Response(status=400, text="invalid_payload")]
    world.answer = lambda received: refusals.pop() if "text" in received.body and refusals else None
    async with Running(world) as running:
        await world.fail_dagger()
        await running.steps(20)
        refused = [each for each in await world.events() if each.endswith("slack")]
        await world.mend_dagger()
        await running.steps(5)

    assert refused == ["NotificationFailed slack"]
    assert sum("resolved" in line for line in world.shown if line.startswith("slack")) == 1


async def test_retry_after_is_obeyed(world: World) -> None:
    busy = [web.Response(status=429, headers={"Retry-After": "20"})]
    world.answer = lambda received: busy.pop() if "text" in received.body and busy else None
    async with Running(world) as running:
        await world.fail_dagger()
        await running.steps(20)
        before = sum("text" in each.body for each in world.receiver.received)
        await running.steps(5)

    assert (before, sum("text" in each.body for each in world.receiver.received)) == (1, 2)


# ---- Leadership --------------------------------------------------------------------------------------------


async def test_the_first_monitor_of_a_log_leads_at_once_and_the_second_stands_by(world: World) -> None:
    async with Running(world, "one") as one, Running(world, "two") as two:
        for _ in range(30):
            await one.step(0.5)
            await two.step(0.5)

    assert (one.monitor.leads, two.monitor.leads, await world.events()) == (True, False, ["MonitorStarted"])


async def test_a_silent_leader_is_replaced_and_does_nothing_when_it_wakes(world: World) -> None:
    async with Running(world, "one") as one, Running(world, "two") as two:
        await one.step()
        await world.fail_dagger()
        await one.step()
        await two.steps(14)  # one is suspended; two takes over and tells
        told = len(world.shown)
        await one.steps(5)

    assert (one.monitor.leads, two.monitor.leads) == (False, True)
    assert (told, len(world.shown)) == (2, 2)


async def test_a_leader_that_wakes_reads_before_it_sends(world: World) -> None:
    """It still owes a notification by what it knew; the log says that another one has taken over and told."""
    async with Running(world, "one") as one:
        await world.fail_dagger()
        await one.step(notify=False)
        await one.step(3, notify=False)
        for follower in one.followers:
            follower.cancel()
        async with Running(world, "two") as two:
            await two.steps(14)
        for channel in one.monitor.channels:
            await one.monitor.notify(channel)

    assert one.monitor.leads is False
    assert len(world.receiver.received) == 2


# ---- Heartbeats --------------------------------------------------------------------------------------------


async def beat(world: World, *, progressed: datetime | None = None, ui_url: str = "") -> None:
    """What the driver says now; progress was just made unless told otherwise."""
    message = telemetry_pb2.Heartbeat(dagger="bookings", generation=world.generation, ui_url=ui_url)
    message.time.FromDatetime(world.now)
    message.last_progress.FromDatetime(progressed or world.now)
    await world.beats.append(Draft("b", "/test", "bookings", world.now, message))


async def test_no_progress_fires_and_resolves_by_heartbeats(world: World) -> None:
    async with Running(world) as running:
        await running.step()
        for _ in range(15):
            await beat(world, progressed=NOON)
            await running.step(10)
        stuck = list(world.kinds())
        for _ in range(3):
            await beat(world)
            await running.step(2)

    assert (stuck, world.kinds()) == (
        ["pagerduty triggered"],
        ["pagerduty triggered", "pagerduty resolved"],
    )
    assert "no progress" in world.shown[0]


async def test_silence_fires_unreachable_and_a_heartbeat_resolves_it(world: World) -> None:
    async with Running(world) as running:
        await beat(world, progressed=NOON)
        await running.steps(40)
        silent = list(world.kinds())
        for _ in range(5):
            await beat(world)
            await running.step()

    assert (silent, world.kinds()) == (
        ["pagerduty triggered"],
        ["pagerduty triggered", "pagerduty resolved"],
    )
    assert any("does not answer" in line for line in world.shown)


async def test_a_silent_driver_is_unreachable_only_when_its_spark_does_not_answer(world: World) -> None:
    names = [f"dagger bookings {world.generation}"]

    async def applications(_: web.Request) -> web.Response:
        return web.json_response([{"id": "local-1", "name": name} for name in names])

    application = web.Application()
    application.router.add_get("/api/v1/applications", applications)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with Running(world) as running:
            await beat(world, ui_url=f"http://127.0.0.1:{runner.addresses[0][1]}")
            await running.steps(60)
            answering = list(world.kinds())
            names[:] = ["dagger another 99"]  # its port is another's now
            await running.steps(5)
    finally:
        await runner.cleanup()

    assert (answering, world.kinds()) == ([], ["pagerduty triggered"])


async def test_a_record_that_cannot_be_read_is_refused_by_name_and_others_are_heard(world: World) -> None:
    async with Running(world) as running:
        broken = read_record(7, [("ce_type", b"daggers.v1.Heartbeat")], b"\xff")
        with pytest.raises(UnreadableHeartbeat, match=r"daggers\.v1\.Heartbeat"):
            running.monitor.heard(broken)
        await beat(world, progressed=NOON)
        await running.step()

    assert running.monitor._watches["bookings"].heard == world.now
