"""The control log: CreateDagger calls a second with 64 in flight, the fold of 1,000,000 events, and starts.

    .venv/bin/python bench/log.py [--runs N] [--creates N] [--events N] [--quarantined N]

Creates go over gRPC to the gateway of the embedded stack, its log in the stack's Kafka: a call is answered
when its request was read back and folded. The scheduler is killed before, so that nothing is launched. The
first 500 are not counted. The caller is this one process, on the same cores; so are Kafka and all else of the
stack. The fold: the lives of 1,000 daggers, launched again and again, read from Kafka and applied in this
process, as every service does when it starts. A start is a gateway's, from the start of its process to where
it serves: on the snapshot of a gateway that read all but the last hundredth of the events, and on an empty
database; both must have the same bytes in their tables. The list of quarantine is of one dagger, by gRPC, a
page of 100 from an index of 1,000,000 records.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import resource
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagger
import grpc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import events_pb2 as pb
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, spec_pb2, telemetry_pb2
from google.protobuf.message import Message
from machine import Meter, header
from stack import Stack, stack

from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.quarantine.topic import KafkaQuarantine
from api_gateway.quarantine.topic import Message as TopicMessage
from api_gateway.server import serving
from api_gateway.state.projection import Projection
from api_gateway.state.tables import TABLES
from chassis import logging
from chassis.endpoint import Endpoint
from chassis.gc_tuning import look_seldom
from eventlog import Draft, topics
from eventlog.kafka import KafkaLog
from eventlog.memory import MemoryLog
from fleet import Fleet
from kafkaclient import Connection

IN_FLIGHT, WARM_UP, DAGGERS = 64, 500, 1_000
FOLD_TOPIC = "fold"


def main() -> None:
    """Print a line for each run of calls, one for their median, and one for the fold."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--runs", type=int, default=5, help="runs of calls, one after the other")
    arguments.add_argument("--creates", type=int, default=5_000, help="calls of a run that are counted")
    arguments.add_argument("--events", type=int, default=1_000_000, help="events that are folded")
    arguments.add_argument("--quarantined", type=int, default=1_000_000, help="records that are listed from")
    arguments.add_argument("--start", nargs=2, metavar=("KAFKA", "DATABASE"), help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.start:
        asyncio.run(_start(*given.start))
        return
    print(header("grpcio", "aiokafka", "protobuf"), flush=True)
    with stack() as on:
        dagger.prepare(on)
        pids = {one["name"]: one["pid"] for one in on.daggers("local", "status")["processes"]}
        os.kill(pids["scheduler"], signal.SIGKILL)
        _calls(on, pids["gateway"], given.creates, given.runs)
        _starts(on, given.events)
        asyncio.run(_fold(on, given.events))
    with TemporaryDirectory() as folder:
        asyncio.run(_quarantine(Path(folder) / "quarantine.db", given.quarantined))


def _calls(on: Stack, gateway_session: int, creates: int, runs: int) -> None:
    names, gateway = (f"bench-{number}" for number in itertools.count()), Meter(gateway_session)
    asyncio.run(_create(on, itertools.islice(names, WARM_UP)))
    rates = []
    for _ in range(runs):
        before, own = gateway.read(), time.process_time()
        took = sorted(asyncio.run(_create(on, itertools.islice(names, creates))))
        spent, own = gateway.read() - before, time.process_time() - own
        rates.append(creates / spent.wall)
        print(
            f"CreateDagger, {IN_FLIGHT} in flight: {rates[-1]:.0f} calls/s,"
            f" p50 {took[creates // 2] * 1000:.0f} ms, p99 {took[creates * 99 // 100] * 1000:.0f} ms;"
            f" CPU-µs for each: {spent.cpu / creates * 1e6:.0f} of the gateway,"
            f" {own / creates * 1e6:.0f} of the caller",
            flush=True,
        )
    print(f"CreateDagger, median of {runs} runs: {statistics.median(rates):.0f} calls/s", flush=True)


async def _create(on: Stack, names: Iterator[str]) -> list[float]:
    """How long each call took, in seconds."""
    took, bearer = [], on.bearer
    async with grpc.aio.insecure_channel(on.gateway) as channel:
        stub = gateway_pb2_grpc.DaggerServiceStub(channel)

        async def caller() -> None:
            for name in names:
                request = gateway_pb2.CreateDaggerRequest(name=name, spec=_spec())
                begin = time.perf_counter()
                await stub.CreateDagger(request, timeout=60, metadata=bearer)
                took.append(time.perf_counter() - begin)

        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return took


def _spec() -> spec_pb2.DaggerSpec:
    stream = spec_pb2.StreamInput(stream=dagger.TOPIC, table="data_stream")
    sink = spec_pb2.Sink(log=spec_pb2.LogSink())
    return spec_pb2.DaggerSpec(team="bench", cluster="local", sql=dagger.SQL, streams=[stream], sinks=[sink])


def _lives(count: int) -> Iterator[tuple[str, Message]]:
    """Subject and event of `count` records: each dagger is asked for, then launched, runs and exits."""
    yield "scheduler", pb.SchedulerStarted(scheduler_id="bench", host="bench")
    at, generation = 1, dict.fromkeys((f"dagger-{number}" for number in range(DAGGERS)), 0)
    for name in generation:
        yield name, pb.DaggerRequested(name=name, spec=_spec())
        at += 1
    while True:
        for name in generation:
            generation[name] = at

            def meta(name: str = name) -> pb.FactMeta:
                return pb.FactMeta(name=name, generation=generation[name])

            driver = pb.DriverHandle(
                host="bench", boot_id="bench", pid=4711, start_ticks=at, run_dir="/runs/1"
            )
            life = (
                pb.LaunchIntended(meta=pb.FactMeta(name=name), version=1, submission_id=f"{name}-{at}"),
                pb.Launched(meta=meta(), driver=driver),
                pb.Running(meta=meta()),
                pb.Exited(meta=meta(), code=1),
            )
            for message in life:
                if at == count:
                    return
                yield name, message
                at += 1


def _write(on: Stack, lives: Iterator[tuple[str, Message]], first: int) -> None:
    """Append the events; `first` is the sequence of the first of them."""
    producer = Producer({"bootstrap.servers": on.kafka, "linger.ms": 20, "enable.idempotence": True})
    now = datetime.now(UTC)
    for number, (subject, message) in enumerate(lives, start=first):
        draft = Draft(f"{number:032x}", "/bench", subject, now, message)
        while True:
            try:
                producer.produce(FOLD_TOPIC, message.SerializeToString(), subject, headers=draft.headers())
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def _starts(on: Stack, count: int) -> None:
    """Starts of gateways: on a snapshot and on nothing."""
    admin = AdminClient({"bootstrap.servers": on.kafka})
    for done in admin.create_topics([NewTopic(FOLD_TOPIC, 1, 1)]).values():
        done.result(30)
    lives, before = _lives(count), count - count // 100
    _write(on, islice(lives, before), 0)
    with TemporaryDirectory() as folder:
        kept, empty = Path(folder) / "kept.db", Path(folder) / "empty.db"
        _timed(on, kept)
        _write(on, lives, before)
        from_snapshot, again, full = _timed(on, kept), _timed(on, kept), _timed(on, empty)
        print(
            f"start of a gateway with {count} events: {full} from the first record, {from_snapshot} from a"
            f" snapshot {count - before} records back, {again} from one at the end; tables byte-equal:"
            f" {'yes' if _rows(kept) == _rows(empty) else 'no'}; the database has"
            f" {_megabytes(empty):.1f} MB",
            flush=True,
        )


def _timed(on: Stack, database: Path) -> str:
    """How long it is from the start of a gateway's process until it serves, and the process's CPU."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, "--start", on.kafka, f"sqlite:///{database}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        took = time.perf_counter() - begin
    if line != "serving\n" or process.returncode:
        raise SystemExit(f"a gateway did not start: {line}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{took:.1f} s ({cpu:.1f} CPU-s)"


async def _start(kafka: str, database: str) -> None:
    """A gateway on the topic of the fold, until it serves."""
    look_seldom()
    logging.configure("bench", level="ERROR")
    connection = Connection(kafka)
    async with (
        KafkaLog(connection, FOLD_TOPIC) as log,
        KafkaLog(connection, topics.ALERTS) as alerts,
        serving(
            log,
            Projection(database),
            KafkaQuarantine(connection),
            Endpoint("127.0.0.1:0"),
            alerts=alerts,
            source="/bench",
        ),
    ):
        print("serving", flush=True)


def _megabytes(file: Path) -> float:
    return file.stat().st_size / 1e6


def _rows(database: Path) -> list[Any]:
    """Every row of the projection and its snapshot."""
    tables = [str(table.__tablename__) for table in TABLES]
    with closing(sqlite3.connect(database)) as opened:
        return [sorted(opened.execute(f"SELECT * FROM {table}")) for table in tables]


async def _quarantine(file: Path, count: int) -> None:
    """How long a page takes of a dagger that set aside so many records."""
    logging.configure("bench", level="ERROR")
    projection, log = Projection(f"sqlite:///{file}"), MemoryLog()
    index = QuarantineIndex(projection.database)
    index.prepare()
    begin = time.perf_counter()
    for at in range(0, count, 1_000):
        index.write([_set_aside(number) for number in range(at, min(at + 1_000, count))])
    took = time.perf_counter() - begin
    asked = pb.DaggerRequested(name="dagger-0", spec=_spec())
    await log.append(Draft("asked", "/bench", "dagger-0", datetime.now(UTC), asked))
    paged: list[float] = []
    async with (
        serving(
            log,
            projection,
            MemoryQuarantine(0),
            Endpoint("127.0.0.1:0"),
            alerts=MemoryLog(),
            source="/bench",
        ) as gateway,
        grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel,
    ):
        stub, token = gateway_pb2_grpc.QuarantineServiceStub(channel), ""
        for _ in range(50):
            begin = time.perf_counter()
            request = gateway_pb2.ListQuarantinedRequest(dagger="dagger-0", page_token=token)
            answer = await stub.ListQuarantined(request, timeout=60)
            paged.append(time.perf_counter() - begin)
            token = answer.next_page_token
        begin = time.perf_counter()
        await stub.SummarizeQuarantine(gateway_pb2.SummarizeQuarantineRequest(dagger="dagger-0"), timeout=60)
        summed = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"quarantine of {count} records: a page of {len(answer.records)} in {paged[0] * 1000:.0f} ms the"
        f" first, {statistics.median(paged) * 1000:.0f} ms the median of {len(paged)} pages; summed"
        f" up in {summed * 1000:.0f} ms; indexed in"
        f" {took:.0f} s, {_megabytes(file):.0f} MB, at most {peak / 1024:.0f} MiB of memory"
    )


def _set_aside(number: int) -> TopicMessage:
    record = telemetry_pb2.Quarantined(
        dagger="dagger-0",
        generation=1,
        topic="bookings",
        offset=number,
        stage="decode",
        reason="MALFORMED",
        detail="it ends in the middle of field 3",
        value=b"x" * 200,
    )
    draft = Draft(f"{number:032x}", "/bench", "dagger-0", datetime.now(UTC), record)
    value = record.SerializeToString()
    return TopicMessage(number % 4, number // 4, number, b"dagger-0", draft.headers(), value)


async def _fold(on: Stack, count: int) -> None:
    look_seldom()
    fleet, changed = Fleet(), 0
    async with KafkaLog(Connection(on.kafka), FOLD_TOPIC) as log, aclosing(log.replay()) as records:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        async for record in records:
            changed += fleet.apply(record).changed
        wall, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    print(
        f"fold of {fleet.sequence + 1} events ({changed} changed the state, {len(fleet.daggers)} daggers):"
        f" {wall:.1f} s, {cpu:.1f} CPU-s"
    )
    if fleet.sequence + 1 != count:
        raise SystemExit(f"{fleet.sequence + 1} events instead of {count}")


if __name__ == "__main__":
    main()
