"""The service end to end: real broker, real Faust, real HTTP; fresh topics, small limits."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from conftest import Stack
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, spec_pb2, telemetry_pb2
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from tests.integration.faults import kill, lasting, up
from tests.oidc.conftest import free_port
from tests.proxy import Proxy, port_of

from chassis.settings import variable
from eventlog import Draft, LogUnavailable
from eventlog.kafka import KafkaLog
from fleet.health.degradation import Limits
from health_monitor.__main__ import serve
from health_monitor.callbacks import sign
from health_monitor.receiver import AlertReceiver, Misbehave, ReceivedCall, behave
from health_monitor.settings import MonitorSettings, monitor_settings
from kafkaclient import Connection

pytestmark = pytest.mark.integration

DEADLINE_S = 60.0
ROUTING_KEY = "0123456789abcdef0123456789abcdef"
HTML = "a < b & <!channel>"


class Shown:
    """What a person was shown, to be waited for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._more = asyncio.Event()

    def add(self, line: str) -> None:
        self.lines.append(line)
        self._more.set()

    async def until(self, count: int, *, deadline_s: float = DEADLINE_S) -> list[str]:
        """The lines from the first on, once there are so many."""
        async with asyncio.timeout(deadline_s):
            while len(self.lines) < count:
                self._more.clear()
                await self._more.wait()
        return list(self.lines)


