"""Puts a scheduler together: the one place that knows all parts, and what each is given of the settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Final

from daggers.v1 import events_pb2, spec_pb2
from prometheus_client.core import GaugeMetricFamily

from chassis import pressure, processes
from chassis.metrics import Metrics
from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB, DRIVER_OVERHEAD_MIB
from election import Beats
from eventlog import Log
from fleet.decide.observation import Policy
from fleet.fold.hosts import AGENT
from fleet.fold.quotas import Room
from fleet.health.degradation import SHOWN
from scheduler.drivers.command_lines import CommandLines
from scheduler.drivers.process_table import Drivers
from scheduler.host.operation_table import TABLE
from scheduler.host.operations import HostKnowledge, OperationRunner
from scheduler.host.preview_folders import PreviewFolders
from scheduler.host.previews import Previews
from scheduler.host.row_reader import RowReader
from scheduler.host.service import HostService
from scheduler.leader.capacity import HostMemory, available_mib, busy_cores
from scheduler.leader.heartbeats import set_aside_ends
from scheduler.leader.inventory import has_reader
from scheduler.leader.occupancy import Occupancy
from scheduler.leader.scheduler import LEADER_TIMEOUT, Options, Scheduler
from scheduler.leader.sink_logs import delete_logs
from scheduler.metrics import FACTS, PREVIEW_ENDS, gauges
from scheduler.settings import SchedulerSettings

_START_TIMEOUT: Final = timedelta(minutes=10)
"""Within which a launched driver must give its first heartbeat: Spark begins in seconds, and in minutes on a
host that has much to do or fetches packages."""
_BATCH_WAIT: Final = timedelta(seconds=20)
_BATCH_RECORDS: Final = 10_000
"""Longest wait of records for a batch where rows are written only when windows end, and the number that does
not wait: twenty seconds of a busy stream cost one batch instead of twenty (docs/decisions/0058).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Findings and settings of a scheduler on its host, before it reads the log."""

    settings: SchedulerSettings
    scheduler_id: str
    state_dir: Path
    """Absolute."""
    drivers: Drivers
    lines: CommandLines
    local_checkpoints: bool = False
    """True when this host may be one of several that have no checkpoint root in common."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of this host, which daggers may need."""
    host_beats: bool = False
    """True when heartbeats of drivers here travel with the beat of their host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A scheduler that has its log, and the services of its host."""

    scheduler: Scheduler
    previews: Previews
    host: HostService
    limit: Callable[[], int]
    """Drivers of the usual size that the host takes now."""
    memory_mib: Callable[[], int]
    """MiB that all its drivers may need together now."""

    def gauges(self) -> Iterator[GaugeMetricFamily]:
        """Measure them as they are now."""
        previews = self.previews
        return gauges(self.scheduler, self.limit(), processes=previews.processes, previews=previews.open)


def assemble(ground: Ground, control: Log, beats: Beats, metrics: Metrics) -> Parts:
    """Make the parts, on a control topic and heartbeats that are open. Nothing runs yet."""
    settings, drivers = ground.settings, ground.drivers
    previews: Previews  # made below, of what the scheduler follows; nobody asks before
    memory = HostMemory(
        DEFAULT_DRIVER_MEMORY_MIB,
        available=available_mib,
        resident=lambda: drivers.resident_mib(DEFAULT_DRIVER_MEMORY_MIB, previews.leaders),
    )

    def measure_room() -> tuple[int, int]:
        return room(settings, memory.mib())

    facts = metrics.counter(FACTS)
    scheduler = Scheduler(
        control,
        beats,
        drivers,
        command=ground.lines.for_job,
        platform=settings.kafka().address(),
        state_dir=ground.state_dir,
        checkpoint_root=settings.checkpoint_root,
        set_aside_ends=lambda: set_aside_ends(settings.kafka()),
        policy=policy(settings),
        options=options(ground),
        appended=lambda fact: facts.labels(fact).inc(),
        previews=lambda: previews.running,
        memory_mib=lambda: measure_room()[1],
        overload=pressure.overload,
        busy_cores=busy_cores,
        delete_logs=lambda is_deleted, confirm: delete_logs(settings.kafka(), is_deleted, confirm),
    )
    ends = metrics.counter(PREVIEW_ENDS)
    previews = Previews(
        sys.executable,
        PreviewFolders(ground.state_dir / "previews", ground.lines.scheduler),
        scheduler.follower,
        scheduler.fleet,
        ground.lines.for_preview,
        lambda: Room(memory_mib=measure_room()[1]),
        host=drivers.host,
        on=settings.previews,
        replays=lambda: Occupancy.of(attempt.computes for attempt in drivers.attempts()),
        ended=lambda why: ends.labels(why).inc(),
    )
    return Parts(
        scheduler=scheduler,
        previews=previews,
        host=make_host(ground, scheduler, previews),
        limit=lambda: measure_room()[0],
        memory_mib=lambda: measure_room()[1],
    )


