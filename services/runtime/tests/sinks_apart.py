"""Helpers of test_sinks_apart.py: a driver without Spark in a process of its own, and ways to sinks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from multiprocessing.synchronize import Event
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn, cast
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import sink_parquet_s3
from services.runtime.tests.job_writing import Rows
from services.runtime.tests.sink_contract import Bench, Counts, Reader, batch, target
from tests import s3 as servers
from tests.proxy import Proxy

from daggerspec import rundir
from runtime.launch import delivery, lanes, outages
from runtime.launch.lanes import open_lanes
from runtime.launch.launch import Launch
from runtime.launch.printing import print_rows
from runtime.launch.progress import batch_written
from runtime.launch.writing import BatchWriter
from runtime.sinks import BatchRef, Target, kafka

AWAY: Final = "away"
"""Name of the sink that comes and goes."""
NEAR: Final = "near"
DEADLINE_S: Final = 120.0
WAITS: Final = timedelta(minutes=15)
SHARED: Final = ("2026-01-01T12:01:00Z", "shared")
"""Key of the row that each batch updates: an older row that comes late is seen."""


def rows_of(number: int, *, shares: bool) -> Counts:
    """Return the rows of a batch: one of its own, and one of the key that all share."""
    own = {(f"2026-01-01T12:{number + 2:02}:00Z", f"city {number}"): number}
    return own | ({SHARED: number} if shares else {})


@dataclass
class Sink:
    """A sink that can be cut off: as its dagger has it, what it has, and how it goes and comes back."""

    resolved: spec_pb2.ResolvedSink
    descriptors: bytes
    read: Reader
    cut: Callable[[], None]
    open: Callable[[], None]
    shares: bool = True
    """False if each row has to have a key of its own: nothing takes the place of another."""


@contextmanager
def cuttable(name: str, request: pytest.FixtureRequest, run_dir: Path) -> Iterator[Sink]:
    """Yield a sink of a kind, on a server of the tests, with a way to it that can be cut."""
    with ExitStack() as stack:
        if name == "parquet":
            yield _bucket(stack, run_dir)
            return
        bench = Bench(name, request)
        descriptors = getattr(bench.case, "DESCRIPTORS", b"")
        if name == "log":  # which is never away, but may be paused
            paused = run_dir / rundir.PAUSED
            yield Sink(
                _with_rule(bench.resolved),
                descriptors,
                lambda: _read_printed(bench, run_dir),
                cut=lambda: _pause(paused),
                open=lambda: paused.unlink(missing_ok=True),
            )
            return
        way = stack.enter_context(Proxy(_port(bench.resolved), kafka=name == "kafka"))
        resolved = _with_rule(bench.case.at(bench.resolved, way.port))
        yield Sink(resolved, descriptors, bench.read, way.cut, way.open)


def _with_rule(resolved: spec_pb2.ResolvedSink) -> spec_pb2.ResolvedSink:
    resolved.sink.name = AWAY
    resolved.sink.on_outage.then = spec_pb2.OnOutage.THEN_WAIT
    resolved.sink.on_outage.after.FromTimedelta(WAITS)
    return resolved


def _bucket(stack: ExitStack, folder: Path) -> Sink:
    """Make a table in a bucket of a server of S3."""
    server = stack.enter_context(servers.moto())
    table = sink_parquet_s3.Table(sink_parquet_s3.sink(server, folder / "s3-secret"))
    way = stack.enter_context(Proxy(urlsplit(server).port or 0))
    behind = spec_pb2.ResolvedSink()
    behind.CopyFrom(table.resolved)
    behind.sink.parquet.endpoint = way.url

    def read() -> Counts:
        days = [day for day in table.files.names("") if day.startswith("dt=")]
        hours = [f"{day}/{hour}" for day in days for hour in table.files.names(day)]
        names = [f"{hour}/{name}" for hour in hours for name in table.files.names(hour)]
        rows = [row for name in names for row in _rows_of_file(table.files.get(name) or b"")]
        counts = {
            (f"{row['window_timestamp'].astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", str(row["tag_city"])): row["n"]
            for row in rows
        }
        assert len(rows) == len(counts), "a row is there twice"
        return counts

    return Sink(_with_rule(behind), b"", read, way.cut, way.open, shares=False)


def _rows_of_file(content: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(content)).to_pylist()
    return rows


def _pause(paused: Path) -> None:
    paused.write_text(f"{AWAY}\n")


def _read_printed(bench: Bench, run_dir: Path) -> Counts:
    with suppress(FileNotFoundError):
        lines = (run_dir / "driver.log").read_text().splitlines()
        bench.printed[:] = [f"row {line.partition('row ')[2]}" for line in lines if "row {" in line]
    return bench.read()


def _port(resolved: spec_pb2.ResolvedSink) -> int:
    """Return the port of a sink's server on loopback."""
    sink = resolved.sink
    match sink.WhichOneof("kind"):
        case "kafka":
            address = resolved.kafka.bootstrap_servers
        case "postgres":
            return sink.postgres.address.port
        case "influx":
            address = sink.influx.address.url
        case "redis":
            address = sink.redis.address
        case "grpc":
            address = sink.grpc.target
        case kind:
            address = getattr(sink, kind).url
    return urlsplit(address if "//" in address else f"//{address}").port or 0


