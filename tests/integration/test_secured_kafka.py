"""The platform on a Kafka that takes nothing but SASL over TLS: services, a driver, the command, mistakes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2, telemetry_pb2
from tests.integration.bookings import message_class
from tests.integration.securedkafka import PASSWORD, environment, inherited, secured, services

from chassis import drivers
from eventlog.admin import ensure_topics
from eventlog.kafka import KafkaLog
from eventlog.log import LogUnavailable
from eventlog.record import Record
from eventlog.topics import ALERTS, CONTROL, HEARTBEATS, Topic
from kafkaclient import Connection
from scheduler.leader.heartbeats import Heartbeats

pytestmark = pytest.mark.integration
DEADLINE_S = 60
DRIVER_S = 180
CANARY = PASSWORD.encode()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with secured(tmp_path_factory.mktemp("secured")) as connection:
        yield connection


async def found(kafka: Connection, topic: str, kind: type[Any]) -> Any:
    """The first message of a kind in a topic, once it is there."""
    async with asyncio.timeout(DEADLINE_S), KafkaLog(kafka, topic) as log, aclosing(log.follow()) as records:
        async for record in records:
            if isinstance(record.message, kind):
                return record.message
    raise AssertionError("a followed log does not end")


async def test_gateway_scheduler_and_monitor_work(kafka: Connection, tmp_path: Path) -> None:
    with services(tmp_path, kafka) as port:
        leads = await found(kafka, CONTROL, events_pb2.SchedulerStarted)
        watches = await found(kafka, ALERTS, alerts_pb2.MonitorStarted)
        async with Heartbeats(kafka, HEARTBEATS) as beats, asyncio.timeout(DEADLINE_S):
            beating: set[type[Any]] = set()
            async with aclosing(beats.follow()) as records:
                async for record in records:
                    beating.add(type(record.message))
                    if beating >= {telemetry_pb2.SchedulerBeat, alerts_pb2.MonitorBeat}:
                        break
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            catalog = gateway_pb2_grpc.CatalogServiceStub(channel)
            cluster = spec_pb2.Cluster(name="local", kafka=kafka.address(), spark_master="local[1]")
            request = gateway_pb2.RegisterClusterRequest(cluster=cluster)
            registered = await catalog.RegisterCluster(request, timeout=DEADLINE_S, wait_for_ready=True)

    assert (leads.scheduler_id != "", watches.monitor_id != "", registered.sequence > 0) == (True,) * 3
    assert not holding(tmp_path)


@pytest.mark.long
async def test_a_driver_reads_and_says_so_and_nobody_can_see_the_password(
    kafka: Connection, tmp_path: Path
) -> None:
    await ensure_topics(kafka)
    files = message_class().DESCRIPTOR.file
    schema = spec_pb2.Schema()
    for each in (*files.dependencies, files):
        each.CopyToProto(schema.files.file.add())
    spec = spec_pb2.DaggerSpec(
        cluster="local",
        streams=[spec_pb2.StreamInput(stream="bookings")],
        sql="SELECT order_number FROM `data_stream`",
        sinks=[spec_pb2.Sink(log=spec_pb2.LogSink())],
    )
    async with Heartbeats(kafka, HEARTBEATS) as beats, aclosing(beats.follow()) as records:
        with services(tmp_path, kafka) as port:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                catalog = gateway_pb2_grpc.CatalogServiceStub(channel)
                daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
                cluster = spec_pb2.Cluster(name="local", kafka=kafka.address(), spark_master="local[1]")
                stream = spec_pb2.Stream(
                    name="bookings", cluster="local", topics=["bookings"],
                    message=message_class().DESCRIPTOR.full_name, time_field="event_timestamp",
                )  # fmt: skip
                how: dict[str, Any] = {"timeout": DEADLINE_S, "wait_for_ready": True}
                pb = gateway_pb2
                await ensure_topics(kafka, (Topic("bookings", 1, {}),))
                await catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=cluster), **how)
                await catalog.RegisterSchema(pb.RegisterSchemaRequest(schema=schema), **how)
                await catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), **how)
                await daggers.CreateDagger(pb.CreateDaggerRequest(name="secured", spec=spec), **how)
                await running(records, "secured")
                seen = [
                    line
                    for pid in everybody(tmp_path / "state" / "runs")
                    for line in told(pid)
                    if PASSWORD in line
                ]
                held = holding(tmp_path)
                await daggers.StopDagger(pb.StopDaggerRequest(name="secured"), **how)
                await stopped(records, "secured")

    assert (seen, held) == ([], [])


async def running(records: AsyncGenerator[Record], name: str) -> None:
    await state(records, name, telemetry_pb2.Heartbeat.STATE_RUNNING)


async def stopped(records: AsyncGenerator[Record], name: str) -> None:
    await state(records, name, telemetry_pb2.Heartbeat.STATE_EXITING)


async def state(records: AsyncGenerator[Record], name: str, wanted: int) -> None:
    """Wait for a heartbeat of a driver in this state."""
    async with asyncio.timeout(DRIVER_S):
        async for record in records:
            beat = record.message
            if isinstance(beat, telemetry_pb2.Heartbeat) and (beat.dagger, beat.state) == (name, wanted):
                return


def everybody(runs: Path) -> list[int]:
    """The processes of the drivers below a directory."""
    found = [member.pid for driver in drivers.living(runs) for member in drivers.members(driver)]
    assert found, "no driver runs"
    return found


def told(pid: int) -> list[str]:
    """Arguments and environment of a process."""
    try:
        process = psutil.Process(pid)
        return [*process.cmdline(), *(f"{k}={v}" for k, v in process.environ().items())]
    except psutil.Error:
        return []


def holding(folder: Path) -> list[Path]:
    """Files that hold the password."""
    return [file for file in folder.rglob("*") if file.is_file() and CANARY in file.read_bytes()]


Wrong = Callable[[Connection, Path], Connection]


def wrong_password(kafka: Connection, folder: Path) -> Connection:
    (folder / "wrong").write_text(PASSWORD[::-1])
    return replace(kafka, sasl_password_file=folder / "wrong")


def unknown_user(kafka: Connection, folder: Path) -> Connection:
    return replace(kafka, sasl_username="nobody")


def other_mechanism(kafka: Connection, folder: Path) -> Connection:
    return replace(kafka, sasl_mechanism="SCRAM-SHA-512")


def other_authority(kafka: Connection, folder: Path) -> Connection:
    return replace(kafka, ssl_ca_file=None)


MISTAKES = [
    (wrong_password, "refuses user 'daggers': check K_SASL_USERNAME and K_SASL_PASSWORD_FILE"),
    (unknown_user, "refuses user 'nobody': check K_SASL_USERNAME and K_SASL_PASSWORD_FILE"),
    (other_mechanism, "does not take SCRAM-SHA-512: check K_SASL_MECHANISM"),
    (other_authority, "check K_SSL_CA_FILE"),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES)
async def test_a_mistake_is_said_with_the_setting_to_look_at(
    kafka: Connection, tmp_path: Path, mistake: Wrong, said: str
) -> None:
    connection = replace(mistake(kafka, tmp_path), prefix="K_")

    with pytest.raises(LogUnavailable) as raised:
        await ensure_topics(connection)

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("module", "prefix"),
    [
        ("api_gateway", "DAGGERS_GATEWAY_"),
        ("scheduler", "DAGGERS_SCHEDULER_"),
        ("health_monitor", "DAGGERS_MONITOR_"),
    ],
)
def test_a_wrong_password_ends_a_service_with_one_sentence(
    kafka: Connection, tmp_path: Path, module: str, prefix: str
) -> None:
    told = environment(prefix, wrong_password(kafka, tmp_path))
    own = {
        "DAGGERS_SCHEDULER_STATE_DIR": str(tmp_path),
        "DAGGERS_GATEWAY_DATABASE_URL": f"sqlite:///{tmp_path}/g.db",
    }
    done = subprocess.run(
        [sys.executable, "-m", module], env=inherited() | own | told, capture_output=True, text=True,
        check=False, timeout=DEADLINE_S,
    )  # fmt: skip

    assert done.returncode != 0
    assert f"check {prefix}KAFKA_SASL_USERNAME and {prefix}KAFKA_SASL_PASSWORD_FILE" in done.stderr
    assert "Traceback" not in done.stderr
    assert PASSWORD[::-1] not in done.stderr


def test_the_log_is_exported_with_the_login_of_the_environment(kafka: Connection, tmp_path: Path) -> None:
    asyncio.run(ensure_topics(kafka))
    words = ["log", "export", tmp_path / "control.jsonl", "--kafka", kafka.bootstrap_servers, "-o", "json"]
    done = subprocess.run(
        [Path(sys.executable).with_name("daggers"), *map(str, words)],
        env=inherited() | environment("DAGGERS_", kafka), capture_output=True, text=True,
        check=False, timeout=DEADLINE_S,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
