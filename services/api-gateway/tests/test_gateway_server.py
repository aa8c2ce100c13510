from __future__ import annotations

import asyncio
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, gateway_pb2_grpc
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from tests.contracts.quarantine import set_aside

from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.quarantine.topic import KafkaQuarantine
from api_gateway.server import serving
from api_gateway.state.projection import Projection
from chassis.endpoint import CannotBind, Endpoint
from chassis.errors import from_rpc_error
from chassis.tokenfile import read_tokens
from eventlog.memory import MemoryLog
from kafkaclient import Connection

pb = gateway_pb2
NOON = 1_700_000_000_000
SERVICES = (
    "daggers.v1.AccessService",
    "daggers.v1.AlertService",
    "daggers.v1.AuditService",
    "daggers.v1.CatalogService",
    "daggers.v1.DaggerService",
    "daggers.v1.FleetService",
    "daggers.v1.QuarantineService",
    "daggers.v1.SinkService",
)
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING


async def test_every_service_is_healthy_by_its_name(client: Any) -> None:
    health = health_pb2_grpc.HealthStub(client.channel)

    found = [
        (await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)).status
        for name in ("", *SERVICES)
    ]

    assert found == [SERVING] * (1 + len(SERVICES))


def reflecting(channel: Any, version: str) -> Any:
    """The one method of reflection; the messages of both versions are the same bytes."""
    return channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_lists_every_service(client: Any, version: str) -> None:
    call = reflecting(client.channel, version)(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=10
    )
    answer = await call.read()

    names = [service.name for service in answer.list_services_response.service]
    assert sorted(names) == sorted(
        [
            *SERVICES,
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ]
    )


@pytest.mark.parametrize("service", [*SERVICES, "grpc.reflection.v1.ServerReflection"])
async def test_reflection_describes_every_service_with_all_that_it_refers_to(
    client: Any, service: str
) -> None:
    reflect = reflecting(client.channel, "v1")

    async def files(**asked: str) -> list[descriptor_pb2.FileDescriptorProto]:
        request = reflection_pb2.ServerReflectionRequest(**asked)
        answer = await reflect(iter([request]), timeout=10).read()
        found = answer.file_descriptor_response.file_descriptor_proto
        return [descriptor_pb2.FileDescriptorProto.FromString(file) for file in found]

    # As grpcurl does it: the file of a symbol, and then whatever that imports.
    pool, known = DescriptorPool(), dict[str, descriptor_pb2.FileDescriptorProto]()
    unread = await files(file_containing_symbol=service)
    while unread:
        file = unread.pop()
        if file.name not in known:
            known[file.name] = file
            unread += [each for name in file.dependency for each in await files(file_by_filename=name)]
    while known:
        for name, file in list(known.items()):
            if not known.keys() & set(file.dependency):
                pool.Add(known.pop(name))

    assert pool.FindServiceByName(service).methods


async def test_a_draining_gateway_is_not_serving_and_ends_watches_with_where_to_resume(
    samples: Any, tmp_path: Path
) -> None:
    log, projection = MemoryLog(), Projection(f"sqlite:///{tmp_path / 'gateway.db'}")
    async with serving(
        log, projection, MemoryQuarantine(), Endpoint("127.0.0.1:0"), alerts=MemoryLog(), source="/x"
    ) as gateway:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}")
        catalog = gateway_pb2_grpc.CatalogServiceStub(channel)
        await catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=samples.cluster()), timeout=10)
        health = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        before = (await health.read()).status
        request = pb.WatchEventsRequest(since_sequence=-1)
        watching = gateway_pb2_grpc.DaggerServiceStub(channel).WatchEvents(request)
        await watching.read()
        drained = asyncio.create_task(_drained(health, watching))
    after = await drained
    await channel.close()

    assert (before, after) == (SERVING, (NOT_SERVING, 0, "DRAINING"))


async def _drained(health: Any, watching: Any) -> tuple[int, int, str]:
    status = (await health.read()).status
    token = await watching.read()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watching.read()
    return status, token.sequence, from_rpc_error(caught.value).reason


async def test_an_address_that_is_taken_is_one_clear_error(client: Any, tmp_path: Path) -> None:
    endpoint = Endpoint(f"127.0.0.1:{client.gateway.port}")
    projection = Projection(f"sqlite:///{tmp_path / 'second.db'}")

    with pytest.raises(CannotBind, match=f"cannot serve on 127.0.0.1:{client.gateway.port}"):
        async with serving(
            MemoryLog(), projection, MemoryQuarantine(), endpoint, alerts=MemoryLog(), source="/x"
        ):
            pass


async def test_a_message_beyond_16_mib_is_refused(client: Any, samples: Any) -> None:
    spec = samples.spec()
    spec.sql = "x" * (17 * 1024 * 1024)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.create(spec=spec)

    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Key and certificate of localhost."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return key, certificate