def make_host(ground: Ground, scheduler: Scheduler, previews: Previews) -> HostService:
    """Make what answers the gateways' questions about this host."""
    python, inherited = sys.executable, ground.lines.inherited
    knowledge = HostKnowledge(
        fleet=scheduler.fleet,
        egress=ground.settings.rules(),
        checkpoints=scheduler.checkpoints,
        platform=ground.settings.kafka().address(),
    )
    return HostService(
        ground.drivers.runs,
        ground.drivers.host,
        RowReader(python, inherited),
        OperationRunner(python, inherited, ground.state_dir, scheduler.follower, knowledge, TABLE),
        previews,
    )


def address(ground: Ground, port: int, *, tls: bool) -> events_pb2.HostServing:
    """Return where gateways ask this host, which listens at `port`."""
    return events_pb2.HostServing(
        scheduler_id=ground.scheduler_id,
        host=ground.drivers.host,
        address=ground.settings.reached_at(port, ground.drivers.host),
        tls=tls,
        cutover=ground.settings.cutover,
    )


def registration(ground: Ground, memory_mib: int) -> events_pb2.HostRegistered:
    """Return what this host is, which has so many MiB for drivers."""
    return events_pb2.HostRegistered(
        scheduler_id=ground.scheduler_id,
        host=ground.drivers.host,
        boot_id=processes.boot_id(),
        version=version("scheduler"),
        cores=len(os.sched_getaffinity(0)),
        memory_mib=memory_mib,
        shared_checkpoints=bool(ground.settings.checkpoint_root),
        agent=AGENT,
        max_drivers=ground.settings.max_drivers or 0,
        labels=ground.labels,
    )


def options(ground: Ground) -> Options:
    """Return what the scheduler itself goes by."""
    settings = ground.settings
    return Options(
        scheduler_id=ground.scheduler_id,
        max_drivers=settings.max_drivers,
        leader_timeout=LEADER_TIMEOUT
        if settings.leader_timeout_s is None
        else timedelta(seconds=settings.leader_timeout_s),
        # where every team has a user of its own none ever takes it
        spare=settings.spare and not ground.drivers.runs_as_another(""),
        cutover=settings.cutover,
        local_checkpoints=ground.local_checkpoints,
        host_beats=ground.host_beats,
        has_reader=has_reader(ground.lines.installation.runtime.parent),
        batches=batches(),
        secrets=settings.secret_rule(),
        egress=settings.rules(),
    )


def batches() -> spec_pb2.BatchRule:
    """Return when the batches of drivers are due."""
    rule = spec_pb2.BatchRule(records=_BATCH_RECORDS)
    rule.longest_wait.FromTimedelta(_BATCH_WAIT)
    return rule


def policy(settings: SchedulerSettings) -> Policy:
    """Return how patient the scheduler is with its drivers."""
    return Policy(
        limits=replace(SHOWN, start=_START_TIMEOUT),
        attempts=settings.attempts,
    )


def room(settings: SchedulerSettings, memory_mib: int) -> tuple[int, int]:
    """Return how many drivers of the usual size this host takes, and the MiB that all may need together; it
    has `memory_mib` for them.

    Who says how many there may be has memory for so many of the usual size, whatever is free.
    """
    driver_mib = DEFAULT_DRIVER_MEMORY_MIB + DRIVER_OVERHEAD_MIB
    limit = settings.max_drivers or memory_mib // driver_mib
    return limit, settings.memory_mib or max(memory_mib, limit * driver_mib)
