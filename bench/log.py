"""The control log: CreateDagger calls a second with 64 in flight, and the fold of 1,000,000 events.

    .venv/bin/python bench/log.py [--runs N] [--creates N] [--events N]

Creates go over gRPC to the gateway of the embedded stack, its log in the stack's Kafka: a call is answered
when its request was read back and folded. The scheduler is killed before, so that nothing is launched. The
first 500 are not counted. The caller is this one process, on the same cores; so are Kafka and all else of the
stack. The fold: the lives of 1,000 daggers, launched again and again, read from Kafka and applied in this
process, as every service does when it starts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime

import dagger
import grpc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import events_pb2 as pb
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, spec_pb2
from google.protobuf.message import Message
from machine import Meter, header
from stack import Stack, stack

from eventlog import Draft
from eventlog.kafka import KafkaLog
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
    given = arguments.parse_args()
    print(header("grpcio", "aiokafka", "protobuf"), flush=True)
    with stack() as on:
        dagger.prepare(on)
        pids = {one["name"]: one["pid"] for one in on.daggers("local", "status")["processes"]}
        os.kill(pids["scheduler"], signal.SIGKILL)
        _calls(on, pids["gateway"], given.creates, given.runs)
        _write(on, given.events)
        asyncio.run(_fold(on, given.events))


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
    took = []
    async with grpc.aio.insecure_channel(on.gateway) as channel:
        stub = gateway_pb2_grpc.DaggerServiceStub(channel)

        async def caller() -> None:
            for name in names:
                request = gateway_pb2.CreateDaggerRequest(name=name, spec=_spec())
                begin = time.perf_counter()
                await stub.CreateDagger(request, timeout=60)
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


def _write(on: Stack, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": on.kafka})
    for done in admin.create_topics([NewTopic(FOLD_TOPIC, 1, 1)]).values():
        done.result(30)
    producer = Producer({"bootstrap.servers": on.kafka, "linger.ms": 20, "enable.idempotence": True})
    now = datetime.now(UTC)
    for number, (subject, message) in enumerate(_lives(count)):
        draft = Draft(f"{number:032x}", "/bench", subject, now, message)
        while True:
            try:
                producer.produce(FOLD_TOPIC, message.SerializeToString(), subject, headers=draft.headers())
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


async def _fold(on: Stack, count: int) -> None:
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