async def test_with_tls_and_tokens_only_who_has_both_is_answered_and_named_in_the_log(
    tmp_path: Path, certificate: tuple[Path, Path], samples: Any
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("bot:0123456789abcdef0123\n")
    key, chain = (path.read_bytes() for path in certificate)
    endpoint = Endpoint(
        "127.0.0.1:0", grpc.ssl_server_credentials([(key, chain)]), partial(read_tokens, tokens)
    )
    log, projection = MemoryLog(), Projection(f"sqlite:///{tmp_path / 'tls.db'}")
    request = pb.RegisterClusterRequest(cluster=samples.cluster())
    async with serving(
        log, projection, MemoryQuarantine(), endpoint, alerts=MemoryLog(), source="/x"
    ) as gateway:
        address, trust = f"localhost:{gateway.port}", grpc.ssl_channel_credentials(chain)
        async with grpc.aio.secure_channel(address, trust) as channel:
            stub = gateway_pb2_grpc.CatalogServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.RegisterCluster(request, timeout=10)
            metadata = (("authorization", "Bearer 0123456789abcdef0123"),)
            await stub.RegisterCluster(request, timeout=10, metadata=metadata)
    (record,) = [record async for record in log.replay()]

    assert (caught.value.code(), record.message.meta.actor) == (grpc.StatusCode.UNAUTHENTICATED, "bot")


@pytest.mark.parametrize(
    ("service", "method"),
    [
        (service.full_name, method.name)
        for file in gateway_pb2.DESCRIPTOR.public_dependencies
        for service in file.services_by_name.values()
        for method in service.methods
    ],
)
async def test_bytes_that_are_no_protobuf_are_invalid_for_every_method(
    client: Any, service: str, method: str
) -> None:
    streaming = method.startswith("Watch") or method in ("ReadLog", "ReadRows")
    call = (client.channel.unary_stream if streaming else client.channel.unary_unary)(f"/{service}/{method}")
    running = call(b"\xff\xff\xff", timeout=10)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (running.read() if streaming else running)

    assert from_rpc_error(caught.value).reason == "MALFORMED_REQUEST"


async def test_quarantined_records_of_one_dagger_are_listed(ready: Any, refusal: Any) -> None:
    await ready.create()
    of_its_predecessor = set_aside("completed_bookings", 3, generation=0)
    for record in of_its_predecessor, set_aside("completed_bookings", 2), set_aside("other", 1):
        ready.quarantined.place(0, *record, time_ms=NOON)

    listed = await ready.quarantine.ListQuarantined(
        pb.ListQuarantinedRequest(dagger="completed_bookings"), timeout=10
    )
    unknown = await refusal(
        ready.quarantine.ListQuarantined(pb.ListQuarantinedRequest(dagger="nobody"), timeout=10)
    )
    bad = await refusal(
        ready.quarantine.ListQuarantined(pb.ListQuarantinedRequest(dagger="", page_size=-1), timeout=10)
    )

    assert (
        [record.offset for record in listed.records],
        unknown.code,
        [v.field for v in bad.violations],
    ) == (
        [2],
        grpc.StatusCode.NOT_FOUND,
        ["dagger", "page_size"],
    )


async def test_quarantined_records_beyond_one_answer_are_on_the_next_page(ready: Any, refusal: Any) -> None:
    await ready.create()
    await ready.create(name="another_one")
    for number in range(12):
        record = set_aside("completed_bookings", number, value=b"x" * 512 * 1024)
        ready.quarantined.place(number % 2, *record, time_ms=NOON + number)
    pages, token = [], ""
    while not pages or token:
        request = pb.ListQuarantinedRequest(dagger="completed_bookings", page_token=token)
        answer = await ready.quarantine.ListQuarantined(request, timeout=20)
        pages.append([record.offset for record in answer.records])
        token, last = answer.next_page_token, request.page_token
    refused = [
        await refusal(ready.quarantine.ListQuarantined(wrong, timeout=10))
        for wrong in (
            pb.ListQuarantinedRequest(dagger="another_one", page_token=last),
            pb.ListQuarantinedRequest(dagger="completed_bookings", page_token="nothing"),
        )
    ]

    assert pages == [[11, 10, 9, 8, 7], [6, 5, 4, 3, 2], [1, 0]]
    assert [error.violations[0].field for error in refused] == ["page_token", "page_token"]


async def test_a_quarantine_that_cannot_be_read_is_unavailable(
    harness: Any, refusal: Any, samples: Any, unused_tcp_port: int
) -> None:
    projection = Projection(harness.database_url)
    away = KafkaQuarantine(Connection(f"127.0.0.1:{unused_tcp_port}"))
    log = MemoryLog()
    async with harness.running(log, database_url=harness.database_url + "2") as client:
        await samples.fill(client)
        await client.create()
    async with (
        serving(log, projection, away, Endpoint("127.0.0.1:0"), alerts=MemoryLog(), source="/x") as gateway,
        grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel,
    ):
        stub = gateway_pb2_grpc.QuarantineServiceStub(channel)
        request = pb.ListQuarantinedRequest(dagger="completed_bookings")
        error = await refusal(stub.ListQuarantined(request, timeout=20))

    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "QUARANTINE_UNAVAILABLE")
