"""A large fleet: what scheduler, health monitor and gateway take for 10,000 daggers over 40 hosts.

    .venv/bin/python bench/fleetsize.py [--daggers N] [--hosts N] [--seconds S] [--warm S] [--apart]

Kafka and the three services are real processes, as `make` sets them up. The hosts are simulated: their
registrations and all that came of their daggers stand in the control topic, their agents beat, and each
driver's heartbeat is sent every 5 s, in that of its host as with `--host-beats`, or apart as without.
Nothing is launched there: a launch runs as soon as it is intended.
First a gateway starts on an empty database. Then the services run for W seconds that are not counted, and S
that are: CPU of each, and how long a page of the list takes beside. Then one host is gone: how long it takes
to choose the hosts of its daggers (the scheduler's own code, in this process), and until the leader has
written where each of them goes. At last a gateway starts on what the first one has saved.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import grpc
import psutil
from confluent_kafka import Producer
from daggers.v1 import events_pb2, gateway_pb2, gateway_pb2_grpc, telemetry_pb2
from fleetmodel import Model, register
from grpc_health.v1 import health_pb2, health_pb2_grpc
from machine import Meter, header, proportional_set_size
from stack import kafka_alone

from chassis.gc_tuning import look_seldom
from eventlog import Draft
from eventlog.admin import ensure_topics
from eventlog.kafka import KafkaLog
from eventlog.topics import ALERTS, AUDITS, CONTROL, HEARTBEATS, TOPICS, log_topic
from fleet import Fleet
from fleet.decide.drain import choose_place
from fleet.decide.placement import describe_candidate, room_of
from fleet.fold.hosts import host_subject
from kafkaclient import Connection

LOST = "host-01"
_META = events_pb2.RequestMeta(actor="bench")
_BEAT_S, _SLICES = 5.0, 50
_PAGES = 40
_LIMIT_S = 300


@dataclass(slots=True)
class Bench:
    """Kafka, and the services beside it."""

    folder: Path
    kafka: str
    java_home: Path
    services: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    gateway: str = ""

    def start(self, name: str, module: str, **settings: str) -> None:
        """Start a service in a session of its own."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}  # noqa: TID251 - for what is started
        log = (self.folder / f"{name}.log").open("ab")
        command = [sys.executable, "-m", module]
        self.services[name] = subprocess.Popen(
            command, env=environment | settings, stdout=log, stderr=log, start_new_session=True
        )

    def end(self, name: str) -> None:
        """End a service, and wait for it."""
        process = self.services.pop(name)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start_gateway(self) -> str:
        """Start the gateway; return the seconds until it says that it serves, and its CPU-seconds until
        then.
        """
        ports = [_free_port(), _free_port()]
        self.gateway, begin = f"127.0.0.1:{ports[0]}", time.perf_counter()
        self.start(
            "gateway",
            "api_gateway",
            DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS=self.kafka,
            DAGGERS_GATEWAY_BIND=self.gateway,
            DAGGERS_GATEWAY_HEALTH_BIND=f"127.0.0.1:{ports[1]}",
            DAGGERS_GATEWAY_DATABASE_URL=f"sqlite:///{self.folder / 'gateway.db'}",
        )
        with grpc.insecure_channel(f"127.0.0.1:{ports[1]}") as channel:
            while time.perf_counter() - begin < _LIMIT_S:
                try:
                    answer = health_pb2_grpc.HealthStub(channel).Check(
                        health_pb2.HealthCheckRequest(), timeout=5
                    )  # type: ignore[attr-defined] # the stubs leave it out
                except grpc.RpcError:
                    time.sleep(0.05)
                else:
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        took = time.perf_counter() - begin
                        used = psutil.Process(self.services["gateway"].pid).cpu_times()
                        return f"{took:.1f} s ({used.user + used.system:.1f} CPU-s)"
        raise SystemExit(f"the gateway does not serve: {(self.folder / 'gateway.log').read_text()[-2000:]}")

    def start_others(self) -> None:
        """Start the scheduler, on a root of checkpoints that its simulated peers share, and the monitor."""
        self.start(
            "scheduler",
            "scheduler",
            DAGGERS_SCHEDULER_KAFKA_BOOTSTRAP_SERVERS=self.kafka,
            DAGGERS_SCHEDULER_STATE_DIR=str(self.folder / "scheduler"),
            DAGGERS_SCHEDULER_CHECKPOINT_ROOT=str(self.folder / "checkpoints"),
            DAGGERS_SCHEDULER_SPARE="false",
            JAVA_HOME=str(self.java_home),
        )
        self.start(
            "monitor",
            "health_monitor",
            DAGGERS_MONITOR_KAFKA_BOOTSTRAP_SERVERS=self.kafka,
            DAGGERS_MONITOR_STATE_DIR=str(self.folder / "monitor"),
        )


