"""Previews of this host: a process for each cluster, one preview at a time, others wait (ADR 101).

A process is started when the first preview asks, killed and replaced when it hangs or after `MOST` previews
(ADR 124), and ended after a while without any, or when drivers or replays need its memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import grpc
from daggers.v1 import gateway_pb2, host_pb2, spec_pb2

from chassis.errors import ApiError
from chassis.logging import logger
from daggerspec import rundir
from daggerspec.catalogue import UnresolvedName
from daggerspec.defaults import PREVIEWED
from daggerspec.preview import without_sinks
from eventlog.follower import Follower
from fleet import ApplyResult, Fleet
from fleet.fold import quotas
from fleet.fold.quotas import Room
from scheduler.drivers.command import beside, secret_variables
from scheduler.host import jobs, reader_process
from scheduler.host.preview_folders import PreviewFolders, size
from scheduler.host.preview_process import LESS, PreviewHost
from scheduler.host.reader_process import RETRY, busy
from scheduler.leader.occupancy import Occupancy, for_preview, usual_mib

MOST: Final = 100
"""Previews of one process, before another one takes its place."""
WAITING: Final = 16
"""Previews of a cluster that may wait for their turn."""
_LOOK_S: Final = 2.0
DISK_BYTES: Final = 4 * 1024**3
"""Bytes that one process may have on disk: state, shuffled rows, logs."""
_REPLACED: Final = ("died", "disk", "hung", "replaced")
"""After which ends of a process the next is started before anybody asks."""

Command: TypeAlias = Callable[
    [spec_pb2.JobSpec, str, spec_pb2.JobSpec], tuple[Sequence[str], Mapping[str, str]]
]
"""(job of the process, Spark master, a job that it is to preview) → command line and environment."""
Progress = gateway_pb2.PreviewProgress


@dataclass(eq=False)
class _Lane:
    """The previews of one cluster."""

    host: PreviewHost | None = None
    master: str = ""
    variables: frozenset[str] = frozenset()
    """The environment variables with secrets that the process has."""
    queue: list[object] = field(default_factory=list)
    """Turns of the preview that goes on, and of those that wait."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    since: float = 0.0
    """Time when its last preview ended, on the loop's clock."""
    last: spec_pb2.JobSpec | None = None
    """Job that its process was sent last."""
    again: spec_pb2.JobSpec | None = None
    """Job that the next process is started for, before anybody asks."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock of whoever looks whether there is a process, and starts one."""