@dataclass
class Stage:
    """Fresh topics with one dagger on them, and somebody to be told."""

    kafka: str
    control: KafkaLog
    alerts: KafkaLog
    heartbeats: KafkaLog
    receiver: AlertReceiver
    shown: Shown
    names: dict[str, str]
    generation: int = 0
    epoch: int = 0
    beating: asyncio.Task[None] | None = None
    quiet: asyncio.Event = field(default_factory=asyncio.Event)
    progress: bool = True
    silence_s: float = 3
    progress_s: float = 4
    kafka_away_s: float = 30
    callbacks_bind: str = ""
    progressed: datetime = field(default_factory=lambda: datetime.now(UTC))
    counters: dict[str, int] = field(default_factory=dict)

    def settings(self) -> MonitorSettings:
        return monitor_settings()(
            kafka_bootstrap_servers=self.kafka,
            slack_url=self.receiver.slack_url,
            pagerduty_url=self.receiver.pagerduty_url,
            pagerduty_routing_key=ROUTING_KEY,
            allowed_hosts=f"127.0.0.1:{self.receiver.port}",
            hold_s=0.2,
            resolve_hold_s=0.2,
            progress_s=self.progress_s,
            kafka_away_s=self.kafka_away_s,
            leader_timeout_s=3,
            callbacks_bind=self.callbacks_bind,
        )

    def limits(self, configured: MonitorSettings) -> Limits:
        silence = timedelta(seconds=self.silence_s)
        return replace(configured.limits(), silence=silence, share_time=timedelta(0))

    @asynccontextmanager
    async def monitor(self) -> AsyncIterator[None]:
        """A monitor in this process."""
        stop = asyncio.Event()
        configured = self.settings()
        limits = self.limits(configured)
        running = asyncio.create_task(
            serve(configured, configured.channels(), stop, limits=limits, **self.names)
        )
        try:
            yield
        finally:
            stop.set()
            await running

    def process(self) -> subprocess.Popen[bytes]:
        """A monitor in a process of its own."""
        code = (
            "import asyncio, sys\n"
            "from dataclasses import replace\n"
            "from datetime import timedelta\n"
            "from chassis import logging, shutdown\n"
            "from health_monitor.__main__ import serve\n"
            "from health_monitor.settings import monitor_settings\n"
            "async def run():\n"
            "    configured = monitor_settings()()\n"
            "    limits = replace(configured.limits(), share_time=timedelta(0),\n"
            "                     silence=timedelta(seconds=float(sys.argv[4])))\n"
            "    await serve(configured, configured.channels(), shutdown.on_signal(), limits=limits,\n"
            "                control_topic=sys.argv[1], alerts_topic=sys.argv[2],\n"
            "                heartbeats_topic=sys.argv[3])\n"
            "logging.configure('health-monitor')\n"
            "asyncio.run(run())\n"
        )
        configured = self.settings()
        secrets = {"slack_url", "pagerduty_routing_key"}
        environment = {
            variable(type(configured), name): getattr(configured, name).get_secret_value() for name in secrets
        } | {
            variable(type(configured), name): str(value)
            for name, value in configured.model_dump(exclude=secrets, exclude_none=True).items()
        }
        pairs = [f"{name}={value}" for name, value in environment.items()]
        told = [*self.names.values(), str(self.silence_s)]
        return subprocess.Popen(["/usr/bin/env", *pairs, sys.executable, "-c", code, *told])

    async def tell(self, message: Message, log: KafkaLog | None = None) -> None:
        name = getattr(message, "name", "") or getattr(getattr(message, "meta", None), "name", "")
        draft = Draft(uuid.uuid4().hex, "/test", name or "bookings", datetime.now(UTC), message)
        await (log or self.control).append(draft)

    async def fact(self, kind: Callable[..., Any], **fields: Any) -> None:
        meta = events_pb2.FactMeta(epoch=self.epoch, name="bookings", generation=self.generation)
        await self.tell(kind(meta=meta, **fields))

    async def launch(self) -> None:
        """A dagger that runs and sends heartbeats."""
        await self.tell(events_pb2.SchedulerStarted(scheduler_id="s"))
        self.epoch = await self.control.end()
        await self.tell(
            events_pb2.DaggerRequested(
                meta=events_pb2.RequestMeta(actor="test"),
                name="bookings",
                spec=spec_pb2.DaggerSpec(team="pricing"),
            )
        )
        await self.fact(events_pb2.LaunchIntended, submission_id="one", version=1)
        self.generation = await self.control.end()
        await self.fact(events_pb2.Launched, driver=events_pb2.DriverHandle(host="h", pid=1))
        await self.fact(events_pb2.Running)
        self.speak()

    async def fail(self) -> None:
        """The dagger is given up."""
        error = events_pb2.DaggerError(reason="SINK_REFUSED", detail=HTML)
        await self.fact(events_pb2.Exited, code=64, error=error)
        await self.fact(events_pb2.Failed, error=error)

    async def mend(self) -> None:
        """A person starts it again, and it runs."""
        await self.tell(events_pb2.StartRequested(name="bookings"))
        await self.fact(events_pb2.LaunchIntended, submission_id="two", version=2)
        self.generation = await self.control.end()
        await self.fact(events_pb2.Launched, driver=events_pb2.DriverHandle(host="h", pid=2))
        await self.fact(events_pb2.Running)

    def beat(self) -> telemetry_pb2.Heartbeat:
        """What the driver says now."""
        now = datetime.now(UTC)
        self.progressed = now if self.progress else self.progressed
        beat = telemetry_pb2.Heartbeat(
            dagger="bookings",
            generation=self.generation,
            state=telemetry_pb2.Heartbeat.STATE_RUNNING,
            rows_in=1_000,
            quarantined=self.counters,
        )
        beat.time.FromDatetime(now)
        beat.last_progress.FromDatetime(self.progressed)
        return beat

    async def _beat(self) -> None:
        while not self.quiet.is_set():
            with suppress(LogUnavailable):  # a driver goes on without the broker, too
                await self.tell(self.beat(), self.heartbeats)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.quiet.wait(), timeout=0.3)

    async def silence(self) -> None:
        """The driver says nothing any more."""
        self.quiet.set()
        if self.beating is not None:
            await self.beating

    def speak(self) -> None:
        """The driver says something again."""
        self.quiet.clear()
        self.beating = asyncio.create_task(self._beat())

    async def events(self) -> list[str]:
        """What stands in the log of alerts, by type."""
        return [record.type.rpartition(".")[2] async for record in self.alerts.replay()]

    async def first(self, kind: str) -> Any:
        """The first event of a type in the log of alerts."""
        found = [record.message async for record in self.alerts.replay() if record.type.endswith(f".{kind}")]
        return found[0]

    async def until_event(self, kind: str, count: int = 1) -> None:
        async with asyncio.timeout(DEADLINE_S):
            seen = 0
            async for record in self.alerts.follow():
                seen += record.type.endswith(f".{kind}")
                if seen == count:
                    return

    async def until_acknowledged(self) -> None:
        """Wait until a receiver was told that somebody looks after all that is open."""
        async with asyncio.timeout(DEADLINE_S):
            async for record in self.alerts.follow():
                if record.type.endswith(".GroupNotificationSent") and record.message.notice.acknowledged:
                    return

    async def until_beaten(self, count: int) -> None:
        """Wait until the driver has said so much more."""
        async with asyncio.timeout(DEADLINE_S):
            end = await self.heartbeats.end() + count
            async for record in self.heartbeats.follow():
                if record.sequence == end:
                    return


