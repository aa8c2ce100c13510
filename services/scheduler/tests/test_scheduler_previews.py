"""Previews of a host: turns, replaced processes, room; the process is a stand-in."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, spec_pb2

from chassis import processes
from chassis.errors import ApiError
from daggerspec.limits import REPLAY_MIB
from eventlog import Draft
from eventlog.follower import Follower
from eventlog.memory import MemoryLog
from fleet import Fleet
from fleet.fold.quotas import Room
from scheduler.host import previews
from scheduler.host.preview_folders import PreviewFolders
from scheduler.host.preview_process import slow
from scheduler.host.previews import Previews
from scheduler.leader.occupancy import Occupancy, usual_mib

STAND_IN = str(Path(__file__).with_name("preview_stand_in.py"))
DEADLINE_S = 60
_ROOM = Room()
META = events_pb2.RequestMeta(actor="test")
Progress = gateway_pb2.PreviewProgress


@dataclass
class World:
    """A host that previews on the cluster `local`."""

    previews: Previews
    masters: list[str]
    ends: list[str]
    """Why processes have ended."""

    def steps(self, sql: str, cluster: str = "local") -> Any:
        spec = spec_pb2.DaggerSpec(cluster=cluster, sql=sql)
        request = gateway_pb2.PreviewDaggerRequest(name="d", spec=spec)
        return self.previews.steps(host_pb2.PreviewHostDaggerRequest(request=request))

    async def all(self, sql: str, cluster: str = "local") -> list[gateway_pb2.PreviewDaggerResponse]:
        async with asyncio.timeout(DEADLINE_S), aclosing(self.steps(sql, cluster)) as steps:
            return [step async for step in steps]


def _me() -> str:
    return f"{os.getpid()}:{processes.start_ticks(os.getpid())}"


@asynccontextmanager
async def world(
    tmp_path: Path,
    room: Room = _ROOM,
    master: str = "local[1]",
    **how: Any,
) -> AsyncIterator[World]:
    log, fleet, masters, ends = MemoryLog(), Fleet(), list[str](), list[str]()
    kafka = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1")
    for name in ("local", "other"):
        cluster = spec_pb2.Cluster(name=name, kafka=kafka, spark_master=master)
        registered = events_pb2.ClusterRegistered(meta=META, cluster=cluster)
        await log.append(Draft(name, "/t", name, datetime.now(UTC), registered))
    follower = Follower(log, fleet)
    following = asyncio.create_task(follower.run())
    await follower.wait_for(await log.end())

    def command(own: spec_pb2.JobSpec, url: str, job: spec_pb2.JobSpec) -> Any:
        masters.append(url)
        return [sys.executable, "-P", STAND_IN], {"PATH": "/usr/bin:/bin"}

    folders = PreviewFolders(tmp_path / "previews", _me())
    how = {"ended": ends.append, **how}
    made = Previews(sys.executable, folders, follower, fleet, command, lambda: room, host="here", **how)
    try:
        yield World(made, masters, ends)
    finally:
        made.close()
        following.cancel()


@pytest.mark.parametrize(
    ("overload", "reason", "text"),
    [
        ("", "PREVIEW_TIMED_OUT", "it said nothing for 75 s; ask for less"),
        (
            "the host is overloaded",
            "HOST_OVERLOADED",
            "it said nothing for 75 s, and the host is overloaded; ask again when it has less to do",
        ),
    ],
)
def test_a_preview_on_an_overloaded_host_is_not_told_to_ask_for_less(
    overload: str, reason: str, text: str
) -> None:
    assert slow("it said nothing for 75 s", "ask for less", overload) == (reason, text)


def until(what: Callable[[], object]) -> None:
    """Wait, for what ends by a signal is gone a moment later."""
    end = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def process_of(steps: list[gateway_pb2.PreviewDaggerResponse]) -> int:
    return steps[-1].done.records


def working_in(folder: Path) -> list[int]:
    everybody = [process.pid for process in processes.everybody()]
    return [pid for pid in everybody if processes.working_directory(pid).startswith(str(folder))]


async def test_one_process_previews_one_after_another_and_each_cluster_has_its_own(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        first, second, other = [await there.all("rows", each) for each in ("local", "local", "other")]
        kept = there.previews.running
        logs = len(list((tmp_path / "previews").glob("*/*")))

    assert [each.progress.phase for each in first[:-1]] == [Progress.PHASE_STARTING, 0]
    assert [each.progress.phase for each in second[:-1]] == [0]
    assert process_of(first) == process_of(second) != process_of(other)
    assert (kept, logs, there.masters) == (2, 2, ["local[1]"] * 2)
    assert first[-1].done.rows == 1  # the sink that is never opened
    until(lambda: processes.find(process_of(first)) is None)


async def test_who_waits_sees_the_place_and_comes_next(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        running = there.steps("hang")
        assert (await anext(running)).progress.phase == Progress.PHASE_STARTING
        await anext(running)
        waiting = there.steps("rows")
        place = await anext(waiting)
        await running.aclose()
        rest = [step async for step in waiting]

    assert (place.progress.phase, place.progress.ahead) == (Progress.PHASE_QUEUED, 1)
    assert rest[-1].HasField("done")
    assert not any(step.progress.phase == Progress.PHASE_STARTING for step in rest)  # its host was free


async def test_a_process_that_does_not_stop_is_killed_and_replaced(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        before = process_of(await there.all("rows"))
        stubborn = there.steps("stubborn")
        await anext(stubborn)
        await stubborn.aclose()
        await asyncio.to_thread(until, lambda: processes.find(before) is None)
        after = process_of(await there.all("rows"))

    assert before != after


@pytest.mark.parametrize("bomb", ["die", "stubborn"])
async def test_the_next_process_is_there_before_anybody_asks_for_it(tmp_path: Path, bomb: str) -> None:
    async with world(tmp_path) as there:
        with suppress(ApiError):
            async with aclosing(there.steps(bomb)) as steps:
                while (await anext(steps)).progress.phase == Progress.PHASE_STARTING:
                    pass
                if bomb == "die":
                    await anext(steps)
        await asyncio.to_thread(until, lambda: len(there.masters) == 2 and there.previews.running == 1)
        next_one = await there.all("rows")

    assert not any(step.progress.phase == Progress.PHASE_STARTING for step in next_one)
    assert len(there.masters) == 2


async def test_a_process_that_ends_before_anybody_asks_it_is_not_replaced(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        os.kill(process_of(await there.all("rows")), signal.SIGKILL)
        await asyncio.to_thread(until, lambda: len(there.masters) == 2 and there.previews.running == 1)
        (second,) = working_in(tmp_path)
        os.kill(second, signal.SIGKILL)
        await asyncio.to_thread(until, lambda: len(there.ends) == 2)
        asked = await there.all("rows")

    assert asked[0].progress.phase == Progress.PHASE_STARTING
    assert there.ends == ["died", "died", "closed"]


async def test_a_process_that_dies_is_told_and_replaced(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        with pytest.raises(ApiError) as died:
            await there.all("die")
        again = await there.all("rows")

    assert died.value.reason == "PREVIEW_HOST_DIED"
    assert again[-1].HasField("done")
    assert there.ends == ["died", "closed"]


async def test_a_process_is_replaced_after_enough_previews(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "MOST", 2)
    async with world(tmp_path) as there:
        pids = [process_of(await there.all("rows")) for _ in range(3)]

    assert pids[0] == pids[1] != pids[2]


async def test_a_cluster_elsewhere_is_previewed_beside_the_scheduler(tmp_path: Path) -> None:
    async with world(tmp_path, master="spark://spark:7077") as there:
        await there.all("rows")

    assert there.masters == ["local[2]"]


async def test_without_room_or_switched_off_nothing_is_started(tmp_path: Path) -> None:
    async with world(tmp_path, Room(memory_mib=1000)) as there:
        with pytest.raises(ApiError) as full:
            await there.all("rows")
    async with world(tmp_path, on=False) as there:
        with pytest.raises(ApiError) as off:
            await there.all("rows")

    assert (full.value.reason, off.value.reason) == ("NO_ROOM", "PREVIEWS_OFF")


async def test_a_process_counts_replays_and_gives_way_to_them(tmp_path: Path) -> None:
    room, replays = Room(memory_mib=usual_mib(Room()) + REPLAY_MIB), [1]
    async with world(tmp_path, room, replays=lambda: Occupancy(replays=replays[0])) as there:
        pid = process_of(await there.all("rows"))
        replays[0] = 2
        await asyncio.to_thread(until, lambda: not there.previews.running)
        with pytest.raises(ApiError) as full:
            await there.all("rows")

    assert full.value.reason == "NO_ROOM"
    until(lambda: processes.find(pid) is None)


async def test_a_process_that_nobody_uses_ends(tmp_path: Path) -> None:
    async with world(tmp_path, idle_s=0.01) as there:
        pid = process_of(await there.all("rows"))
        await asyncio.to_thread(until, lambda: not there.previews.running)

    until(lambda: processes.find(pid) is None)


async def test_a_preview_that_goes_on_gives_way_to_who_needs_its_room(tmp_path: Path) -> None:
    room, replays = Room(memory_mib=usual_mib(Room()) + REPLAY_MIB), [1]
    async with world(tmp_path, room, replays=lambda: Occupancy(replays=replays[0])) as there:
        running = there.steps("hang")
        await anext(running)
        await anext(running)
        replays[0] = 2
        with pytest.raises(ApiError) as gone:
            async with asyncio.timeout(DEADLINE_S):
                await anext(running)

    assert (gone.value.reason, gone.value.code) == ("PREVIEW_GAVE_WAY", grpc.StatusCode.UNAVAILABLE)
    assert gone.value.retry_after is not None
    assert there.ends == ["room"]


async def test_a_preview_that_fills_the_disk_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "DISK_BYTES", 1024**2)
    async with world(tmp_path) as there:
        with pytest.raises(ApiError) as filled:
            await there.all("fill")
        left = list((tmp_path / "previews").glob("*/local-1"))
        again = await there.all("rows")

    assert (filled.value.reason, left) == ("PREVIEW_FILLED_DISK", [])
    assert again[-1].HasField("done")
    assert there.ends == ["disk", "closed"]


@contextmanager
def sleeping(folder: Path | None = None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process, in a folder, and its PID:START_TICKS; gone behind the block."""
    with subprocess.Popen(["sleep", "600"], cwd=folder) as process:
        try:
            yield process, f"{process.pid}:{processes.start_ticks(process.pid)}"
        finally:
            process.kill()


async def test_schedulers_of_a_host_count_each_others_processes_and_leave_them_alone(tmp_path: Path) -> None:
    with sleeping() as (_, other):
        theirs = PreviewFolders(tmp_path / "previews", other).make("local-1")
        async with world(tmp_path, Room(memory_mib=2 * usual_mib(Room()))) as there:
            one = await there.all("rows")
            both = there.previews.running, there.previews.processes
            with pytest.raises(ApiError) as full:
                await there.all("rows", "other")
            kept = theirs.is_dir()

    assert one[-1].HasField("done")
    assert (both, full.value.reason, kept) == ((2, 1), "NO_ROOM", True)


async def test_what_a_scheduler_that_is_gone_has_left_is_ended_and_removed(tmp_path: Path) -> None:
    with sleeping() as (_, gone):
        left = PreviewFolders(tmp_path / "previews", gone).make("local-1")
    with sleeping(left) as (process, _):
        os.kill(process.pid, signal.SIGSTOP)  # it does not end by itself
        async with world(tmp_path) as there:
            running = there.previews.running
        ended = process.wait(DEADLINE_S)

    assert (running, left.exists(), ended) == (0, False, -signal.SIGKILL)