@dataclass
class Plan:
    """Steps of one driver: numbers of batches, and the words of `_STEPS`. Picklable."""

    kafka: str
    dagger: str
    folder: Path
    generation: int
    sinks: Sequence[tuple[bytes, bytes]]
    """Serialised `ResolvedSink` of each, and its messages."""
    shares: bool
    steps: Sequence[int | str]
    is_killed: bool = True
    wants_open: Event = field(default_factory=multiprocessing.get_context("spawn").Event)
    """Set when the sink has to come back."""
    is_open: Event = field(default_factory=multiprocessing.get_context("spawn").Event)


def run(plan: Plan, comes_back: Callable[[], None]) -> int | None:
    """Run a driver to its end; the sink comes back where the driver says so. Its exit code."""
    process = multiprocessing.get_context("spawn").Process(target=drive, args=(plan,))
    process.start()
    end = time.monotonic() + DEADLINE_S
    try:
        while process.is_alive() and time.monotonic() < end:
            if plan.wants_open.wait(0.05) and not plan.is_open.is_set():
                comes_back()
                plan.is_open.set()
        process.join(0.5)
        return process.exitcode
    finally:
        process.kill()
        process.join()


def drive(plan: Plan) -> None:
    """Write batches as a driver does, whose rows Spark would compute; then die, or end."""
    delivery.PATIENCE_S, outages.LONGEST_PAUSE_S = 0.1, 0.1  # type: ignore[misc]
    lanes._RETRY_S, kafka.DELIVERY_TIMEOUT_MS, kafka.PROBE_S = 0.1, 1_000, 0.5  # type: ignore[misc]
    sys.stdout = (plan.folder / "driver.log").open("a", buffering=1)
    driver = _Driver(plan)
    for step in plan.steps:
        if isinstance(step, int):
            driver.write(step)
        else:
            driver.do(step)
    if plan.is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    driver.launch.stopping.set()


class _Driver:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        platform = spec_pb2.KafkaAddress(bootstrap_servers=plan.kafka)
        spec = spec_pb2.JobSpec(
            dagger=plan.dagger, generation=plan.generation, platform=platform,
            checkpoint_root=str(plan.folder), run_dir=str(plan.folder),
        )  # fmt: skip
        resolved = [(spec_pb2.ResolvedSink.FromString(sink), messages) for sink, messages in plan.sinks]
        spec.sinks.extend(sink for sink, _ in resolved)
        self.targets: dict[str, Target] = {
            sink.sink.name: target(plan.dagger, sink, messages) for sink, messages in resolved
        }
        self.launch = Launch(spec, lambda: pytest.fail("no session is needed"))
        self.launch.__dict__["functions"] = SimpleNamespace(counts=dict)
        self.launch.lease.take()
        targets = [*self.targets.values()]
        self._writing = BatchWriter(
            self.launch, targets, self._leave, open_lanes(self.launch, targets, self._leave)
        )

    def write(self, number: int) -> None:
        """Write a batch; Spark would commit it now."""
        rows = Rows([batch(rows_of(number, shares=self._plan.shares))])
        report, away = self._writing.write(cast(Any, rows), BatchRef("c", number, self._plan.generation))
        print_rows(report, self.targets)
        errors = {name: trouble.error for name, trouble in away.items()}
        self.launch.heartbeat.update(
            lambda progress: batch_written(progress, report.written, report.refused, {}, away=errors)
        )

    def do(self, step: str) -> None:
        """Do what a word says."""
        waiting = self._waiting()
        if step == "wait for the sink":
            self._plan.wants_open.set()
            assert self._plan.is_open.wait(DEADLINE_S)
        elif step == "drain a part":
            self._until(lambda: self._waiting() < waiting)
        elif step == "drain":
            self._until(lambda: not self._waiting())

    def _waiting(self) -> int:
        spools = self.launch.heartbeat.progress.beat.spools
        return spools[AWAY].rows if AWAY in spools else 0

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.005)

    def _leave(self, why: str) -> NoReturn:
        raise AssertionError(why)