@pytest.fixture
async def stage(kafka: str) -> AsyncIterator[Stage]:
    async with stage_on(kafka) as made:
        yield made


@asynccontextmanager
async def stage_on(kafka: str, misbehave: Misbehave = behave) -> AsyncIterator[Stage]:
    """A stage on this broker, whose receivers may misbehave."""
    run = uuid.uuid4().hex[:10]
    names = {f"{each}_topic": f"health-{each}-{run}" for each in ("control", "alerts", "heartbeats")}
    shown = Shown()
    async with (
        KafkaLog(Connection(kafka), names["control_topic"]) as control,
        KafkaLog(Connection(kafka), names["alerts_topic"]) as alerts,
        KafkaLog(Connection(kafka), names["heartbeats_topic"]) as heartbeats,
        AlertReceiver(show=shown.add, misbehave=misbehave) as receiver,
    ):
        made = Stage(kafka, control, alerts, heartbeats, receiver, shown, names)
        await made.launch()
        yield made
        await made.silence()


def kinds(lines: list[str]) -> list[str]:
    """Receiver and turn of each line, sorted."""
    return sorted(
        f"{line.split()[0]} {'over' if 'resolved' in line.splitlines()[0] else 'fired'}" for line in lines
    )


FIRED = ["pagerduty fired", "slack fired"]
OVER = ["pagerduty over", "slack over"]


async def test_a_failed_dagger_fires_on_both_receivers_and_resolves_when_it_runs_again(stage: Stage) -> None:
    async with stage.monitor():
        await stage.fail()
        fired = await stage.shown.until(2)
        await stage.mend()
        over = (await stage.shown.until(4))[2:]
        await stage.until_event("NotificationSent", 4)

    assert (kinds(fired), kinds(over)) == (FIRED, OVER)
    assert f"it was given up: SINK_REFUSED: {HTML}" in "".join(fired)
    assert sorted(await stage.events()) == [
        "AlertFired",
        "AlertResolved",
        "MonitorStarted",
        *["NotificationSent"] * 4,
    ]


async def test_no_progress_then_silence_then_health_are_told_by_heartbeats_alone(stage: Stage) -> None:
    async with stage.monitor():
        stage.progress = False
        stuck = await stage.shown.until(2)
        stage.progress = True
        mended = (await stage.shown.until(4))[2:]
        await stage.silence()
        silent = (await stage.shown.until(6))[4:]
        stage.speak()
        heard = (await stage.shown.until(8))[6:]

    assert [kinds(each) for each in (stuck, mended, silent, heard)] == [FIRED, OVER, FIRED, OVER]
    assert ["no progress" in "".join(stuck), "unreachable" in "".join(silent)] == [True, True]


async def test_a_quarantine_rate_is_told_although_a_damaged_heartbeat_came_before(stage: Stage) -> None:
    async with stage.monitor():
        await stage.until_event("MonitorStarted")
        await stage.tell(Empty(), stage.heartbeats)
        while not stage.shown.lines:
            stage.counters["MALFORMED"] = stage.counters.get("MALFORMED", 0) + 50
            await stage.tell(stage.beat(), stage.heartbeats)
        told = await stage.shown.until(2)

    assert kinds(told) == FIRED
    assert "records were quarantined" in told[0]


async def test_kill_9_and_a_restart_repeat_nothing_and_the_end_is_told_once(stage: Stage) -> None:
    first = stage.process()
    await stage.fail()
    await stage.until_event("NotificationSent", 2)
    first.kill()
    first.wait(timeout=30)
    async with stage.monitor():
        await stage.until_event("MonitorStarted", 2)
        await stage.mend()
        await stage.until_event("NotificationSent", 4)

    assert kinds(stage.shown.lines) == sorted(FIRED + OVER)


