"""The stack of a run, in a state directory of its own: what its faults hit, and how it is brought back."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psutil
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import Stack
from tests.chaos.clock import Clock
from tests.chaos.daggers import ANSWERED, ASKED, CLUSTER, SUBJECTS
from tests.chaos.disks import Disks, mounted
from tests.chaos.feeder import ASKED_PARTITIONS, Feeder
from tests.chaos.gaps import Gap, gaps_in
from tests.chaos.hosts import Hosts, hosts
from tests.integration.bookings import PROTO
from tests.integration.cli import Cli
from tests.integration.faults import down, halves_of, kill, lasting, process, up
from tests.proxy import Proxy

from daggerspec.rundir import SPARE, DriverIdentity
from devstack import drivers, state
from devstack.processes import MARK, ignoring_signals
from devstack.up import process_names

POLL_S = 3.0
ATTEMPTS = 3
GROWN_S = 300.0
# Compacted as soon and as often as a broker does that.
COMPACTION = {
    "cleanup.policy": "compact",
    "segment.ms": "10000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "15000",
}


class StackError(Exception):
    """The stack does not come up, though there is no fault any more."""


@dataclass(frozen=True)
class World:
    """A stack that is up, with its daggers."""

    stack: Stack
    cli: Cli
    proxies: Mapping[str, Proxy]
    disks: Disks
    clock: Clock
    streams: Mapping[str, str]
    """Registered name of each of our streams, and of its first topic."""
    feeder: Feeder
    hosts: Hosts | None = None
    """The hosts that have a scheduler each, in place of the stack's own; None where that one does all."""
    growing: threading.Event = field(default_factory=threading.Event)
    """Set when the stream of bookings is to get another topic."""
    gaps: dict[str, set[Gap]] = field(default_factory=dict)
    """By dagger: what it has said of records that were deleted before it had read them."""

    def drivers(self) -> dict[str, list[DriverIdentity]]:
        """The launches that run, by dagger, and the spares."""
        launches: dict[str, list[DriverIdentity]] = {name: [] for name in (*SUBJECTS, SPARE)}
        hosts = self.hosts
        found = (
            drivers.find(self.stack.state_dir)
            if hosts is None
            else [driver for host in hosts for driver in host.drivers()]
        )
        for driver in found:
            launches.setdefault(driver.dagger, []).append(driver)
        return launches

    def halves(self, driver: DriverIdentity) -> dict[str, psutil.Process]:
        """Find the JVM and the Python half of a driver, if they run."""
        return halves_of(driver) if self.hosts is None else self.hosts.halves(driver)

    def doubled(self) -> list[str]:
        """Daggers of which two launches run on one host; no fault allows that, at any moment.

        On another one a launch may live on whose scheduler stands still: its lease ends it.
        """
        launches: dict[tuple[str, Path], list[str]] = {}
        for name, generations in self.drivers().items():
            for driver in generations:
                launches.setdefault((name, Path(driver.run_dir).parents[1]), []).append(
                    str(driver.generation)
                )
        return [
            f"{name} has drivers {' and '.join(generations)}"
            for (name, _), generations in launches.items()
            if generations[1:] and name != SPARE  # that of a scheduler that was killed ends by itself
        ]

    def missing(self) -> list[str]:
        """Processes of the stack that do not run."""
        now = state.load(self.stack.state_dir)
        assert now is not None
        names = [name for name in process_names(now) if self.hosts is None or name != "scheduler"]
        return [name for name in names if not now.running(name)]

    def bring_back(self, *, at_once: bool = False) -> list[str]:
        """Start what is missing, as a user does, and the hosts that are due; tells what was.

        at_once: also hosts that were to stay away. Raises StackError when it does not.
        """
        missing = self.missing()
        if self.hosts is None:
            if missing:
                _up(self.stack, environment(self.clock))
            return missing
        for name in missing:
            _up(self.stack, environment(self.clock), name)
        return missing + self.hosts.bring_back(at_once=at_once)

    def begin(self) -> None:
        """Register everything, start the daggers, and feed them from before their first batch on."""
        self._create(self.streams[ASKED], ASKED_PARTITIONS)
        self._create(self.streams[ANSWERED], 1, COMPACTION)
        influx = self.stack.influx
        self.cli(
            "cluster", "register", CLUSTER, "--spark-master", "local[2]",
            "--kafka", f"127.0.0.1:{self.proxies['kafka'].port}",
            "--influx-url", f"http://127.0.0.1:{self.proxies['influxdb'].port}",
            "--influx-org", influx["org"], "--influx-bucket", influx["bucket"],
            "--influx-token-file", self.stack.state_dir / state.TOKEN_FILE,
        )  # fmt: skip
        self.cli("schema", "register", PROTO)
        for name in self.streams.values():
            self._register(name, [name])
        file = self.stack.state_dir / "chaos.yaml"
        specs = [subject.spec(name, self.streams) for name, subject in SUBJECTS.items()]
        file.write_text(yaml.safe_dump_all(specs, sort_keys=False))
        self.cli("apply", "-f", file)
        self.feeder.start()

    def grow(self) -> str:
        """The stream of bookings gets another topic, and its daggers read it before it is fed.

        Event time stands still meanwhile. Raises StackError when a dagger is not launched again.
        """
        name = self.streams[ASKED]
        topics = [*dict.fromkeys(topic for topic, _ in self.feeder.targets), f"{name}-{uuid4().hex[:4]}"]
        with self.feeder.paused():
            before = {each["name"]: each["generation"] for each in self.cli("list")}
            self._create(topics[-1], ASKED_PARTITIONS)
            self._register(name, topics)
            for dagger in SUBJECTS:
                self.cli("restart", dagger)
            end = time.monotonic() + GROWN_S
            while old := [
                each["name"] for each in self.cli("list") if each["generation"] <= before[each["name"]]
            ]:
                if time.monotonic() > end:
                    raise StackError(f"no launch since the stream has another topic: {old}")
                lasting(POLL_S)
            self.feeder.reach(topics[-1])
        self.growing.clear()
        return topics[-1]

    def _create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        admin = AdminClient({"bootstrap.servers": self.stack.kafka})
        admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result(30)

    def _register(self, name: str, topics: Sequence[str]) -> None:
        words = [word for topic in topics for word in ("--topic", topic)]
        self.cli("stream", "register", name, "--cluster", CLUSTER, *words,
                 "--message", "it.v1.Booking", "--time-field", "event_timestamp")  # fmt: skip

    def unsettled(self, deadline_s: float) -> list[str]:
        """Daggers that do not run as asked, with one driver each; what they are at the deadline."""
        end = time.monotonic() + deadline_s
        while (wrong := self._unsettled()) and time.monotonic() < end:
            lasting(POLL_S)
        return wrong

    def _unsettled(self) -> list[str]:
        launches = {
            name: [generation.generation for generation in generations]
            for name, generations in self.drivers().items()
        }
        shown = self.cli.try_("list")
        if shown.code:
            return [shown.err]
        self._hear(shown.json)
        return [
            f"{each['name']} is {each['phase']}, its drivers are {launches[each['name']]}"
            for each in shown.json
            if each["phase"] != "RUNNING"
            or each["observed_version"] != each["version"]
            or launches[each["name"]] != [each["generation"]]
        ]

    def hear(self) -> None:
        """Take in what daggers say now, if the gateway answers."""
        shown = self.cli.try_("list")
        if not shown.code:
            self._hear(shown.json)

    def _hear(self, daggers: Sequence[Mapping[str, Any]]) -> None:
        for each in daggers:
            self.gaps.setdefault(each["name"], set()).update(gaps_in(json.dumps(each)))

    def listening(self) -> set[int]:
        """Every port that a process of the stack listens on."""
        return {port for each in self.stack.status()["processes"] for port in each["ports"]}


