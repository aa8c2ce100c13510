"""What others cost a caller of a gateway: connections that show no token, and watches of the whole log.

    .venv/bin/python bench/doors.py [--connections N] [--watches W] [--events E] [--seconds S] [--rounds R]

A gateway of its own that asks for tokens, with its log in memory, on loopback; it ends with the bench. One
caller with a token asks for the clusters, one call after the other with 10 ms between: alone, while N
connections without a token send questions for health with names of 3 MiB, schemas of 3 MiB, half of a
handshake, or nothing at all, and while W watches read E events from the first on, again and again. Alone and
beside are measured in turns, R times, so that what else the machine does meets both. Who attacks is another
process that stands back behind the others (nice 10), as if it were another machine.

Printed: for each, p50 and p99 of the caller, how much came of the attack, and how much more memory the
gateway takes at most. It ends with 1 when a bar is missed: 300 MiB and 2 times p99 for the connections, 3
times p99 for the watches. p99 of R rounds is the median of theirs. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
import psutil
import repository  # noqa: F401 - finds tests/
import structlog
from daggers.v1 import events_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2
from grpc_health.v1 import health_pb2
from machine import header
from tests.gateways import served

from chassis.endpoint import Endpoint
from eventlog import Draft
from eventlog.memory import MemoryLog

MIB = 1024 * 1024
MEMORY_BAR_MIB, CONNECTIONS_BAR, WATCHES_BAR = 300, 2.0, 3.0
LARGE = 3 * MIB
BETWEEN_S, SETTLE_S, WITHIN_S = 0.01, 1.0, 20.0
TOKEN = "a-token-of-good-length"
BEARER = (("authorization", f"Bearer {TOKEN}"),)
KINDS = ("health", "schema", "handshake", "nothing")


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway in a process of its own."""

    address: str
    process: psutil.Process
    first: int
    """Bytes that it took before anything was asked of it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one round: quantiles of the caller in milliseconds, and memory of the gateway in MiB."""

    p50: float
    p99: float
    memory: float
    calls: int
    failed: int


