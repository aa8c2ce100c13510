"""Density: what many light daggers of shared drivers take, and how late their windows are.

    .venv/bin/python bench/density.py [--daggers N] [--topics K] [--teams T] [--minutes M] [--faults F]

N daggers of `isolation: shared`, T teams over K topics, are created through the gateway's API while 10
records/s come to each topic, on four partitions. Each counts and adds up by windows of 60 s, in one of four
ways, and writes to a topic of its own. After they all run, M minutes count. With F a driver is killed (-9)
in their middle, the one with most members, and F - 1 others, each a minute later. At the end the records are
read again, and every window of every dagger that began and ended while it ran is counted anew.

Cores and memory are of all processes but Kafka, InfluxDB, and this bench with its feeder: the services are
among them, and the spare unless `--no-spare`. Memory is the proportional set size, the largest of those
measured each half minute. Windows of drivers that were killed, from the window before until all its members
run again, are told apart: they have a bar of their own. Ends with 1 where a window is missing, or wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ages
import grpc
import psutil
import workload
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, spec_pb2
from google.protobuf.duration_pb2 import Duration
from machine import Meter, Spent, header, proportional_set_size
from stack import Stack, stack
from threads import Threads, shown

from chassis import drivers
from daggerspec import rundir

RATE, WINDOW_S, PARTITIONS = 10, 60, 4
DELAY_S, IDLE_S = 5, 10
TARGET_CORES, TARGET_GIB = 1.5, 10.0
START_CPU_S: Final = 1.7
"""CPU seconds of a start in a driver that runs; of the bar for a killed one."""
_NOT_COUNTED = ("kafka", "influxdb")
_CALLERS = 8
_LIMIT_S: Final = 1_800.0
_SQL = """\
SELECT {key} AS tag_key, count(1) AS records, SUM(city_id) AS cities,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` {where} GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), {key}"""

Window = tuple[int, str]
"""Its end in seconds, and its key."""
Sums = tuple[int, int]
"""Count of records, and sum of their cities."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the queries: what it groups by, and which records it takes."""

    key: str
    where: str
    takes: Callable[[Any], bool]

    @property
    def sql(self) -> str:
        """Text of the query."""
        return _SQL.format(key=self.key, where=self.where)


KINDS: Final = (
    Kind("city_id", "WHERE status = 'COMPLETED'", lambda record: record.status == 2),
    Kind("vehicle_type", "", lambda _: True),
    Kind("status", "WHERE city_id < 25", lambda record: record.city_id < 25),
    Kind("vehicle_type", "WHERE fare > 50000", lambda record: record.fare > 50_000),
)


@dataclass(frozen=True, slots=True)
class Reader:
    """A dagger of the bench."""

    name: str
    team: str
    topic: str
    kind: Kind
    isolation: spec_pb2.Isolation.ValueType = spec_pb2.ISOLATION_SHARED

    @property
    def rows(self) -> str:
        """Topic of its rows."""
        return f"rows-{self.name}"

    def request(self) -> gateway_pb2.CreateDaggerRequest:
        """Build the request that creates it."""
        spec = spec_pb2.DaggerSpec(
            team=self.team,
            cluster="local",
            sql=self.kind.sql,
            isolation=self.isolation,
            trigger=Duration(seconds=1),
        )
        read = spec.streams.add(stream=self.topic, table="data_stream")
        read.start.latest = True
        read.watermark_delay.seconds, read.idle_timeout.seconds = DELAY_S, IDLE_S
        sink = spec_pb2.KafkaSink(topic=self.rows, format=spec_pb2.KafkaSink.FORMAT_JSON)
        spec.sinks.add(kafka=sink)
        return gateway_pb2.CreateDaggerRequest(name=self.name, spec=spec)


@dataclass(slots=True)
class Fault:
    """A driver that was killed, and who was in it."""

    at: float
    """Seconds since the epoch."""
    members: frozenset[str]
    healed: float = 0.0
    """Time at which all of them ran again; 0: they never did."""

    def covers(self, name: str, end: int) -> bool:
        """Tell whether the window of a dagger that ends then is the fault's."""
        return name in self.members and self.at - 2 * WINDOW_S <= end <= (self.healed or end) + WINDOW_S


@dataclass(slots=True)
class WindowResults:
    """Windows that were recounted, those that are wrong, and how late they were."""

    windows: int = 0
    mismatches: list[str] = field(default_factory=list)
    late: dict[str, float] = field(default_factory=dict)
    """By dagger, how long after its end the latest window was in the sink whole, in seconds."""
    late_by_fault: dict[str, float] = field(default_factory=dict)


def main() -> int:
    """Print what the daggers take, and how late their windows are; return 1 where one is wrong."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--daggers", type=int, default=200)
    arguments.add_argument("--topics", type=int, default=40)
    arguments.add_argument("--teams", type=int, default=1)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--faults", type=int, default=0, help="drivers that are killed in the middle")
    arguments.add_argument("--no-spare", action="store_true", help="without the warm spare")
    given = arguments.parse_args()
    print(header("pyspark", "confluent-kafka", "pyarrow"), flush=True)
    topics = [f"bookings-{number:03d}" for number in range(given.topics)]
    readers = [
        Reader(
            f"light-{number:03d}",
            f"team-{number % given.teams:02d}",
            topics[number % given.topics],
            KINDS[number // given.topics % len(KINDS)],
        )
        for number in range(given.daggers)
    ]
    with stack(spare=not given.no_spare) as on:
        prepare(on, topics, readers)
        with workload.feeding(on.kafka, RATE, ",".join(topics), PARTITIONS):
            return _run(on, readers, given.minutes, given.faults)


def _run(on: Stack, readers: Sequence[Reader], minutes: float, faults: int) -> int:
    with Costs(on) as costs:
        began, before = time.time(), costs.read()
        create(on, readers)
        created = time.time() - began
        wait_until_running(on, [reader.name for reader in readers], time.time() + _LIMIT_S)
        since = time.time()
        start = costs.read() - before
        print(
            f"created in {created:.1f} s, all {len(readers)} run {since - began:.0f} s after the first call;"
            f" {start.cpu / len(readers):.1f} CPU-s for each",
            flush=True,
        )
        _print_drivers(on)
        time.sleep(_until_next_window(since) + WINDOW_S)  # the first windows have what the starts have left
        before, threads, batches = costs.read(), costs.threads(), _count_batches(on)
        end, killed = time.time() + minutes * 60, list[Fault]()
        for number in range(faults):
            time.sleep(max(0.0, end - minutes * 30 + number * WINDOW_S - time.time()))
            killed.append(_kill_driver(on))
        time.sleep(max(0.0, end - time.time()))
        cost, used = costs.read() - before, costs.threads() - threads
        batches = _count_batches(on) - batches
        until = time.time()
        size = costs.most_bytes / 2**30
    time.sleep(2 * WINDOW_S)  # the last windows end, and are written
    _print_drivers(on)
    found = _check(on, readers, since, until, killed)
    cores = cost.cpu / cost.wall
    _print_threads(used, cost.wall, batches)
    for fault in killed:
        _print_fault(fault, found)
    for mismatch in found.mismatches[:10]:
        print(f"  {mismatch}")
    shares = sorted(found.late.values()) or [0.0]
    print(
        f"latest window of each dagger: {ages.shares(shares).partition(': ')[2]}; {batches} batches,"
        f" {cost.cpu / max(batches, 1) * 1e3:.0f} CPU-ms each, services with them",
        flush=True,
    )
    print(
        f"density: {len(readers)} daggers, {size:.1f} GiB, {cores:.2f} cores,"
        f" created in {since - began:.0f} s, latest window {shares[-1]:.0f} s after its end,"
        f" {found.windows} windows, {len(found.mismatches)} mismatches",
        flush=True,
    )
    return 1 if found.mismatches or not found.windows else 0


class Costs:
    """CPU and memory of services and drivers, those included that come meanwhile. A context manager."""

    def __init__(self, on: Stack) -> None:
        self._on = on
        parts = on.daggers("local", "status")["processes"]
        self._sessions = {part["pid"] for part in parts if part["name"] not in _NOT_COUNTED}
        self._meter, self._threads = Meter(*self._sessions), Threads(*self._sessions)
        self.most_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Costs:
        self._find()
        self._meter.__enter__()
        self._threads.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._threads.__exit__()
        self._meter.__exit__()

    def read(self) -> Spent:
        """Return what was spent so far."""
        self._find()
        return self._meter.read()

    def threads(self) -> Counter[str]:
        """Return the CPU-seconds so far, by what a thread does."""
        return self._threads.read()

    def _watch(self) -> None:
        for turn in range(sys.maxsize):
            self._find()
            if turn % 15 == 14:
                self.most_bytes = max(self.most_bytes, proportional_set_size(*self._sessions))
            if self._ended.wait(2.0):
                return

    def _find(self) -> None:
        """Take to what is counted the drivers that have begun."""
        found = {driver.pid for driver in drivers.living(self._on.state_dir / "runs")}
        self._sessions |= found
        self._meter.follow(*found)
        self._threads.follow(*found)


def prepare(on: Stack, topics: Sequence[str], readers: Sequence[Reader]) -> None:
    """Create topics and streams."""
    admin = AdminClient({"bootstrap.servers": on.kafka})
    config = {"message.timestamp.type": "LogAppendTime"}
    wanted = [NewTopic(topic, PARTITIONS, 1) for topic in topics]
    wanted += [NewTopic(reader.rows, 1, 1, config=config) for reader in readers]
    for done in admin.create_topics(wanted).values():
        done.result(60)
    on.daggers("schema", "register", workload.PROTO)
    for topic in topics:
        on.daggers(
            "stream", "register", topic, "--cluster", "local", "--topic", topic,
            "--message", workload.MESSAGE, "--time-field", workload.TIME_FIELD,
        )  # fmt: skip


@contextmanager
def _gateway(on: Stack) -> Iterator[gateway_pb2_grpc.DaggerServiceStub]:
    """Open a channel to the gateway."""
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(on.gateway, options=options) as channel:
        yield gateway_pb2_grpc.DaggerServiceStub(channel)


def create(on: Stack, readers: Sequence[Reader]) -> None:
    """Create all daggers, a few at once."""
    with _gateway(on) as stub, ThreadPoolExecutor(_CALLERS) as callers:

        def call(reader: Reader) -> None:
            stub.CreateDagger(reader.request(), timeout=60, metadata=on.bearer)

        list(callers.map(call, readers))


def list_daggers(on: Stack) -> dict[str, gateway_pb2.Dagger]:
    """Return all daggers, by name."""
    listed, token = dict[str, gateway_pb2.Dagger](), ""
    with _gateway(on) as stub:
        while True:
            request = gateway_pb2.ListDaggersRequest(page_size=1_000, page_token=token)
            answer = stub.ListDaggers(request, timeout=60, metadata=on.bearer)
            listed |= {dagger.name: dagger for dagger in answer.daggers}
            if not (token := answer.next_page_token):
                return listed


def wait_until_running(
    on: Stack, names: Collection[str], deadline: float, later_than: Mapping[str, int] | None = None
) -> None:
    """Wait until all of these run, in launches later than those given by name; ends the bench behind the
    deadline, with what does not run and why.
    """
    later_than = later_than or {}
    while True:
        listed = list_daggers(on)
        waiting = [
            listed[name]
            for name in names
            if listed[name].phase != gateway_pb2.RUNNING or listed[name].generation <= later_than.get(name, 0)
        ]
        if not waiting:
            return
        if time.time() > deadline:
            for one in waiting[:20]:
                print(one.name, gateway_pb2.Phase.Name(one.phase), one.last_error, one.warnings)
            raise SystemExit(f"{len(waiting)} daggers do not run")
        time.sleep(0.5)


def _members(on: Stack) -> dict[int, list[str]]:
    """Return the daggers of each living driver, by its process id."""
    members = defaultdict(list)
    for driver in drivers.living(on.state_dir / "runs"):
        members[driver.pid].append(driver.dagger)
    return members


def _print_drivers(on: Stack) -> None:
    """Print a line for each driver: its members, memory and threads."""
    for pid, names in sorted(_members(on).items()):
        count = threads = 0
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                if os.getsid(process.pid) == pid:
                    count, threads = count + 1, threads + process.num_threads()
        size = proportional_set_size(pid) >> 20
        who = "the spare" if names == [rundir.SPARE] else f"{len(names)} daggers"
        print(f"driver {pid}: {who}, {size} MiB, {count} processes, {threads} threads", flush=True)


def _kill_driver(on: Stack) -> Fault:
    """Kill the driver that has most members, and have its healing watched."""
    pid, names = max(_members(on).items(), key=lambda found: (len(found[1]), found[1] != [rundir.SPARE]))
    generations = {name: found.generation for name, found in list_daggers(on).items()}
    fault = Fault(time.time(), frozenset(names))
    os.killpg(pid, signal.SIGKILL)

    def watch() -> None:
        wait_until_running(on, names, fault.at + _LIMIT_S, generations)
        fault.healed = time.time()

    threading.Thread(target=watch, daemon=True).start()
    return fault


def _count_batches(on: Stack) -> int:
    """Count the batches that were committed, by the newest of each checkpoint."""
    newest: Counter[Path] = Counter()
    for commit in on.state_dir.glob("checkpoints/*/checkpoints/*/commits/[0-9]*"):
        newest[commit.parent] = max(newest[commit.parent], int(commit.name) + 1)
    return newest.total()


def _until_next_window(since: float) -> float:
    return WINDOW_S - since % WINDOW_S


def _count_records(kafka: str, readers: Sequence[Reader], since: float) -> dict[str, dict[Window, Sums]]:
    """Count the records by window and key, as each dagger should have."""
    by_topic: defaultdict[str, list[Reader]] = defaultdict(list)
    for reader in readers:
        by_topic[reader.topic].append(reader)
    counted: dict[str, dict[Window, Sums]] = {reader.name: {} for reader in readers}
    record = workload.message_class()()
    statuses = record.DESCRIPTOR.fields_by_name["status"].enum_type.values_by_number
    for message in ages.messages(kafka, since - WINDOW_S, *by_topic):
        record.ParseFromString(message.value())
        end = (record.event_timestamp.seconds // WINDOW_S + 1) * WINDOW_S
        for reader in by_topic[str(message.topic())]:
            if reader.kind.takes(record):
                key = getattr(record, reader.kind.key)
                place = end, statuses[key].name if reader.kind.key == "status" else str(key)
                records, cities = counted[reader.name].get(place, (0, 0))
                counted[reader.name][place] = records + 1, cities + record.city_id
    return counted


def _check(
    on: Stack, readers: Sequence[Reader], since: float, until: float, faults: Sequence[Fault]
) -> WindowResults:
    """Count every window anew that lies in this time, and compare what the daggers have written."""
    first, last = since + _until_next_window(since) + WINDOW_S, until // WINDOW_S * WINDOW_S
    expected = _count_records(on.kafka, readers, since)
    names = {reader.rows: reader.name for reader in readers}
    found, written = WindowResults(), {reader.name: dict[Window, tuple[Sums, float]]() for reader in readers}
    for message in ages.messages(on.kafka, since, *names):
        row, name, at = json.loads(message.value()), names[str(message.topic())], ages.written_at(message)
        place = round(ages.instant(row["window_timestamp"])), str(row["tag_key"])
        sums = int(row["records"]), int(row["cities"])
        before = written[name].get(place)
        if before is None:
            written[name][place] = sums, at
        elif before[0] != sums:  # one that is written again, after a death, is the same
            found.mismatches.append(f"{name}: {place} is {before[0]}, and {sums}")
    for name, windows in expected.items():
        for end in range(int(first), int(last) + 1, WINDOW_S):
            found.windows += 1
            wanted = {place: sums for place, sums in windows.items() if place[0] == end}
            rows = {place: row for place, row in written[name].items() if place[0] == end}
            if wanted != {place: sums for place, (sums, _) in rows.items()}:
                found.mismatches.append(f"{name}: window {end} has {_difference(wanted, rows)}")
                continue
            late = max((at for _, at in rows.values()), default=float(end)) - end
            is_faults = any(fault.covers(name, end) for fault in faults)
            among = found.late_by_fault if is_faults else found.late
            among[name] = max(late, among.get(name, 0.0))
    return found


def _difference(wanted: Mapping[Window, Sums], rows: Mapping[Window, tuple[Sums, float]]) -> str:
    wrong = [
        place for place in wanted.keys() | rows.keys() if wanted.get(place) != rows.get(place, (None,))[0]
    ]
    shown_ = sorted(wrong)[0]
    got = rows.get(shown_, (None,))[0]
    return f"{len(wrong)} wrong keys, one {shown_[1]!r}: counted {wanted.get(shown_)}, in the sink {got}"


def _print_threads(used: Counter[str], wall: float, batches: int) -> None:
    print(f"thousandths of a core, and CPU-ms for each of {batches} batches:")
    shown(used, 1e3 / wall, 1e3 / max(batches, 1))


def _print_fault(fault: Fault, found: WindowResults) -> None:
    """Print how a killed driver came back, and how late its windows were, beside the bar."""
    cores = psutil.cpu_count() or 1
    bar = len(fault.members) * START_CPU_S / cores + WINDOW_S
    late = max((late for name, late in found.late_by_fault.items() if name in fault.members), default=0.0)
    healed = f"after {fault.healed - fault.at:.0f} s" if fault.healed else "never"
    print(
        f"killed driver: {len(fault.members)} daggers, all run again {healed}; latest window {late:.0f} s"
        f" after its end (bar {bar:.0f} s)",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
