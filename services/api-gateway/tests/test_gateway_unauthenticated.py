"""What somebody without a token can have of a gateway that asks for one: little, and none of its memory."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
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

from chassis.connections import LOOK_S, PER_ADDRESS
from chassis.endpoint import Endpoint
from chassis.interceptors import REQUEST_ID
from chassis.messages import MAX_CARRIER, MAX_MESSAGE
from chassis.pacing import AT_ONCE, LONGEST_S

TOKEN = "a-token-of-good-length"
MIB = 1024 * 1024
_PATIENCE_S = 120.0
_LARGE = [("grpc.max_send_message_length", 64 * MIB)]


def main(database: str, health: str) -> None:
    """A gateway that asks for tokens, in a process of its own; it ends with its stdin."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    endpoint = Endpoint("127.0.0.1:0", tokens=lambda: {hashlib.sha256(TOKEN.encode()).digest(): "ada"})
    with served(endpoint, database, health_bind=f"127.0.0.1:{health}") as port:
        print(port, flush=True)  # noqa: T201 - for who started it
        sys.stdin.read()


@pytest.fixture(scope="module")
def health_port() -> int:
    """One that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, health_port: int
) -> Iterator[tuple[psutil.Process, int]]:
    database = f"sqlite:///{tmp_path_factory.mktemp('gateway') / 'gateway.db'}"
    command = [sys.executable, __file__, database, str(health_port)]
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


def check(channel: Any, service: str) -> Any:
    request = health_pb2.HealthCheckRequest(service=service)
    return health_pb2_grpc.HealthStub(channel).Check(request, timeout=_PATIENCE_S)


async def code(call: Any) -> grpc.StatusCode:
    """How a call ends."""
    async with asyncio.timeout(_PATIENCE_S):
        return await call.code()


async def taken(process: psutil.Process, calls: Sequence[Any]) -> tuple[float, set[grpc.StatusCode]]:
    """MiB that a process takes more at most until these calls end, and how they end."""
    before = most = process.memory_info().rss
    waiting = asyncio.gather(*(code(call) for call in calls))
    while not waiting.done():
        most = max(most, process.memory_info().rss)
        await asyncio.wait([waiting], timeout=0.01)
    return (most - before) / MIB, set(waiting.result())


@asynccontextmanager
async def channels(port: int, number: int, **further: Any) -> AsyncIterator[list[grpc.aio.Channel]]:
    """As many connections."""
    options = [*_LARGE, ("grpc.use_local_subchannel_pool", 1)]
    opened = [
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options, **further) for _ in range(number)
    ]
    try:
        yield opened
    finally:
        for one in opened:
            await one.close()


@pytest.mark.parametrize("own_port", [False, True])
@pytest.mark.parametrize("size", [3 * MIB, 15 * MIB])
async def test_forty_connections_that_ask_for_health_of_endless_names_take_no_memory(
    gateway: tuple[psutil.Process, int], health_port: int, own_port: bool, size: int
) -> None:
    process, port = gateway
    name = "x" * size
    async with channels(health_port if own_port else port, 40) as opened:
        calls = [asked(one, name) for one in opened for asked in (watch, check)]
        more, codes = await taken(process, calls)

    # It was 4.7 GiB.
    assert more < 500
    assert codes <= {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED}


async def test_refusals_of_a_network_are_paced_and_who_has_a_token_does_not_wait(
    gateway: tuple[psutil.Process, int], channel: grpc.aio.Channel
) -> None:
    listing = "/daggers.v1.CatalogService/ListClusters"
    bearer = (("authorization", f"Bearer {TOKEN}"),)
    begin = time.monotonic()
    refused = [channel.unary_unary(listing)(b"", timeout=_PATIENCE_S) for _ in range(2 * AT_ONCE)]
    await channel.unary_unary(listing)(b"", timeout=_PATIENCE_S, metadata=bearer)

    codes = {await code(call) for call in refused}

    assert codes == {grpc.StatusCode.UNAUTHENTICATED}
    # Those beyond the first are each due later, and the last of them by as much as any may be.
    assert time.monotonic() - begin >= LONGEST_S


async def test_what_is_compressed_is_not_made_large(gateway: tuple[psutil.Process, int]) -> None:
    process, port = gateway
    async with channels(port, 4, compression=grpc.Compression.Gzip) as opened:
        more, codes = await taken(process, [check(one, "x" * (60 * MIB)) for one in opened])

    assert more < 100
    assert codes == {grpc.StatusCode.UNIMPLEMENTED}


async def test_who_shows_no_token_has_nothing_received(gateway: tuple[psutil.Process, int]) -> None:
    process, port = gateway
    async with channels(port, 40) as opened:
        calls = [
            one.unary_unary("/daggers.v1.CatalogService/RegisterSchema")(bytes(3 * MIB), timeout=_PATIENCE_S)
            for one in opened
            for _ in range(10)
        ]
        more, codes = await taken(process, calls)

    assert more < 200
    assert codes == {grpc.StatusCode.UNAUTHENTICATED}


def connected(process: psutil.Process, port: int) -> int:
    """How many connections a process has at a port."""
    return sum(
        one.laddr.port == port and one.status == psutil.CONN_ESTABLISHED
        for one in process.net_connections("tcp")
    )


async def few(process: psutil.Process, port: int, most: int) -> None:
    """Wait until a process has so few connections at a port."""
    async with asyncio.timeout(_PATIENCE_S):
        while connected(process, port) > most:  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("begin", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)])
@pytest.mark.parametrize("own_port", [False, True])
async def test_half_open_connections_are_closed(
    gateway: tuple[psutil.Process, int], health_port: int, own_port: bool, begin: bytes
) -> None:
    """Some say nothing at all, some begin HTTP/2 and ask nothing."""
    process, port = gateway
    port = health_port if own_port else port
    with ExitStack() as opened:
        for _ in range(600):
            opened.enter_context(socket.create_connection(("127.0.0.1", port), _PATIENCE_S)).sendall(begin)
        await few(process, port, PER_ADDRESS)
        await few(process, port, 0)


async def test_who_is_known_is_not_closed_for_those_who_are_not(
    gateway: tuple[psutil.Process, int], channel: Any
) -> None:
    process, port = gateway
    shows = (("authorization", f"Bearer {TOKEN}"),)
    steps = channel.unary_stream("/daggers.v1.DaggerService/WatchEvents")(b"", metadata=shows)
    await steps.read()
    with ExitStack() as opened:
        for _ in range(PER_ADDRESS + 50):
            opened.enter_context(socket.create_connection(("127.0.0.1", port), _PATIENCE_S))
        await few(process, port, PER_ADDRESS)
        await few(process, port, 1)
        await asyncio.sleep(2 * LOOK_S)

    assert not steps.done()
    steps.cancel()


async def test_a_message_has_the_size_of_its_method(channel: Any) -> None:
    shows = (("authorization", f"Bearer {TOKEN}"),)

    async def ended(method: str, size: int) -> grpc.StatusCode:
        call = channel.unary_unary(f"/daggers.v1.{method}")(bytes(size), timeout=_PATIENCE_S, metadata=shows)
        return await code(call)

    # A byte of zero is no field: INVALID_ARGUMENT is for what was received whole.
    received, refused = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await ended("CatalogService/ListClusters", MAX_MESSAGE) == received
    assert await ended("CatalogService/ListClusters", MAX_MESSAGE + 1) == refused
    assert await ended("CatalogService/RegisterSchema", MAX_CARRIER) == received
    assert await ended("CatalogService/RegisterSchema", MAX_CARRIER + 1) == refused
    assert await ended("DaggerService/Validate", MAX_CARRIER) == received


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


async def test_the_port_of_health_tells_nothing_else(
    gateway: tuple[psutil.Process, int], health_port: int
) -> None:
    del gateway
    async with channels(health_port, 1) as (one,):
        checked = await check(one, "daggers.v1.DaggerService")
        refused = one.unary_unary("/daggers.v1.CatalogService/ListClusters")(b"", timeout=_PATIENCE_S)

        assert checked.status == health_pb2.HealthCheckResponse.SERVING
        assert await code(refused) == grpc.StatusCode.UNIMPLEMENTED


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
    main(*sys.argv[1:])