async def test_routes_reach_a_teams_pager_once_over_a_kill_9_and_say_the_end(
    stage: Stage, tmp_path: Path
) -> None:
    """Check that the pager alone hears of both, and no repeat of every second once it is acknowledged."""
    secrets = {"url": stage.receiver.pagerduty_url, "routing_key": ROUTING_KEY}
    for name, value in secrets.items():
        (tmp_path / name).write_text(value)
    places = {name: spec_pb2.SecretRef(file=str(tmp_path / name)) for name in secrets}
    pager = access_pb2.TeamReceiver(kind="pagerduty", secrets=places)
    await stage.tell(events_pb2.TeamRegistered(team=access_pb2.Team(name="pricing", receivers=[pager])))
    second = {"seconds": 1}
    tree = alerts_pb2.AlertRoute(
        receivers=["pagerduty"], group_wait=second, group_interval=second, repeat_interval=second
    )
    routes = alerts_pb2.RoutesChanged(team="pricing", routes=tree, actor="user:ada")
    await stage.tell(routes, stage.alerts)
    first = stage.process()
    await stage.fail()
    await stage.until_event("GroupNotificationSent", 3)
    fired = await stage.first("AlertFired")
    given = alerts_pb2.AlertAcknowledged(incidents=[fired.meta], actor="user:ada")
    await stage.tell(given, stage.alerts)
    first.kill()
    first.wait(timeout=30)
    async with stage.monitor():
        await stage.until_event("MonitorStarted", 2)
        await stage.until_acknowledged()
        before = (await stage.events()).count("GroupNotificationSent")
        await asyncio.sleep(3)
        quiet = (await stage.events()).count("GroupNotificationSent")
        await stage.mend()
        await stage.until_event("GroupNotificationSent", quiet + 1)

    assert before == quiet
    receivers = {line.split()[0] for line in stage.shown.lines}
    begin, *between, end = [line.split()[1] for line in stage.shown.lines]
    expected = {"repeated", "acknowledged"}
    assert (receivers, begin, {*between}, end) == ({"pagerduty"}, "triggered", expected, "resolved")
    assert "NotificationSent" not in await stage.events()


async def test_what_is_acknowledged_at_the_pager_comes_by_a_monitor_that_stands_by_and_outlives_the_leader(
    stage: Stage, tmp_path: Path
) -> None:
    """Check that PagerDuty is answered 503 while Kafka is away, repeats it, and is not told of it itself."""
    secrets = {"url": stage.receiver.pagerduty_url, "routing_key": ROUTING_KEY, "webhook_secret": "s3cret"}
    for name, value in secrets.items():
        (tmp_path / name).write_text(value)
    places = {name: spec_pb2.SecretRef(file=str(tmp_path / name)) for name in secrets}
    pager = access_pb2.TeamReceiver(kind="pagerduty", secrets=places)
    await stage.tell(events_pb2.TeamRegistered(team=access_pb2.Team(name="pricing", receivers=[pager])))
    leader = stage.process()
    try:
        await stage.until_event("MonitorStarted")
        with Proxy(port_of(f"//{stage.kafka}"), kafka=True) as way:
            stage.kafka, stage.callbacks_bind = f"127.0.0.1:{way.port}", f"127.0.0.1:{free_port()}"
            listens = httpx.AsyncHTTPTransport(retries=8)
            async with (
                stage.monitor(),
                httpx.AsyncClient(trust_env=False, timeout=30, transport=listens) as client,
            ):
                assert (await client.get(f"http://{stage.callbacks_bind}/callbacks/slack")).status_code == 405
                await stage.fail()
                await stage.until_event("NotificationSent")
                url = f"http://{stage.callbacks_bind}/callbacks/pagerduty/pricing"
                event = {
                    "id": "01BWDWL3NYY7LUFPZCC28QUCMK",
                    "event_type": "incident.acknowledged",
                    "occurred_at": datetime.now(UTC).isoformat(),
                    "agent": {"id": "PLH1HKV", "type": "user_reference", "summary": "Tenex Engineer"},
                    "data": {"incident_key": "daggers/bookings/failed"},
                }
                body = json.dumps({"event": event}).encode()
                headers = {"x-pagerduty-signature": f"v1={sign(secrets['webhook_secret'], body)}"}
                way.cut()
                away = await client.post(url, content=body, headers=headers)
                way.open()
                for _ in range(round(DEADLINE_S)):  # as PagerDuty repeats it
                    answer = await client.post(url, content=body, headers=headers)
                    if answer.status_code != 503:
                        break
                    await asyncio.sleep(1)
                leader.kill()
                leader.wait(timeout=30)
                await stage.until_event("MonitorStarted", 2)
                await stage.mend()
                await stage.until_event("NotificationSent", 2)
    finally:
        leader.kill()
        leader.wait(timeout=30)

    assert (away.status_code, answer.status_code) == (503, 200)
    assert answer.json()["result"] in ("acknowledged", "unchanged")  # Kafka may have the first attempt
    acknowledged = await stage.first("AlertAcknowledged")
    assert acknowledged.actor == "pagerduty:PLH1HKV (Tenex Engineer)"
    assert [line.split()[1] for line in stage.shown.lines] == ["triggered", "resolved"]


