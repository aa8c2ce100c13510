"""What somebody without a token can have of a gateway that asks for one: little, and none of its memory."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
import structlog
from daggers.v1 import gateway_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from tests.gateways import served

from chassis.endpoint import Endpoint
from chassis.interceptors import REQUEST_ID

TOKEN = "a-token-of-good-length"
MIB = 1024 * 1024
_PATIENCE_S = 120.0
_LARGE = [("grpc.max_send_message_length", 64 * MIB)]


def main(database: str) -> None:
    """A gateway that asks for tokens, in a process of its own; it ends with its stdin."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    endpoint = Endpoint("127.0.0.1:0", tokens=lambda: {hashlib.sha256(TOKEN.encode()).digest(): "ada"})
    with served(endpoint, database) as port:
        print(port, flush=True)  # noqa: T201 - for who started it
        sys.stdin.read()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psutil.Process, int]]:
    database = f"sqlite:///{tmp_path_factory.mktemp('gateway') / 'gateway.db'}"
    command = [sys.executable, __file__, database]
    root = Path(__file__).parents[3]
    environment = {"PYTHONPATH": str(root)}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield psutil.Process(process.pid), int(process.stdout.readline())
        process.stdin.close()
        process.wait(_PATIENCE_S)


@pytest.fixture
async def channel(gateway: tuple[psutil.Process, int]) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway[1]}", options=_LARGE) as made:
        yield made


def watch(channel: Any, service: str) -> Any:
    return health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=service))


async def code(call: Any) -> grpc.StatusCode:
    """How a call ends."""
    async with asyncio.timeout(_PATIENCE_S):
        return await call.code()


async def held(process: psutil.Process, channel: Any, watches: int) -> float:
    """MiB that a gateway takes more while so many watches of names of 15 MiB are open."""
    before = process.memory_info().rss
    name = "x" * (15 * MIB)
    most = 0
    for _ in range(watches // 10):
        calls = [watch(channel, name) for _ in range(10)]
        waiting = asyncio.gather(*(code(call) for call in calls))
        while not waiting.done():
            most = max(most, process.memory_info().rss)
            await asyncio.wait([waiting], timeout=0.01)
        assert set(waiting.result()) == {grpc.StatusCode.INVALID_ARGUMENT}
    return (most - before) / MIB


@pytest.mark.parametrize(("watches", "most"), [(10, 500), pytest.param(100, 1_000, marks=pytest.mark.long)])
async def test_watches_of_endless_names_take_no_memory(
    gateway: tuple[psutil.Process, int], channel: Any, watches: int, most: int
) -> None:
    taken = await held(gateway[0], channel, watches)

    # Four are received at once, and copied; it was 62 MiB for each watch, for as long as it was open.
    assert taken < most


async def test_a_large_request_is_not_received_before_it_is_known_whose_it_is(channel: Any) -> None:
    register = channel.unary_unary("/daggers.v1.CatalogService/RegisterSchema")
    call = register(b"\x0a" * (15 * MIB), timeout=_PATIENCE_S)

    assert await code(call) == grpc.StatusCode.UNAUTHENTICATED


async def test_a_request_of_nothing_is_one_of_no_fields(channel: Any) -> None:
    shows = (("authorization", f"Bearer {TOKEN}"), (REQUEST_ID, "an-empty-one"))
    asked = channel.stream_unary(
        "/daggers.v1.CatalogService/ListClusters", response_deserializer=pb.ListClustersResponse.FromString
    )

    assert (await asked(iter(()), timeout=_PATIENCE_S, metadata=shows)).clusters == []


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_what_services_there_are_is_told_to_who_shows_a_token(channel: Any, version: str) -> None:
    reflect = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    refused = reflect(
        timeout=_PATIENCE_S
    )  # says nothing: who writes to a call that has ended is told so instead
    shows = (("authorization", f"Bearer {TOKEN}"),)
    told = await reflect(iter([request]), timeout=_PATIENCE_S, metadata=shows).read()

    assert await code(refused) == grpc.StatusCode.UNAUTHENTICATED
    assert told.list_services_response.service


async def test_health_is_told_to_everybody(channel: Any) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    service = "daggers.v1.DaggerService"
    checked = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=_PATIENCE_S)
    watched = await watch(channel, service).read()
    unknown = await watch(channel, "no.such.Service").read()
    refused = stub.Check(health_pb2.HealthCheckRequest(service="no.such.Service"), timeout=_PATIENCE_S)

    assert checked.status == watched.status == health_pb2.HealthCheckResponse.SERVING
    assert unknown.status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    assert await code(refused) == grpc.StatusCode.NOT_FOUND


if __name__ == "__main__":
    main(sys.argv[1])