def main() -> None:
    """Print a line for each number."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--connections", type=int, default=100)
    arguments.add_argument("--watches", type=int, default=100)
    arguments.add_argument("--events", type=int, default=2_000, help="that the log holds at least")
    arguments.add_argument("--seconds", type=float, default=10, help="of a round")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--attack", nargs=4, help=argparse.SUPPRESS)
    arguments.add_argument("--serve", metavar="DATABASE", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.serve:
        _serve(given.serve, given.events)
        return
    if given.attack:
        what, address, number, seconds = given.attack
        os.nice(10)
        asyncio.run(_attack(what, address, int(number), float(seconds)))
        return
    print(header("grpcio"), flush=True)
    with _gateway(given.events) as on:
        attacks = {"connections": given.connections, "watches": given.watches}
        missed = [_compared(on, what, number, given) for what, number in attacks.items()]
    sys.exit(any(missed))


def _compared(on: Gateway, what: str, number: int, given: argparse.Namespace) -> bool:
    """Whether a bar is missed."""
    alone, beside, came = [], [], 0
    for _ in range(given.rounds):
        alone.append(_seen(on, given.seconds))
        with _attacked(on, what, number, given.seconds + SETTLE_S) as attacks:
            time.sleep(SETTLE_S)
            beside.append(_seen(on, given.seconds))
        came += attacks.number
    _print("alone", alone)
    _print(f"beside {number} {what}, {came} in all", beside)
    times = statistics.median(s.p99 for s in beside) / statistics.median(s.p99 for s in alone)
    memory = max(s.memory for s in beside)
    bar = CONNECTIONS_BAR if what == "connections" else WATCHES_BAR
    failed = sum(s.failed for s in beside)
    is_missed = times > bar or failed > 0 or (what == "connections" and memory > MEMORY_BAR_MIB)
    print(
        f"{what}: p99 {times:.2f} times that of alone (bar {bar:g}), {memory:.0f} MiB more"
        f" (bar {MEMORY_BAR_MIB} for connections), {failed} calls of the caller failed:"
        f" {'missed' if is_missed else 'ok'}",
        flush=True,
    )
    return is_missed


def _print(name: str, rounds: list[Seen]) -> None:
    p50, p99 = (statistics.median(getattr(s, which) for s in rounds) for which in ("p50", "p99"))
    told = ", ".join(f"{s.p99:.1f}" for s in rounds)
    calls = sum(s.calls for s in rounds)
    print(f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms (rounds: {told}; {calls} calls)", flush=True)


def _seen(on: Gateway, seconds: float) -> Seen:
    """One round of the caller."""
    request = gateway_pb2.ListClustersRequest()
    times, failed = [], 0
    with _memory(on) as more, grpc.insecure_channel(on.address) as channel:
        catalog = gateway_pb2_grpc.CatalogServiceStub(channel)
        catalog.ListClusters(request, timeout=WITHIN_S, metadata=BEARER)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            try:
                catalog.ListClusters(request, timeout=WITHIN_S, metadata=BEARER)
            except grpc.RpcError:
                failed += 1
            times.append((time.monotonic() - begin) * 1000)
            time.sleep(BETWEEN_S)
    times.sort()
    return Seen(times[len(times) // 2], times[int(len(times) * 0.99)], more(), len(times), failed)


@contextmanager
def _memory(on: Gateway) -> Iterator[Callable[[], float]]:
    """How much more than at first a gateway takes at most: MiB."""
    most = before = on.first
    ended = threading.Event()

    def look() -> None:
        nonlocal most
        while not ended.wait(0.02):
            most = max(most, on.process.memory_info().rss)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield lambda: (most - before) / MIB
    finally:
        ended.set()
        looking.join()


@contextmanager
def _attacked(on: Gateway, what: str, number: int, seconds: float) -> Iterator[Attacks]:
    """While the block runs, and for so many seconds at most."""
    told = (what, on.address, str(number), str(seconds))
    command = [sys.executable, __file__, "--attack", *told]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attack:
        assert attack.stdout is not None
        attack.stdout.readline()  # it begins
        count = Attacks()
        try:
            yield count
        finally:
            with suppress(subprocess.TimeoutExpired):
                count.number = int(attack.communicate(timeout=WITHIN_S)[0] or 0)
            attack.kill()


class Attacks:
    """How many calls and connections an attack came to, once it is over."""

    number = 0


class Counter:
    """Number of calls and connections of this attack that ended, or of events that its watches read."""

    number = 0

    @classmethod
    def add(cls) -> None:
        """Count one more."""
        cls.number += 1


async def _attack(what: str, address: str, number: int, seconds: float) -> None:
    print("begins", flush=True)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            one = _watches if what == "watches" else _hostile
            await asyncio.gather(*(one(address, index) for index in range(number)))
    print(Counter.number, flush=True)


async def _hostile(address: str, index: int) -> None:
    """One connection, again and again: of the kinds each is as frequent."""
    kind = KINDS[index % len(KINDS)]
    if kind in ("handshake", "nothing"):
        host, _, port = address.rpartition(":")
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"PRI * HTTP/2.0\r\n" if kind == "handshake" else b"")
                await reader.read()
                writer.close()
            Counter.add()
            await asyncio.sleep(BETWEEN_S)
    name = "x" * LARGE
    method, message = "/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest(service=name)
    if kind == "schema":
        method = "/daggers.v1.CatalogService/RegisterSchema"
        schema = spec_pb2.Schema(messages=[name])
        message = gateway_pb2.RegisterSchemaRequest(schema=schema)
    async with grpc.aio.insecure_channel(
        address, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    ) as channel:
        call = channel.unary_unary(method)
        sent = message.SerializeToString()
        while True:
            with suppress(grpc.aio.AioRpcError):
                await call(sent, timeout=WITHIN_S)
            Counter.add()
            await asyncio.sleep(BETWEEN_S)


async def _watches(address: str, _: int) -> None:
    """One watch of the whole log, again and again, with a connection of its own."""
    request = gateway_pb2.WatchEventsRequest(since_sequence=-1, until_end=True)
    async with grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
        while True:
            with suppress(grpc.aio.AioRpcError):
                async for _step in daggers.WatchEvents(request, metadata=BEARER):
                    Counter.add()
            await asyncio.sleep(BETWEEN_S)


@contextmanager
def _gateway(events: int) -> Iterator[Gateway]:
    with tempfile.TemporaryDirectory(prefix="daggers-bench-") as folder:
        database = f"sqlite:///{folder}/gateway.db"
        command = [sys.executable, __file__, "--serve", database, "--events", str(events)]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                address = process.stdout.readline().strip()
                seen = psutil.Process(process.pid)
                yield Gateway(address, seen, seen.memory_info().rss)
            finally:
                process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(WITHIN_S)
                process.kill()


def _serve(database: str, events: int) -> None:
    """Serve until stdin ends. Says on stdout where."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

    def filled() -> MemoryLog:
        log = MemoryLog()
        for number in range(events):
            message = events_pb2.SchedulerStarted(scheduler_id=f"s{number}", host="bench")
            draft = Draft(f"id-{number}", "/bench", f"s{number}", datetime.now(UTC), message)
            log.place(draft.headers(), message.SerializeToString())
        return log

    known = {hashlib.sha256(TOKEN.encode()).digest(): "bench"}
    with served(Endpoint("127.0.0.1:0", tokens=lambda: known), database, filled, enforce=True) as port:
        print(f"127.0.0.1:{port}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