AWAY_S = 600.0
# The longest pause before a notification is sent again.
PATIENCE_S = 420.0


@pytest.mark.long
@pytest.mark.timeout(AWAY_S + 2 * PATIENCE_S)
async def test_receivers_that_fail_for_ten_minutes_get_everything_once_though_the_monitor_is_killed(
    kafka: str,
) -> None:
    async def refuse(_: ReceivedCall) -> web.Response:
        return web.Response(status=500, text="out of order")

    async def put_off(_: ReceivedCall) -> web.Response:
        return web.Response(status=429, headers={"retry-after": "30"})

    async def hang(_: ReceivedCall) -> web.Response:
        await asyncio.sleep(AWAY_S)
        return web.Response(text="nobody waits for this any more")

    async def outage(answer: Callable[[ReceivedCall], Awaitable[web.Response]]) -> list[str]:
        away = True

        async def misbehave(received: ReceivedCall) -> web.StreamResponse | None:
            return await answer(received) if away else None

        async with stage_on(kafka, misbehave) as stage:
            first = stage.process()
            await stage.fail()
            await asyncio.sleep(AWAY_S / 2)
            first.kill()
            first.wait(timeout=30)
            async with stage.monitor():
                await asyncio.sleep(AWAY_S / 2)
                away = False
                await stage.shown.until(2, deadline_s=PATIENCE_S)
                await stage.mend()
                await stage.shown.until(4, deadline_s=PATIENCE_S)
            return kinds(stage.shown.lines)

    found = await asyncio.gather(*map(outage, (refuse, put_off, hang)))

    assert found == [sorted(FIRED + OVER)] * 3


async def test_a_suspended_leader_is_replaced_and_does_nothing_when_it_wakes(stage: Stage) -> None:
    first = stage.process()
    try:
        await stage.until_event("MonitorStarted")
        first.send_signal(signal.SIGSTOP)
        async with stage.monitor():
            await stage.until_event("MonitorStarted", 2)
            first.send_signal(signal.SIGCONT)
            await stage.fail()
            await stage.until_event("NotificationSent", 2)
            await stage.mend()
            await stage.until_event("NotificationSent", 4)
    finally:
        first.terminate()
        code = first.wait(timeout=30)

    assert kinds(stage.shown.lines) == sorted(FIRED + OVER)
    assert sorted(await stage.events())[:4] == [
        "AlertFired",
        "AlertResolved",
        "MonitorStarted",
        "MonitorStarted",
    ]
    assert code == 0


async def test_what_was_set_aside_before_a_monitor_began_is_told_by_it(stage: Stage) -> None:
    await stage.until_beaten(1)
    stage.counters["MALFORMED"] = 200
    await stage.until_beaten(3)
    began = datetime.now(UTC)
    async with stage.monitor():
        told = await stage.shown.until(2)
        fired = await stage.first("AlertFired")

    assert kinds(told) == FIRED
    assert "200 records were quarantined" in told[0]
    assert fired.since.ToDatetime(UTC) < began


async def test_an_incident_outlives_a_kill_9_of_the_monitor_by_what_was_said_before(stage: Stage) -> None:
    first = stage.process()
    await stage.until_event("MonitorStarted")
    stage.counters["MALFORMED"] = 200
    await stage.until_event("NotificationSent", 2)
    first.kill()
    first.wait(timeout=30)
    async with stage.monitor():
        await stage.until_event("MonitorStarted", 2)
        await stage.until_beaten(15)  # all in order by these alone, for longer than an incident is held
        await stage.fail()
        await stage.until_event("AlertFired", 2)

    assert "AlertResolved" not in await stage.events()