class Previews:
    """Previews for callers. Not `on`: none."""

    def __init__(
        self,
        python: str,
        folders: PreviewFolders,
        follower: Follower[ApplyResult],
        fleet: Fleet,
        command: Command,
        room: Callable[[], Room],
        *,
        host: str,
        on: bool = True,
        idle_s: float = 300.0,
        replays: Callable[[], Occupancy] = Occupancy,
        ended: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`host` is this one, `room` what it has for drivers now; `replays`: how many live there.
        `ended` hears why a process has ended, of `preview_process.WHYS`.
        """
        self._python, self._folders, self._ended = python, folders, ended
        self._follower, self._fleet, self._command, self._room = follower, fleet, command, room
        self._host, self._on, self._idle_s, self._replays = host, on, idle_s, replays
        self._lanes: dict[str, _Lane] = {}
        self._watch: asyncio.Task[None] | None = None
        self._number = 0

    def close(self) -> None:
        """End every process."""
        if self._watch is not None:
            self._watch.cancel()
        for lane in self._lanes.values():
            self._end(lane, "closed")

    @property
    def running(self) -> int:
        """Number of processes on this host, those of its other schedulers among them."""
        return self.processes + self._folders.others()

    @property
    def processes(self) -> int:
        """Number of processes of this scheduler."""
        return sum(lane.host is not None and lane.host.alive for lane in self._lanes.values())

    @property
    def leaders(self) -> list[int]:
        """Process ids of the leaders of their sessions."""
        return [lane.host.pid for lane in self._lanes.values() if lane.host is not None and lane.host.alive]

    @property
    def open(self) -> int:
        """Number of previews that go on here, or wait."""
        return sum(len(lane.queue) for lane in self._lanes.values())

    async def steps(
        self, request: host_pb2.PreviewHostDaggerRequest
    ) -> AsyncGenerator[gateway_pb2.PreviewDaggerResponse, None]:
        """Yield the steps of a preview, when it is its turn. Raises: ApiError."""
        if not self._on:
            text = "this host does not preview: DAGGERS_SCHEDULER_PREVIEWS is off there"
            raise ApiError(grpc.StatusCode.UNIMPLEMENTED, "PREVIEWS_OFF", text, {})
        await reader_process.wait_until_read(self._follower, request.min_sequence)
        preview_request = request.request
        lane = self._lanes.setdefault(preview_request.spec.cluster, _Lane())
        if len(lane.queue) >= WAITING:
            raise busy(WAITING, "previews of a cluster")
        turn = object()
        lane.queue.append(turn)
        try:
            while ahead := lane.queue.index(turn):
                yield _progress(Progress.PHASE_QUEUED, ahead)
                moved = lane.moved
                while lane.queue.index(turn) == ahead:
                    await moved.wait()
                    moved = lane.moved
            if lane.host is not None:
                await lane.host.free()
            job = self._job(preview_request)
            async with lane.starting:
                if not self._serves(lane, job):
                    yield _progress(Progress.PHASE_STARTING)
                    await self._start(lane, preview_request.spec.cluster, job)
            assert lane.host is not None
            lane.last = job
            preview = host_pb2.PreviewJob(
                job=job,
                range=preview_request.range,
                max_rows=preview_request.max_rows,
                masked_columns=request.masked_columns,
                given=request.given if request.HasField("given") else None,
            )
            run_dir = lane.host.folder / str(job.generation)
            preview.job.run_dir, preview.job.checkpoint_root = str(run_dir), str(run_dir / rundir.CHECKPOINTS)
            async with aclosing(lane.host.steps(preview)) as steps:
                async for step in steps:
                    yield step
        finally:
            lane.queue.remove(turn)
            moved, lane.moved = lane.moved, asyncio.Event()
            moved.set()
            lane.since = asyncio.get_running_loop().time()
            if lane.host is not None and (not lane.host.alive or lane.host.previews >= MOST):
                self._end(lane, "replaced")

    def _serves(self, lane: _Lane, job: spec_pb2.JobSpec) -> bool:
        """Tell whether the process that there is can take a job."""
        is_alive = lane.host is not None and lane.host.alive
        return is_alive and lane.master == self._master(job) and secret_variables(job) <= lane.variables

    async def _start(self, lane: _Lane, cluster: str, job: spec_pb2.JobSpec) -> None:
        """Start a process. Raises: ApiError when there is no room, or it cannot be started."""
        self._end(lane, "replaced")
        self._check_room()
        self._number += 1
        master = self._master(job)
        own = spec_pb2.JobSpec(dagger=PREVIEWED, generation=self._number)
        own.spec.driver_memory_mib = self._room().driver_memory_mib
        folder: Path | None = None
        try:
            folder = self._folders.make(f"{cluster}-{self._number}")
            own.run_dir = str(folder)
            command, environment = self._command(own, master, job)
            lane.host = await PreviewHost.start(self._python, folder, command, environment, self._ended)
        except (OSError, UnresolvedName) as error:
            if folder is not None:
                self._folders.remove(folder)
            text = f"the process that previews cannot be started: {error}"
            raise ApiError(grpc.StatusCode.UNAVAILABLE, "PREVIEW_NOT_STARTED", text, {}) from error
        lane.again = None
        lane.master, lane.variables = master, frozenset(secret_variables(job))
        logger().info("scheduler.preview_host_started", cluster=cluster, pid=lane.host.pid)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._give_way())

    def _check_room(self) -> None:
        """Refuse a process when others need the memory; the spare gives way. Raises: ApiError."""
        if full := self._full(self.running):
            text = f"this host has no memory for a preview now: {full}"
            raise ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, "NO_ROOM", text, {}, retry_after=RETRY)

    def _full(self, others: int) -> str:
        """Return why one process more does not fit beside drivers, replays, and so many others; empty where
        it does.
        """
        drivers = self._fleet.drivers.on(self._host).usage
        room = for_preview(self._room(), replace(self._replays(), previews=others))
        full = quotas.host_full(drivers, usual_mib(self._room()), room)
        return full.detail if full is not None else ""

    async def _give_way(self) -> None:
        """End, while there is any process, those that nobody has used for a while, that fill the disk, or
        whose memory others need; an unused one comes first. And replace those that ended in the middle.
        """
        while any(lane.host is not None or lane.again is not None for lane in self._lanes.values()):
            await asyncio.sleep(_LOOK_S)
            for cluster, lane in sorted(self._lanes.items(), key=lambda named: bool(named[1].queue)):
                if lane.host is not None:
                    await self._look_at(lane, lane.host)
                if lane.again is not None and not lane.queue:
                    await self._replace(cluster, lane, lane.again)

    async def _look_at(self, lane: _Lane, host: PreviewHost) -> None:
        filled = await asyncio.to_thread(size, host.folder) > DISK_BYTES
        if lane.host is not host or not host.alive:
            pass
        elif full := self._full(self.running - 1):
            host.give_up("room", "PREVIEW_GAVE_WAY", f"others need its memory: {full}")
        elif filled:
            text = f"it has filled {DISK_BYTES // 1024**2:,} MiB of the disk; {LESS}"
            host.give_up("disk", "PREVIEW_FILLED_DISK", text)
        elif not lane.queue and asyncio.get_running_loop().time() - lane.since > self._idle_s:
            host.kill("idle")
        if lane.host is host and not host.alive and not lane.queue:
            self._end(lane, "died")

    async def _replace(self, cluster: str, lane: _Lane, job: spec_pb2.JobSpec) -> None:
        """Start one for the next caller, if there is room; once, for it may end as the last one did."""
        lane.again = None
        async with lane.starting:
            if lane.host is None and not lane.queue:
                with suppress(ApiError):
                    await self._start(lane, cluster, job)

    def _end(self, lane: _Lane, why: str) -> None:
        """End a lane's process. why: tells whether the next one is started for this one's last job."""
        if lane.host is not None:
            lane.host.kill(why)
            if lane.host.why in _REPLACED:
                lane.again, lane.last = lane.last, None
            self._folders.remove(lane.host.folder)
            lane.host = None

    def _master(self, job: spec_pb2.JobSpec) -> str:
        """Return the master where it runs: beside the scheduler, also for a cluster that is elsewhere."""
        cluster = self._fleet.clusters.get(job.spec.cluster)
        return beside(cluster.value.spark_master if cluster else "")

    def _job(self, request: gateway_pb2.PreviewDaggerRequest) -> spec_pb2.JobSpec:
        """Build the launch that is previewed: as a driver has it, but for sinks and platform. Raises:
        ApiError.
        """
        now = datetime.now(UTC)
        generation = int(now.timestamp() * 1_000_000)
        name, spec = request.name or PREVIEWED, without_sinks(request.spec)
        return jobs.build_spec_job(self._fleet, name, spec, now=now, generation=generation)


def _progress(phase: Progress.Phase.ValueType, ahead: int = 0) -> gateway_pb2.PreviewDaggerResponse:
    return gateway_pb2.PreviewDaggerResponse(progress=Progress(phase=phase, ahead=ahead))
