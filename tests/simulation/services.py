"""The real services, each as one simulated process, put together as their `__main__` does it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
from daggers.v1 import events_pb2, spec_pb2
from pydantic import SecretStr
from tests.simulation.hosts import Host, SimulatedDrivers, Sinks
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.outside import RECEIVERS, SimulatedWebhooks
from tests.simulation.world import World

from api_gateway.server import begin, fold_on, following
from api_gateway.state.fold import Fold
from api_gateway.state.projection import Projection
from api_gateway.state.projector import Projector
from api_gateway.state.writer import RequestWriter
from eventlog import LogPosition, LogUnavailable
from fleet.decide.observation import Policy
from fleet.health.degradation import SHOWN, Limits
from fleet.health.watch import RECALL
from health_monitor.alerts.alert import Policy as AlertPolicy
from health_monitor.alerts.leadership import Identity
from health_monitor.deliver.webhook import Channel
from health_monitor.monitor import Monitor
from health_monitor.receivers import slack
from scheduler.leader.scheduler import Options, Scheduler

JUDGE_S: Final = 1.0
PROBE_S: Final = 5.0
NOTIFY_S: Final = 0.5
ROOT: Final = "/simulated/checkpoints"
POLICY: Final = Policy(
    limits=replace(SHOWN, start=timedelta(seconds=30), silence=timedelta(seconds=20)),
    hold=timedelta(seconds=5),
    grace=timedelta(seconds=15),
    catch_up=timedelta(seconds=30),
    handover=timedelta(seconds=10),
    attempts=5,
    longest_delay=timedelta(seconds=20),
)


class Service:
    """A process that serves, and how it ended."""

    def __init__(self, loop: SimulatedLoop, process: Process, body: Coroutine[Any, Any, None]) -> None:
        self.process = process
        self._task = loop.spawn(process, body)
        self._task.add_done_callback(self._ended)

    @property
    def serves(self) -> bool:
        """Whether it lives, as far as a process table can tell."""
        return self.process.alive

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.process.alive = False
        error = None if task.cancelled() else task.exception()
        if error is not None and not _away(error):
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"{self.process.name} failed", "exception": error}
            )


def _away(error: BaseException) -> bool:
    """Whether it ended because the log does not answer: a supervisor begins it anew."""
    if isinstance(error, BaseExceptionGroup):
        return all(_away(cause) for cause in error.exceptions)
    return isinstance(error, LogUnavailable)


def scheduler(
    world: World,
    process: Process,
    host: Host,
    sinks: Sinks,
    state: Path,
    dead: Callable[[str], bool],
    *,
    spare: bool,
    cutover: bool,
    shared: bool,
) -> Coroutine[Any, Any, None]:
    """Run a scheduler on a host, with or without a spare, cutovers, and a checkpoint root of all hosts;
    `dead` proves the death of another by its identity.
    """
    source, alive = f"/scheduler/{process.name}", partial(getattr, process, "alive")

    async def ends() -> Mapping[int, int]:
        if world.kafka.away or world.chance(0.1, "quarantine away"):
            raise LogUnavailable("the topic does not answer")
        return {0: len(sinks.quarantine.records)}

    scheduler = Scheduler(
        world.control,
        world.beats,
        SimulatedDrivers(world, sinks, host, source, alive),  # type: ignore[arg-type]  # the same methods
        command=lambda *_: ([], {}),
        platform=spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:9092"),
        state_dir=state,
        checkpoint_root=ROOT if shared else "",
        set_aside_ends=ends,
        policy=POLICY,
        options=Options(
            scheduler_id=process.name,
            max_drivers=9,
            memory_mib=host.memory_mib,
            spare=spare,
            cutover=cutover,
            local_checkpoints=True,
            tick=timedelta(seconds=1),
            sweep=timedelta(seconds=10),
        ),
        clock=world.now,
        dead=dead,
        memory_mib=lambda: host.free_mib,
        reaches_root=lambda: not world.chance(0.05, "checkpoint root away"),
    )
    address = f"{process.name}:50061"
    return scheduler.run(
        events_pb2.HostServing(scheduler_id=process.name, host=host.name, address=address),
        events_pb2.HostRegistered(
            scheduler_id=process.name,
            host=host.name,
            boot_id=host.boot_id,
            memory_mib=host.memory_mib,
            cores=host.cores,
            agent=host.agent,
            shared_checkpoints=shared,
            labels={"zone": host.zone},
        ),
    )


class GatewayModel:
    """A gateway without its door: the fold, its tables if any, and the writer that its handlers call."""

    def __init__(self, world: World, process: Process, projection: Projection | None) -> None:
        self.process = process
        self.writer: RequestWriter | None = None
        """None until it is ready to serve."""
        self._world, self._projection = world, projection

    async def run(self) -> None:
        """Run as `api_gateway.server.serving` does. Raises: LogUnavailable."""
        world = self._world
        fold, seen = Fold(), LogPosition()
        if self._projection is not None:
            fold, seen = await asyncio.to_thread(begin, self._projection)
        follower = following(world.control, fold, seen)
        end = await world.control.end()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fold_on(follower, fold))
            if self._projection is not None:
                projector = Projector(follower, fold, self._projection, applied=fold.fleet.sequence)
                tasks.create_task(projector.run(since=max(end, seen.sequence)))
            await follower.wait_for(end)
            self.writer = RequestWriter(follower, fold.fleet, f"/api-gateway/{self.process.name}", world.now)


def monitor(
    world: World,
    process: Process,
    webhooks: SimulatedWebhooks,
    spark: httpx.AsyncClient,
    dead: Callable[[str], bool],
) -> Monitor:
    """A monitor that tells two receivers; `dead` proves the death of another by its identity."""
    return Monitor(
        Identity(monitor_id=process.name, host=process.name),
        control=world.control,
        alerts=world.alerts,
        beats=world.beats,
        channels=[
            Channel(name, slack, slack.Settings(url=SecretStr(f"https://{name}.invalid")))
            for name in RECEIVERS
        ],
        webhooks=webhooks,  # type: ignore[arg-type]  # the same method
        spark=spark,
        # A loop of the faulty time is over before a life is judged.
        limits=Limits(restarts_within=timedelta(minutes=2)),
        policy=AlertPolicy(hold=timedelta(seconds=2), resolve_hold=timedelta(seconds=5)),
        patience=timedelta(seconds=10),
        clock=world.now,
        dead=dead,
        journal=world.journal,
    )


async def watch(
    world: World,
    process: Process,
    webhooks: SimulatedWebhooks,
    spark: httpx.AsyncClient,
    dead: Callable[[str], bool],
) -> None:
    """As `health_monitor.__main__` and its `host`, with the timers of the latter. Raises: LogUnavailable."""
    built = monitor(world, process, webhooks, spark, dead)

    async def listen() -> None:
        async for record in world.beats.follow():
            built.receive(record)

    async def every(seconds: float, body: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            with suppress(LogUnavailable):
                await body()

    async with asyncio.TaskGroup() as tasks:
        for follower in built.followers:
            tasks.create_task(follower.run())
        await built.catch_up()
        built.observer.recall(world.now() - RECALL)
        async for record in world.beats.replay():
            built.receive(record, record.time)
        built.observer.begin()
        tasks.create_task(listen())
        tasks.create_task(every(JUDGE_S, built.leadership.lead))
        tasks.create_task(every(JUDGE_S, built.judge))
        tasks.create_task(every(JUDGE_S, built.judge_platform))
        tasks.create_task(every(PROBE_S, built.observer.probe))
        for channel in built.channels:
            tasks.create_task(every(NOTIFY_S, partial(built.deliveries.notify, channel)))
            tasks.create_task(every(NOTIFY_S, partial(built.deliveries.notify_outage, channel)))
