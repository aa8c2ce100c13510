"""`python -m scheduler`: the composition root, shaped as `chassis.service`. Drivers go on when it ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

from daggers.v1 import events_pb2, spec_pb2

from chassis import logging, pressure, processes, service
from chassis.egress import proxies
from chassis.endpoint import Endpoint, endpoint
from chassis.metrics import Metrics
from chassis.settings import own_directory
from daggerspec import rundir
from daggerspec.limits import DRIVER_OVERHEAD_MIB
from election import host_name, identity
from eventlog import LogError
from eventlog.admin import await_topics
from eventlog.kafka import KafkaLog
from eventlog.topics import CONTROL, HEARTBEATS
from fleet.health import SHOWN
from fleet.observation import Policy
from fleet.quotas import Room
from scheduler import capacity, command, hostservice, runas
from scheduler.drivers import Drivers
from scheduler.foreseer import Foreseer
from scheduler.heartbeats import Heartbeats, set_aside_ends
from scheduler.hostservice import HostService
from scheduler.metrics import FACTS, PREVIEW_ENDS, gauges
from scheduler.occupancy import Occupancy
from scheduler.previewfolders import PreviewFolders
from scheduler.previews import Previews
from scheduler.readsplanner import ReadsPlanner
from scheduler.rowreader import RowReader
from scheduler.runas import RunAs
from scheduler.sampler import StreamSampler
from scheduler.settings import SchedulerSettings
from scheduler.shell import Options, Scheduler
from scheduler.sinktester import SinkTester


class Missing(Exception):  # noqa: N818 - reads as what is wrong
    """Something a scheduler needs is not on this host. One sentence."""


def main() -> int:
    """Run a scheduler until it is told to stop."""
    away = (LogError, Missing)
    return service.run("scheduler", SchedulerSettings, sys.argv[1:], read=_read, serve=_serve, away=away)


def _read(told: SchedulerSettings) -> tuple[SchedulerSettings, Endpoint]:
    """Raises: OSError, ValueError when a file cannot be used."""
    logging.configure("scheduler", level=told.log_level)
    own_directory(told, "state_dir")
    reached = endpoint(
        told.host_bind,
        certificate=told.host_tls_cert_file,
        key=told.host_tls_key_file,
        tokens=told.host_token_file,
    )
    return told, reached


async def _serve(read: tuple[SchedulerSettings, Endpoint], asked: asyncio.Event) -> None:
    await serve(*read, os.environ, asked)  # noqa: TID251 - the composition root hands it on


async def serve(
    told: SchedulerSettings, reached: Endpoint, inherited: Mapping[str, str], asked: asyncio.Event
) -> None:
    """Serve until it is asked to stop. Raises: LogError, Missing, CannotBind, alone or in a group."""
    state_dir = told.state_dir.resolve()
    run_as = runas.parse(told.run_as)
    drivers = Drivers(state_dir / "runs", host=host_name(), python=sys.executable, run_as=run_as)
    installation = replace(
        find_installation(),
        properties=told.spark_properties_file and told.spark_properties_file.resolve(),
        shared_checkpoints=bool(told.checkpoint_root),
        prepared=told.spark_home and told.spark_home.absolute(),
    )
    leaving = proxies.handed_on(inherited, told.outward_proxy)
    environment = {**leaving, "JAVA_HOME": str(find_java(told.java_home, inherited))}
    check_users(run_as, drivers.runs, environment["JAVA_HOME"], installation)
    rows = RowReader(sys.executable, environment)
    kafka = told.kafka()
    scheduler_id = identity()
    metrics = Metrics("scheduler")
    facts, ends = metrics.counter(FACTS), metrics.counter(PREVIEW_ENDS)
    previews: Previews  # made below, of what the scheduler follows
    host_memory = capacity.HostMemory(
        told.driver_memory_mib,
        available=capacity.available_mib,
        resident=lambda: drivers.resident_mib(told.driver_memory_mib, previews.leaders),
    )

    def measured() -> tuple[int, int]:
        return room(told, host_memory.mib())

    me = f"{os.getpid()}:{processes.start_ticks(os.getpid())}"

    def command_of(job: spec_pb2.JobSpec, master: str) -> tuple[Sequence[str], Mapping[str, str]]:
        closed = drivers.runs_as_another(job.spec.team)
        if Path(job.run_dir).parent.name == rundir.REPLAYS and master:
            words = command.computing_replay(job, master, installation, closed=closed)
            return words, command.environment(job, master, installation, environment)
        if Path(job.run_dir).parent.name == rundir.REPLAYS:
            return command.replay(job, installation.python), command.replay_environment(job, environment)
        words = (
            command.spare(job, master, installation, me)
            if job.dagger == rundir.SPARE
            else command.spark_submit(job, master, installation, closed=closed)
        )
        return words, command.environment(job, master, installation, environment)

    def preview_of(
        own: spec_pb2.JobSpec, master: str, job: spec_pb2.JobSpec
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        words = command.preview(own, master, installation, me)
        secrets = command.secrets(job, environment)
        return words, {**command.environment(own, master, installation, environment), **secrets}

    if not await await_topics(kafka, asked):
        return
    async with KafkaLog(kafka, CONTROL) as control, Heartbeats(kafka, HEARTBEATS) as beats:
        scheduler = Scheduler(
            control,
            beats,
            drivers,
            command=command_of,
            platform=kafka.address(),
            state_dir=state_dir,
            checkpoint_root=told.checkpoint_root,
            set_aside_ends=lambda: set_aside_ends(kafka),
            policy=policy(told),
            options=Options(
                scheduler_id=scheduler_id,
                max_drivers=told.max_drivers,
                leader_timeout=timedelta(seconds=told.leader_timeout_s),
                driver_memory_mib=told.driver_memory_mib,
                spare=told.spare and run_as.user("") is None,  # else no team ever takes it
                cutover=told.cutover,
                batches=told.batches(),
                secrets=told.secret_rule(),
                egress=told.rules(),
            ),
            appended=lambda fact: facts.labels(fact).inc(),
            previews=lambda: previews.running,
            memory_mib=lambda: measured()[1],
            overload=pressure.overload,
        )
        streams = StreamSampler(sys.executable, environment, state_dir, scheduler.follower, scheduler.fleet)
        previews = Previews(
            sys.executable,
            PreviewFolders(state_dir / "previews", me),
            scheduler.follower,
            scheduler.fleet,
            preview_of,
            lambda: Room(memory_mib=measured()[1], driver_memory_mib=told.driver_memory_mib),
            on=told.previews,
            idle_s=told.preview_idle_s,
            replays=lambda: Occupancy.of(attempt.computes for attempt in drivers.attempts()),
            ended=lambda why: ends.labels(why).inc(),
        )
        sinks = SinkTester(
            sys.executable, environment, state_dir, scheduler.follower, scheduler.fleet, told.rules()
        )
        plans = ReadsPlanner(
            sys.executable,
            environment,
            state_dir,
            scheduler.checkpoints,
            scheduler.follower,
            scheduler.fleet,
        )
        foreseer = Foreseer(
            sys.executable,
            environment,
            state_dir,
            scheduler.checkpoints,
            kafka.address(),
            scheduler.follower,
            scheduler.fleet,
        )
        host = HostService(drivers.runs, drivers.host, rows, streams, previews, sinks, plans, foreseer)
        async with (
            _closed(previews),
            hostservice.serving(host, reached, metrics.calls()) as port,
            metrics.serving(
                told.metrics_bind,
                lambda: gauges(
                    scheduler, measured()[0], processes=previews.processes, previews=previews.open
                ),
            ),
        ):
            address = events_pb2.HostServing(
                scheduler_id=scheduler_id,
                host=drivers.host,
                address=told.reached_at(port, drivers.host),
                tls=reached.tls,
                cutover=told.cutover,
            )
            serving = asyncio.create_task(scheduler.run(address))
            stopping = asyncio.create_task(asked.wait())
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


@asynccontextmanager
async def _closed(previews: Previews) -> AsyncIterator[None]:
    try:
        yield
    finally:
        previews.close()


def policy(told: SchedulerSettings) -> Policy:
    """How patient this scheduler is told to be."""
    return Policy(
        limits=replace(SHOWN, start=timedelta(seconds=told.start_timeout_s)),
        grace=timedelta(seconds=told.drain_timeout_s),
        attempts=told.attempts,
    )


def room(told: SchedulerSettings, memory_mib: int) -> tuple[int, int]:
    """Drivers of the usual size that this host takes, and what all may need together, in MiB, where it has
    `memory_mib` for them.

    Who says how many there may be has memory for so many of the usual size, whatever is free.
    """
    driver_mib = told.driver_memory_mib + DRIVER_OVERHEAD_MIB
    limit = told.max_drivers or memory_mib // driver_mib
    return limit, told.memory_mib or max(memory_mib, limit * driver_mib)


def find_installation() -> command.Installation:
    """Where pyspark and the runtime are; neither is imported here. Raises: Missing."""
    return command.Installation(
        spark_home=_package("pyspark"),
        python=Path(sys.executable),
        runtime=_package("runtime") / "__main__.py",
        log4j=Path(__file__).with_name("log4j2.properties"),
    )


def check_users(run_as: RunAs, runs: Path, java_home: str, installation: command.Installation) -> None:
    """See that drivers can run as the users of teams. Raises: Missing, OSError."""
    if not run_as:
        return
    for folder in (runs.parent, runs):
        runas.open_way(folder)
    homes = filter(None, (installation.spark_home, installation.prepared))
    read = [installation.runtime, installation.log4j, *(home / "jars" for home in homes)]
    read += [installation.prepared / command.ARCHIVE] if installation.prepared else []
    read += [installation.properties] if installation.properties else []
    obstacles = [
        runas.obstacle(user, runs, sys.executable, f"{java_home}/bin/java", read)
        for user in dict.fromkeys(run_as.by_team.values())
    ]
    if any(obstacles):
        raise Missing("; ".join(filter(None, obstacles)))


def find_java(told: Path | None, inherited: Mapping[str, str]) -> Path:
    """JAVA_HOME of the drivers. Raises: Missing."""
    home = told or (Path(inherited["JAVA_HOME"]) if inherited.get("JAVA_HOME") else None)
    if home is None and (java := shutil.which("java", path=inherited.get("PATH"))):
        home = Path(java).resolve().parent.parent
    if home is None or not (home / "bin" / "java").is_file():
        where = f" (no bin/java in {home})" if home else ""
        raise Missing(f"Java is missing{where}: install Java 17 or newer, or set DAGGERS_SCHEDULER_JAVA_HOME")
    return home


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise Missing(f"the Python package {name} is missing: install it beside the scheduler")
    return Path(spec.origin).parent


if __name__ == "__main__":
    sys.exit(main())
