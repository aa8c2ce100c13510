"""`python -m scheduler`: the composition root, shaped as `chassis.service`. Drivers go on when it ends."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from chassis import processes, service
from chassis.egress import proxies
from chassis.endpoint import Endpoint, endpoint
from chassis.metrics import Metrics
from chassis.settings import own_directory
from daggerspec.labels import parse_labels
from election import host_name, identity
from eventlog import LogError
from eventlog.admin import await_topics
from eventlog.kafka import KafkaLog
from eventlog.topics import CONTROL, HEARTBEATS
from scheduler.drivers import command, own_pod, runas, spark_properties
from scheduler.drivers.command_lines import CommandLines
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.runas import RunAs
from scheduler.host.previews import Previews
from scheduler.host.service import serving as serving_host
from scheduler.leader.heartbeats import Heartbeats
from scheduler.leader.neighbours import NoSharedCheckpoints
from scheduler.parts import Ground, address, assemble, registration
from scheduler.settings import SchedulerSettings


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of the command line."""

    local_checkpoints: bool = False
    """True when hosts are allowed that have no checkpoint root in common: `--local-checkpoints`."""
    labels: Sequence[str] = ()
    """Labels of the host, which daggers may need: `--label KEY=VALUE`, once for each."""
    host_beats: bool = False
    """True when heartbeats of drivers travel with the beat of their host: `--host-beats`, once every service
    that reads heartbeats is of a version that knows it.
    """


class Missing(Exception):  # noqa: N818 - reads as what is wrong
    """Something a scheduler needs is not on this host. One sentence."""


def main() -> int:
    """Run a scheduler until it is told to stop."""
    away = (LogError, Missing, NoSharedCheckpoints)
    flags, words = parse_flags(sys.argv[1:])
    read = partial(_read, flags=flags)
    return service.run("scheduler", SchedulerSettings, words, read=read, serve=_serve, away=away)


def parse_flags(words: Sequence[str]) -> tuple[Flags, list[str]]:
    """Parse the flags of a command line; return them, and the words that are none of them."""
    parser = argparse.ArgumentParser(prog="scheduler", add_help=False, allow_abbrev=False)
    parser.add_argument("--local-checkpoints", action="store_true")
    parser.add_argument("--label", dest="labels", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--host-beats", action="store_true")
    options, others = parser.parse_known_args(words)
    return Flags(**vars(options)), others


def _read(settings: SchedulerSettings, *, flags: Flags) -> tuple[SchedulerSettings, Endpoint, Flags]:
    """Read the files that settings name. Raises: OSError, ValueError when one cannot be used."""
    parse_labels(flags.labels)
    own_directory(settings, "state_dir")
    reached = endpoint(
        settings.host_bind,
        certificate=settings.host_tls_cert_file,
        key=settings.host_tls_key_file,
        tokens=settings.host_token_file,
    )
    return settings, reached, flags


async def _serve(read: tuple[SchedulerSettings, Endpoint, Flags], stop: asyncio.Event) -> None:
    settings, reached, flags = read
    inherited = os.environ  # noqa: TID251 - the composition root hands it on
    await serve(settings, reached, inherited, stop, flags)


async def serve(
    settings: SchedulerSettings,
    reached: Endpoint,
    inherited: Mapping[str, str],
    stop: asyncio.Event,
    flags: Flags | None = None,
) -> None:
    """Serve until it is asked to stop.

    Raises: LogError, Missing, NoSharedCheckpoints, CannotBind, alone or in a group.
    """
    flags = flags or Flags()
    ground = replace(
        prepare(settings, inherited),
        local_checkpoints=flags.local_checkpoints,
        labels=parse_labels(flags.labels),
        host_beats=flags.host_beats,
    )
    kafka, metrics = settings.kafka(), Metrics("scheduler")
    if not await await_topics(kafka, stop):
        return
    async with KafkaLog(kafka, CONTROL) as control, Heartbeats(kafka, HEARTBEATS) as beats:
        parts = assemble(ground, control, beats, metrics)
        async with (
            _closing(parts.previews),
            serving_host(parts.host, reached, metrics.calls()) as port,
            metrics.serving(settings.metrics_bind, parts.gauges),
        ):
            announced = address(ground, port, tls=reached.tls), registration(ground, parts.memory_mib())
            serving = asyncio.create_task(parts.scheduler.run(*announced))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


def prepare(settings: SchedulerSettings, inherited: Mapping[str, str]) -> Ground:
    """Find what drivers need on this host. Raises: Missing, OSError."""
    state_dir = settings.state_dir.resolve()
    run_as = runas.parse(settings.run_as)
    drivers = Drivers(state_dir / "runs", host=host_name(), python=sys.executable, run_as=run_as)
    properties = settings.spark_properties_file and settings.spark_properties_file.resolve()
    installation = replace(
        find_installation(),
        properties=properties,
        own_properties=spark_properties.read(properties),
        shared_checkpoints=bool(settings.checkpoint_root),
        own_pod=own_pod.find(host_name()),
        prepared=settings.spark_home and settings.spark_home.absolute(),
    )
    leaving = proxies.handed_on(inherited, settings.outward_proxy)
    environment = {**leaving, "JAVA_HOME": str(find_java(settings.java_home, inherited))}
    check_users(run_as, drivers.runs, environment["JAVA_HOME"], installation)
    me = f"{os.getpid()}:{processes.start_ticks(os.getpid())}"
    return Ground(
        settings=settings,
        scheduler_id=identity(),
        state_dir=state_dir,
        drivers=drivers,
        lines=CommandLines(
            installation=installation,
            inherited=environment,
            runs_as_another=drivers.runs_as_another,
            scheduler=me,
        ),
    )


@asynccontextmanager
async def _closing(previews: Previews) -> AsyncIterator[None]:
    try:
        yield
    finally:
        previews.close()


def find_installation() -> command.Installation:
    """Find pyspark and the runtime; neither is imported here. Raises: Missing."""
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


def find_java(configured: Path | None, inherited: Mapping[str, str]) -> Path:
    """Return JAVA_HOME of the drivers. Raises: Missing."""
    home = configured or (Path(inherited["JAVA_HOME"]) if inherited.get("JAVA_HOME") else None)
    if home is None and (java := shutil.which("java", path=inherited.get("PATH"))):
        home = Path(java).resolve().parent.parent
    if home is None or not (home / "bin" / "java").is_file():
        where = f" (no bin/java in {home})" if home else ""
        raise Missing(f"Java is missing{where}: install Java 17 or newer, or set JAVA_HOME")
    return home


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise Missing(f"the Python package {name} is missing: install it beside the scheduler")
    return Path(spec.origin).parent


if __name__ == "__main__":
    sys.exit(main())