def main() -> None:
    """Print one line for each number."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--daggers", type=int, default=10_000)
    arguments.add_argument("--hosts", type=int, default=40)
    arguments.add_argument("--seconds", type=float, default=60, help="how long the services are looked at")
    arguments.add_argument("--warm", type=float, default=45, help="how long they run before")
    arguments.add_argument("--apart", action="store_true", help="a record of its own for each heartbeat")
    arguments.add_argument("--feed", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    model = Model(given.daggers, given.hosts)
    if given.feed:
        _feed(model, given.feed, apart=given.apart)
        return
    print(header("grpcio", "aiokafka", "protobuf", "faust-streaming"), flush=True)
    print(f"{model.daggers:,} daggers over {model.hosts} simulated hosts", flush=True)
    look_seldom()
    with kafka_alone() as (folder, kafka, java_home), ExitStack() as stack:
        bench = Bench(folder, kafka, java_home)
        stack.callback(lambda: [bench.end(name) for name in list(bench.services)])
        asyncio.run(ensure_topics(Connection(kafka), (*TOPICS, log_topic(ALERTS), AUDITS)))
        write(kafka, model)
        print(
            f"start of a gateway, empty database, {model.last + 1:,} records: {bench.start_gateway()}",
            flush=True,
        )
        feeder = stack.enter_context(_feeding(model, kafka, apart=given.apart))
        bench.start_others()
        fleet = Fleet()
        leader = asyncio.run(_await_leader(kafka, fleet))
        append(kafka, "host/leader", events_pb2.HostCordoned(meta=_META, host=leader), host_subject(leader))
        _measure(bench, given.warm, given.seconds)
        _lose_host(kafka, fleet, feeder)
        bench.end("gateway")
        print(f"start of a gateway, on its snapshot: {bench.start_gateway()}", flush=True)


def write(kafka: str, model: Model) -> None:
    """Append the records of the fleet to the control topic."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20, "enable.idempotence": True})
    for draft in model.drafts():
        while True:
            try:
                producer.produce(
                    CONTROL, draft.message.SerializeToString(), draft.subject, headers=draft.headers()
                )
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush()


def append(
    kafka: str, id_: str, message: events_pb2.HostCordoned | events_pb2.HostGone, subject: str
) -> None:
    """Append one record to the control topic."""
    draft = Draft(f"bench-{id_}", "/bench", subject, datetime.now(UTC), message)
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(CONTROL, message.SerializeToString(), subject, headers=draft.headers())
    producer.flush()


async def _await_leader(kafka: str, fleet: Fleet) -> str:
    """Fold the control topic until a real scheduler leads and has registered its host; return that."""
    async with KafkaLog(Connection(kafka), CONTROL) as log, aclosing(log.follow()) as records:
        async with asyncio.timeout(_LIMIT_S):
            async for record in records:
                fleet.apply(record)
                leader = fleet.leader
                if leader is not None and leader.scheduler_id != "bench" and leader.host in fleet.standings:
                    return leader.host
    raise AssertionError