@pytest.mark.long
async def test_without_the_broker_nobody_is_told_anything_and_with_it_again_what_happened(
    stack: Stack,
) -> None:
    async with stage_on(stack.kafka) as stage:
        stage.silence_s, stage.progress_s = 10, 120  # as by default, deaf before progress is missing
        stage.kafka_away_s = 600  # that Kafka is away is told, too, in time
        async with stage.monitor():
            await stage.until_event("MonitorStarted")
            await stage.until_beaten(2)
            await asyncio.to_thread(kill, stack, "kafka")
            await asyncio.to_thread(lasting, 2 * stage.silence_s)
            await asyncio.to_thread(up, stack)
            await stage.until_beaten(15)
            before = list(stage.shown.lines)
            await stage.fail()
            told = await stage.shown.until(2)

        assert (before, kinds(told)) == ([], FIRED)


@pytest.mark.long
async def test_a_monitor_whose_broker_is_gone_ends_within_a_minute(stage: Stage) -> None:
    with Proxy(port_of(f"//{stage.kafka}"), kafka=True) as broker:
        stage.kafka = f"127.0.0.1:{broker.port}"
        monitor = stage.process()
        try:
            await stage.until_event("MonitorStarted")
            broker.cut()
            await asyncio.to_thread(lasting, 20)  # its consumer has noticed
            monitor.send_signal(signal.SIGTERM)
            await asyncio.to_thread(monitor.wait, DEADLINE_S)
        finally:
            monitor.kill()
            monitor.wait(timeout=30)

    assert monitor.returncode == 0


@pytest.mark.long
async def test_a_broker_that_is_gone_pages_once_and_the_log_gets_it_when_it_is_back(stack: Stack) -> None:
    async with stage_on(stack.kafka) as stage:
        stage.silence_s, stage.progress_s, stage.kafka_away_s = 10, 120, 10
        async with stage.monitor():
            await stage.until_event("MonitorStarted")
            await stage.until_beaten(2)
            await asyncio.to_thread(kill, stack, "kafka")
            gone = time.monotonic()
            told = await stage.shown.until(2)
            took = time.monotonic() - gone
            await asyncio.to_thread(lasting, stage.kafka_away_s)
            meanwhile = list(stage.shown.lines)
            await asyncio.to_thread(up, stack)
            await stage.until_event("OutageReported")
            over = (await stage.shown.until(4))[2:]
            await stage.until_beaten(5)

        # two writes have to fail, and Kafka has 15 s to take each
        assert took < stage.kafka_away_s + 2 * 15 + 5
        assert (kinds(told), kinds(over), len(meanwhile), len(stage.shown.lines)) == (FIRED, OVER, 2, 4)
        assert all("platform" in line for line in stage.shown.lines)


@pytest.mark.long
# The thread of a consumer that was let go of ends by what its tasks were cancelled with.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_monitor_whose_clients_are_stuck_hears_and_tells_by_fresh_ones(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkaclient.replacing.PATIENCE_S", 4.0)
    monkeypatch.setattr("kafkaclient.replacing._LOOK_AGAIN_S", 1.0)
    broker = port_of(f"//{kafka}")
    with Proxy(broker, kafka=True) as before, Proxy(broker, kafka=True) as after:
        after.cut()
        async with asyncio.timeout(2 * DEADLINE_S), stage_on(kafka) as stage:
            stage.kafka = f"127.0.0.1:{before.port},127.0.0.1:{after.port}"
            stage.silence_s, stage.progress_s, stage.kafka_away_s = 120, 240, 600
            async with stage.monitor():
                await stage.until_event("MonitorStarted")
                await stage.until_beaten(2)
                before.cut()  # who knows the broker by this address asks at the other one never
                after.open()
                while len(stage.shown.lines) < 2:
                    stage.counters["MALFORMED"] = stage.counters.get("MALFORMED", 0) + 50
                    await asyncio.sleep(0.5)
                told = list(stage.shown.lines)

    assert kinds(told) == FIRED
    assert "records were quarantined" in told[0]
