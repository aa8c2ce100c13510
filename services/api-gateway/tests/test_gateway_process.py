from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from daggers.v1 import audit_pb2, gateway_pb2, gateway_pb2_grpc

from eventlog import topics
from eventlog.kafka import KafkaLog
from kafkaclient import Connection

pb = gateway_pb2


async def start(**settings: str) -> Process:
    environment = {f"DAGGERS_GATEWAY_{name.upper()}": value for name, value in settings.items()}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "api_gateway", env=environment, stdout=PIPE, stderr=PIPE
    )


@asynccontextmanager
async def process(**settings: str) -> AsyncIterator[tuple[Process, str]]:
    """A gateway as a process of its own, once it serves, and its address."""
    running = await start(**settings)
    try:
        async with asyncio.timeout(60):
            yield running, await _address(running)
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def _address(running: Process) -> str:
    assert running.stderr is not None
    while line := await running.stderr.readline():
        said = json.loads(line)
        if said["event"] == "service.started":
            return str(said["address"])
    raise AssertionError("the gateway ended before it served")


async def test_help_explains_the_settings() -> None:
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "api_gateway", "--help", stdout=PIPE, stderr=PIPE
    )
    said, _ = await running.communicate()

    assert (running.returncode, b"DAGGERS_GATEWAY_DATABASE_URL  (default: sqlite:///" in said) == (0, True)


async def test_without_settings_it_ends_with_code_2_and_one_line_for_each() -> None:
    running = await start()
    _, said = await running.communicate()

    assert (running.returncode, said.decode().splitlines()) == (
        2,
        [
            "python -m api_gateway: bad settings:",
            "  DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS: Field required",
            "`python -m api_gateway --help` explains each setting.",
        ],
    )


async def test_a_token_file_that_cannot_be_read_ends_it_with_code_2(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("hunter2")
    running = await start(kafka_bootstrap_servers="127.0.0.1:1", token_file=str(tmp_path / "tokens"))
    _, said = await running.communicate()

    assert (running.returncode, "line 1 of" in said.decode(), "hunter2" in said.decode()) == (2, True, False)


@pytest.mark.integration
async def test_what_a_gateway_registered_is_there_after_a_kill_and_sigterm_drains_it(
    kafka: str, tmp_path: Path, samples: Any
) -> None:
    settings = {
        "kafka_bootstrap_servers": kafka,
        "bind": "127.0.0.1:0",
        "database_url": f"sqlite:///{tmp_path / 'gateway.db'}",
    }
    cluster = samples.cluster()
    cluster.name = f"c-{uuid.uuid4().hex[:12]}"
    async with process(**settings) as (running, address), grpc.aio.insecure_channel(address) as channel:
        stub = gateway_pb2_grpc.CatalogServiceStub(channel)
        answer = await stub.RegisterCluster(pb.RegisterClusterRequest(cluster=cluster), timeout=30)
        running.kill()
        await running.wait()
    async with process(**settings) as (running, address):
        async with grpc.aio.insecure_channel(address) as channel:
            stub = gateway_pb2_grpc.CatalogServiceStub(channel)
            request = pb.ListClustersRequest(min_sequence=answer.sequence)
            listed = await stub.ListClusters(request, timeout=30)
        running.send_signal(signal.SIGTERM)
        code = await running.wait()

    assert (cluster.name in [cluster.name for cluster in listed.clusters], code) == (True, 0)


@pytest.mark.integration
async def test_an_address_that_is_taken_ends_it_with_code_69(kafka: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        running = await start(
            kafka_bootstrap_servers=kafka, bind=bind, database_url=f"sqlite:///{tmp_path / 'x.db'}"
        )
        _, said = await running.communicate()

    assert (running.returncode, f"cannot serve on {bind}" in said.decode()) == (69, True)


@pytest.mark.integration
async def test_what_is_audited_stands_in_a_topic_that_is_kept_for_90_days(kafka: str, tmp_path: Path) -> None:
    settings = {
        "kafka_bootstrap_servers": kafka,
        "bind": "127.0.0.1:0",
        "database_url": f"sqlite:///{tmp_path / 'gateway.db'}",
    }
    name = f"d-{uuid.uuid4().hex[:12]}"
    async with process(**settings) as (running, address):
        async with grpc.aio.insecure_channel(address) as channel:
            stub = gateway_pb2_grpc.QuarantineServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.ListQuarantined(pb.ListQuarantinedRequest(dagger=name), timeout=30)
        running.send_signal(signal.SIGTERM)
        await running.wait()
    async with KafkaLog(Connection(kafka), topics.AUDIT) as log:
        told = [record.message async for record in log.replay() if record.subject == name]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topics.AUDIT)
    admin = AdminClient({"bootstrap.servers": kafka})  # what it answers ends with it
    described = admin.describe_configs([resource])[resource].result(30)

    assert [(each.principal, each.allowed) for each in told if isinstance(each, audit_pb2.CallAudited)] == [
        ("anonymous", True)
    ]
    assert described["retention.ms"].value == str(90 * 24 * 3_600_000)