@contextmanager
def world(folder: Path, clock: Clock, seed: int, count: int = 1) -> Iterator[World]:
    """A stack in an empty directory, which is taken down in the end, whatever happens.

    count: hosts with a scheduler each; 1: the stack's own.
    """
    streams = {table: f"{table}-{uuid4().hex[:8]}" for table in (ASKED, ANSWERED)}
    bare = Stack(folder, kafka="", gateway="", influx={})
    with mounted(folder) as disks:
        try:
            _up(bare, environment(clock))
            status = bare.status()
            stack = Stack(
                folder,
                kafka=status["kafka"]["bootstrap_servers"],
                gateway=status["gateway"]["address"],
                influx=status["influx"],
            )
            addresses = {"kafka": f"//{stack.kafka}", "influxdb": stack.influx["url"]}
            ports = {name: urlsplit(address).port or 0 for name, address in addresses.items()}
            with ExitStack() as running:
                proxies = {
                    name: running.enter_context(Proxy(port, kafka=name == "kafka"))
                    for name, port in ports.items()
                }
                feeder = Feeder(stack.kafka, streams[ASKED], streams[ANSWERED], seed)
                machines = None
                if count > 1:
                    env = process(stack, "scheduler").environ() | of_hosts(folder)
                    del env[MARK]  # the stack takes what has it for a process of its own
                    kill(stack, "scheduler")
                    reached = [*ports.values(), *(proxy.port for proxy in proxies.values())]
                    machines = running.enter_context(hosts(count, folder / "runs", env, reached))
                yield World(stack, Cli(folder), proxies, disks, clock, streams, feeder, machines)
        finally:
            with ignoring_signals():
                down(bare)


def environment(clock: Clock) -> dict[str, str]:
    """What the stack is started with beside the user's environment."""
    # More relaunches than a run has: that a dagger FAILs in the end is not what is tried here.
    return {
        "DAGGERS_SCHEDULER_ATTEMPTS": "1000",
        "DAGGERS_SCHEDULER_MAX_DRIVERS": str(len(SUBJECTS) + 1),
        "DAGGERS_SCHEDULER_SPARE": "true",
        **clock.environment(),
    }


def of_hosts(folder: Path) -> dict[str, str]:
    """Return what the scheduler of each of several hosts is started with beside the stack's."""
    # One host takes most of the daggers, not all.
    return {
        "DAGGERS_SCHEDULER_CHECKPOINT_ROOT": str(folder / "checkpoints"),
        "DAGGERS_SCHEDULER_MAX_DRIVERS": str(len(SUBJECTS) - 1),
    }


def _up(stack: Stack, env: Mapping[str, str], only: str = "") -> None:
    """Start what is missing, or one part, as a user does, who tries again. Raises StackError."""
    for last in [False] * (ATTEMPTS - 1) + [True]:
        try:
            up(stack, env, only)
        except subprocess.CalledProcessError as error:
            if last:
                raise StackError(f"`daggers local up` fails: {error.stderr.decode()}") from error
        else:
            return
