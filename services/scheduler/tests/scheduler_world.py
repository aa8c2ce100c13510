"""A world for the scheduler: logs in memory, real processes, deadlines instead of sleeps."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2
from google.protobuf.message import Message
from tests.contracts.beats import MemoryBeats

from daggerspec import rundir
from election import identity
from eventlog import Draft, LogUnavailable, Record
from eventlog.memory import MemoryLog
from fleet import Dagger, Fleet
from fleet.decide.observation import Policy
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.secret_places import SecretRule
from scheduler.leader.scheduler import Options, Scheduler

STAND_IN = Path(__file__).with_name("stand_in.py")
SHARED_GROUP = "shared"
SHARED_STAND_IN = Path(__file__).with_name("shared_stand_in.py")
REPLAY_STAND_IN = Path(__file__).with_name("replay_stand_in.py")
DEADLINE_S = 30
HOST = "here"
PATIENT = Policy(first_delay=timedelta(milliseconds=20), hold=timedelta(0))
META = events_pb2.RequestMeta(actor="test")


class World:
    """Logs, a state directory, and whoever schedules in it."""

    def __init__(self, state_dir: Path) -> None:
        self.control = MemoryLog()
        self.beats = MemoryBeats()
        self.state_dir = state_dir
        self.records: list[Record] = []
        self.fleet = Fleet()
        self.ahead = timedelta(0)
        """By how much the clock of its schedulers is."""
        self.ends: list[Mapping[int, int] | LogUnavailable] = [{0: 0}]
        """What is said of how far the quarantine goes; the last answer stays."""
        self.sink_logs: set[str] = set()
        """Daggers that have a log of a sink."""
        self.log_refusals: list[LogUnavailable] = []
        """Errors of the next deletions of logs."""

    async def delete_logs(
        self, is_deleted: Callable[[str], bool], confirm: Callable[[], Awaitable[None]]
    ) -> None:
        if self.log_refusals:
            raise self.log_refusals.pop()
        await confirm()
        self.sink_logs = {name for name in self.sink_logs if not is_deleted(name)}

    def now(self) -> datetime:
        """Return this instant by the clock of its schedulers."""
        return datetime.now(UTC) + self.ahead

    async def set_aside_ends(self) -> Mapping[int, int]:
        answer = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(answer, LogUnavailable):
            raise answer
        return answer

    def drivers(self, host: str = HOST) -> Drivers:
        return Drivers(self.state_of(host) / "runs", host=host, python=sys.executable)

    def state_of(self, host: str) -> Path:
        """Return the state directory of a host's schedulers."""
        return self.state_dir if host == HOST else self.state_dir / "hosts" / host

    def scheduler(
        self,
        *,
        policy: Policy = PATIENT,
        max_drivers: int | None = 9,
        memory_mib: int | None = None,
        patience: float = 0.5,
        secrets: SecretRule = SecretRule(),  # noqa: B008 - a constant
        spare: bool = False,
        cutover: bool = False,
        host: str = HOST,
        shared: bool = False,
        local: bool = False,
        scheduler_id: str = "",
        host_beats: bool = False,
    ) -> Scheduler:
        """`shared`: its checkpoint root is that of all hosts; `local`: others may have another one."""
        state_dir = self.state_of(host)
        state_dir.mkdir(parents=True, exist_ok=True)
        return Scheduler(
            self.control,
            self.beats,
            self.drivers(host),
            command=command,
            platform=spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:9092"),
            state_dir=state_dir,
            checkpoint_root=str(self.state_dir / "shared") if shared else "",
            set_aside_ends=self.set_aside_ends,
            delete_logs=self.delete_logs,
            policy=policy,
            options=Options(
                scheduler_id=scheduler_id or identity(),
                local_checkpoints=local,
                max_drivers=max_drivers,
                memory_mib=memory_mib,
                leader_timeout=timedelta(seconds=patience),
                tick=timedelta(milliseconds=50),
                sweep=timedelta(milliseconds=100),
                secrets=secrets,
                spare=spare,
                cutover=cutover,
                host_beats=host_beats,
            ),
            clock=self.now,
        )

    @asynccontextmanager
    async def serving(
        self,
        at: events_pb2.HostServing | None = None,
        registered: events_pb2.HostRegistered | None = None,
        **how: Any,
    ) -> AsyncIterator[asyncio.Task[None]]:
        """A scheduler that runs inside the block, and serves its host there."""
        task = asyncio.create_task(self.scheduler(**how).run(at, registered))
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def append(self, message: Message, subject: str = "d", id_: str | None = None) -> None:
        await self.control.append(Draft(id_ or uuid4().hex, "/test", subject, datetime.now(UTC), message))

    async def ask(
        self,
        sql: str = "run",
        *,
        name: str = "d",
        memory_mib: int = 0,
        sinks: Sequence[spec_pb2.Sink] = (),
        priority: spec_pb2.Priority.ValueType = spec_pb2.PRIORITY_UNSPECIFIED,
        isolation: spec_pb2.Isolation.ValueType = spec_pb2.ISOLATION_UNSPECIFIED,
        team: str = "",
    ) -> None:
        """Register the cluster and ask for a dagger."""
        cluster = spec_pb2.Cluster(name="local", spark_master="local[1]")
        await self.append(events_pb2.ClusterRegistered(meta=META, cluster=cluster), "local")
        spec = spec_pb2.DaggerSpec(
            cluster="local",
            team=team,
            sql=sql,
            driver_memory_mib=memory_mib,
            sinks=sinks,
            priority=priority,
            isolation=isolation,
            consumer_group=SHARED_GROUP if isolation == spec_pb2.ISOLATION_SHARED else "",
        )
        query = events_pb2.QueryState(identity=sql)
        await self.append(events_pb2.DaggerRequested(meta=META, name=name, spec=spec, query=query), name)

    async def heartbeat(self, dagger: Dagger, **fields: Any) -> None:
        """A heartbeat of the newest launch, RUNNING unless told otherwise."""
        fields.setdefault("state", telemetry_pb2.Heartbeat.STATE_RUNNING)
        beat = telemetry_pb2.Heartbeat(dagger=dagger.name, generation=dagger.generation, **fields)
        beat.time.GetCurrentTime()
        await self.beats.append(Draft(uuid4().hex, "/runtime", dagger.name, datetime.now(UTC), beat))

    async def until(self, wanted: Callable[[Dagger], bool], *, name: str = "d") -> Dagger:
        """The dagger, once `wanted` holds of it; what happened so far when it never does."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                async for record in self.control.follow(self.fleet.sequence):
                    self.records.append(record)
                    self.fleet.apply(record)
                    dagger = self.fleet.daggers.get(name)
                    if dagger is not None and wanted(dagger):
                        return dagger
        except TimeoutError:
            raise AssertionError(f"never: {self.story()}\n{self.fleet.daggers.get(name)}") from None
        raise AssertionError("a followed log does not end")

    async def launched(self, *, name: str = "d", after: int = 0) -> Dagger:
        """The dagger once a driver newer than generation `after` is ready for signals."""
        dagger = await self.until(
            lambda dagger: dagger.generation > after and dagger.driver is not None, name=name
        )
        await there(run_dir(dagger) / "driver.json")
        return dagger

    async def running(self, *, name: str = "d", after: int = 0) -> Dagger:
        """The dagger once a driver newer than generation `after` runs."""
        dagger = await self.launched(name=name, after=after)
        await self.heartbeat(dagger)
        return await self.until(lambda dagger: bool(dagger.phase == RUNNING), name=name)

    def story(self, *, name: str = "d") -> list[str]:
        """The types of the records about a dagger, as far as they were read."""
        return [record.type.removeprefix("daggers.v1.") for record in self.records if record.subject == name]

    def facts(self, kind: type[Message], *, name: str = "d") -> list[Any]:
        """The messages of one type about a dagger, as far as they were read."""
        return [r.message for r in self.records if r.subject == name and isinstance(r.message, kind)]

    def end(self) -> None:
        """Kill every driver that is left, until none is."""
        hosts = [HOST, *(path.name for path in (self.state_dir / "hosts").glob("*"))]
        end = time.monotonic() + DEADLINE_S
        for drivers in map(self.drivers, hosts):
            while left := drivers.living():
                assert time.monotonic() < end, f"still there: {left}"
                for driver in left:
                    drivers.kill(driver)
                time.sleep(0.01)  # nothing tells the end of a process that is not our child


RUNNING = 3


def command(job: spec_pb2.JobSpec, master: str) -> tuple[list[str], dict[str, str]]:
    """The stand-in in place of spark-submit."""
    if Path(job.run_dir).parent.name == rundir.REPLAYS:
        return [sys.executable, str(REPLAY_STAND_IN)], {"LC_ALL": "C.UTF-8"}
    # A launch is not given its isolation: the description of these daggers says which stand-in they have.
    is_shared = job.spec.consumer_group == SHARED_GROUP
    words = [sys.executable, str(SHARED_STAND_IN if is_shared else STAND_IN)]
    if job.dagger == rundir.SPARE:
        return [*words, "--spare"], {"LC_ALL": "C.UTF-8"}
    words += ["--spec", f"{job.run_dir}/spec.pb"]
    return [*words, "--generation", str(job.generation)], {"LC_ALL": "C.UTF-8"}


def run_dir(dagger: Dagger) -> Path:
    assert dagger.driver is not None
    return Path(dagger.driver.run_dir)


async def there(path: Path) -> None:
    """Wait for a file that another process writes."""
    await until(path.exists, f"no {path}")


async def gone(path: Path) -> None:
    """Wait until a file or directory is removed."""
    await until(lambda: not path.exists(), f"{path} is still there")


async def until(holds: Callable[[], bool], otherwise: str) -> None:
    """Poll what no event tells of, up to the deadline."""
    end = asyncio.get_running_loop().time() + DEADLINE_S
    while not holds():
        assert asyncio.get_running_loop().time() < end, otherwise
        await asyncio.sleep(0.01)


def driver_pid(dagger: Dagger) -> int:
    """Process id of the stand-in itself."""
    return int(json.loads((run_dir(dagger) / "driver.json").read_text())["pid"])