def _measure(bench: Bench, warm: float, seconds: float) -> None:
    """Print what the services take, and how long a page of the list takes beside."""
    time.sleep(warm)
    sessions = {name: process.pid for name, process in bench.services.items()}
    meters = {name: Meter(pid) for name, pid in sessions.items()}
    with ExitStack() as stack:
        for meter in meters.values():
            stack.enter_context(meter)
        before = {name: meter.read() for name, meter in meters.items()}
        time.sleep(seconds)
        used = {name: meter.read() - before[name] for name, meter in meters.items()}
    cores = {name: one.cpu / one.wall for name, one in used.items()}
    for name, pid in sessions.items():
        size = proportional_set_size(pid) / 2**20
        print(f"{name}: {cores[name]:.2f} cores, {size:.0f} MiB", flush=True)
    split = " + ".join(f"{name} {part:.2f}" for name, part in cores.items())
    print(f"together: {sum(cores.values()):.2f} cores ({split})", flush=True)
    print(f"heartbeats of daggers: at most {_oldest_heartbeat(bench.gateway):.1f} s old", flush=True)
    for size in (100, 1_000):
        took = sorted(_list(bench.gateway, size))
        print(
            f"ListDaggers, a page of {size}: p50 {statistics.median(took) * 1000:.0f} ms,"
            f" p95 {took[len(took) * 95 // 100] * 1000:.0f} ms",
            flush=True,
        )


def _oldest_heartbeat(gateway: str) -> float:
    """Return how long ago the gateway heard that dagger of a page which it has not heard for longest, in
    seconds: what it cannot follow, it hears less often than every 5 s.
    """
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(gateway, options=options) as channel:
        stub = gateway_pb2_grpc.DaggerServiceStub(channel)
        answer = stub.ListDaggers(gateway_pb2.ListDaggersRequest(page_size=1_000), timeout=60)
        now = time.time()
        return now - min(dagger.vitals.heard_time.ToMilliseconds() / 1000 for dagger in answer.daggers)


def _list(gateway: str, size: int) -> Iterator[float]:
    """Yield how long each page took, in seconds."""
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(gateway, options=options) as channel:
        stub, token = gateway_pb2_grpc.DaggerServiceStub(channel), ""
        for _ in range(_PAGES):
            begin = time.perf_counter()
            request = gateway_pb2.ListDaggersRequest(page_size=size, page_token=token)
            answer = stub.ListDaggers(request, timeout=60)
            yield time.perf_counter() - begin
            token = answer.next_page_token
            time.sleep(0.02)


def _lose_host(kafka: str, fleet: Fleet, feeder: subprocess.Popen[str]) -> None:
    """Print how long it takes to choose hosts for the daggers of one that is gone, here and by the leader."""
    lost = [dagger.name for dagger in fleet.occupied_on(LOST)]
    candidates = [
        describe_candidate(host, standing, room_of(standing, 1536), 3.0)
        for host, standing in sorted(fleet.standings.items())
        if host.startswith("host-") and host != LOST
    ]
    begin = time.perf_counter()
    chosen = [choose_place(fleet, fleet.daggers[name], candidates) for name in lost]
    took = time.perf_counter() - begin
    assert all(isinstance(host, str) for host in chosen)
    print(f"placement round, {len(lost)} daggers of a lost host: {took * 1000:.0f} ms", flush=True)
    assert feeder.stdin is not None
    feeder.stdin.write(f"{LOST}\n")
    feeder.stdin.flush()
    gone = events_pb2.HostGone(meta=_META, host=LOST, epoch=fleet.standing(LOST).epoch)
    begin = time.perf_counter()
    append(kafka, "gone", gone, host_subject(LOST))
    first, whole = asyncio.run(_await_launches(kafka, fleet, set(lost), begin))
    print(
        f"host gone: its first dagger has another host after {first:.1f} s, all {len(lost)} after"
        f" {whole:.1f} s"
        " (three records each, one after another)",
        flush=True,
    )


async def _await_launches(kafka: str, fleet: Fleet, names: set[str], begin: float) -> tuple[float, float]:
    """Return seconds until the first and the last of these daggers have an intent that names another host."""
    first, producer = 0.0, Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    async with (
        asyncio.timeout(_LIMIT_S),
        KafkaLog(Connection(kafka), CONTROL) as log,
        aclosing(log.follow(fleet.sequence)) as records,
    ):
        async for record in records:
            fleet.apply(record)
            event = record.message
            if isinstance(event, events_pb2.Failed):
                raise SystemExit(f"{event.meta.name} has failed: {event.error.detail}")
            if isinstance(event, events_pb2.LaunchIntended) and event.host != LOST:
                names.discard(event.meta.name)
                _answer(producer, event, record.sequence)
                first = first or time.perf_counter() - begin
                if not names:
                    return first, time.perf_counter() - begin
    raise AssertionError


def _answer(producer: Producer, intent: events_pb2.LaunchIntended, generation: int) -> None:
    """Write what a simulated agent makes of an intent: a driver, which runs at once."""
    name = intent.meta.name
    meta = events_pb2.FactMeta(epoch=intent.meta.epoch, name=name, generation=generation)
    driver = events_pb2.DriverHandle(
        host=intent.host, boot_id="bench", pid=generation, run_dir=f"/runs/{name}"
    )
    for fact in events_pb2.Launched(meta=meta, driver=driver), events_pb2.Running(meta=meta):
        id_ = f"bench-{type(fact).__name__}-{generation}"
        draft = Draft(id_, "/bench", name, datetime.now(UTC), fact)
        producer.produce(CONTROL, fact.SerializeToString(), name, headers=draft.headers())
    producer.poll(0)


# ---- Hosts -------------------------------------------------------------------------------------------------


@contextmanager
def _feeding(model: Model, kafka: str, *, apart: bool) -> Iterator[subprocess.Popen[str]]:
    """Have a process of its own beat for all hosts and their drivers. A line with a host's name silences
    that.
    """
    command = [sys.executable, __file__, "--daggers", str(model.daggers), "--hosts", str(model.hosts)]
    words = ["--apart"] if apart else []
    process = subprocess.Popen([*command, *words, "--feed", kafka], stdin=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _feed(model: Model, kafka: str, *, apart: bool) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50})
    silent: set[str] = set()
    threading.Thread(target=lambda: silent.update(map(str.strip, sys.stdin)), daemon=True).start()
    began, beats = time.time() - 3600, 0
    epochs = dict(zip(model.host_names, model.host_epochs, strict=True))
    begin = time.monotonic()
    while True:
        for part in range(_SLICES):
            time.sleep(max(0.0, begin + (beats + part / _SLICES) * _BEAT_S - time.monotonic()))
            send = partial(_send, producer)
            numbers = range(part, model.daggers, _SLICES) if apart else ()
            for number in numbers:
                if model.host_of(number) not in silent:
                    send(f"dagger-{number:05}", model.heartbeat(number, began))
            for index in range(part, model.hosts, _SLICES):
                host = model.host_names[index]
                if host not in silent:
                    beat = telemetry_pb2.HostBeat(
                        host=host,
                        epoch=epochs[host],
                        scheduler_id=register(host).scheduler_id,
                        shared_checkpoints=True,
                        memory_mib=register(host).memory_mib,
                        busy_cores=3.0,
                    )
                    of_host = () if apart else range(index, model.daggers, model.hosts)
                    beat.heartbeats.extend(model.heartbeat(number, began) for number in of_host)
                    send(host_subject(host), beat)
            producer.poll(0)
        beats += 1


def _send(
    producer: Producer, subject: str, message: telemetry_pb2.Heartbeat | telemetry_pb2.HostBeat
) -> None:
    now = time.time()
    draft = Draft(f"{subject}/{now:.6f}", "/bench", subject, datetime.fromtimestamp(now, UTC), message)
    producer.produce(HEARTBEATS, message.SerializeToString(), subject, headers=draft.headers())


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
