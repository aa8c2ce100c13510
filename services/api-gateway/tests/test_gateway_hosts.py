"""Which host is asked, and what its silence or refusal is to a caller."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, host_pb2_grpc, spec_pb2
from google.protobuf.message import Message

from api_gateway.hosts.client import HostAccess
from api_gateway.hosts.routes import everywhere, living, of_replay, order_by_files, refusal, route
from chassis.errors import ApiError, from_rpc_error
from chassis.interceptors import interceptor
from eventlog import Draft, Record
from eventlog.memory import MemoryLog
from fleet import Fleet
from fleet.fold.hosts import Endpoint

META = events_pb2.RequestMeta(actor="test")
FACT = events_pb2.FactMeta(epoch=0, name="orders")
CLAIM = events_pb2.SchedulerStarted(scheduler_id="s", host="a")
ASKED = events_pb2.DaggerRequested(meta=META, name="orders", spec=spec_pb2.DaggerSpec(cluster="c"))
INTENDED = events_pb2.LaunchIntended(meta=FACT, version=1)
AT = Endpoint("10.0.0.1:7", tls=False, scheduler_id="s")


def serving(address: str) -> events_pb2.HostServing:
    return events_pb2.HostServing(scheduler_id="s", host="a", address=address)


def folded(*messages: Message) -> Fleet:
    fleet = Fleet()
    for sequence, message in enumerate(messages):
        value = message.SerializeToString()
        kind = message.DESCRIPTOR.full_name
        fleet.apply(Record(sequence, f"id-{sequence}", "/t", "s", datetime.now(UTC), kind, message, value))
    return fleet


def test_the_host_of_the_newest_launch_is_asked_at_every_address_it_has() -> None:
    fleet = folded(CLAIM, ASKED, INTENDED, serving("a:1"), serving("a:2"))
    found = route(fleet, living(fleet, "orders"))

    assert found is not None
    assert (found.host, [endpoint.address for endpoint in found.endpoints]) == ("a", ["a:2", "a:1"])


def test_a_dagger_that_was_never_launched_has_no_host() -> None:
    fleet = folded(CLAIM, ASKED)

    assert route(fleet, living(fleet, "orders")) is None


def test_a_replay_is_asked_about_where_it_ran_or_at_whoever_leads() -> None:
    replay = events_pb2.QuarantineReplayRequested(meta=META, name="orders", replay_id="r", up_to={0: 1})
    begun = CLAIM, ASKED, serving("a:1"), replay
    elsewhere = events_pb2.ReplayStarted(meta=FACT, replay_id="r", process={"host": "b", "pid": 7})
    finished = events_pb2.ReplayFinished(meta=FACT, replay_id="r")
    waiting, running, ended = folded(*begun), folded(*begun, elsewhere), folded(*begun, elsewhere, finished)
    to_come = of_replay(waiting, living(waiting, "orders"))

    assert to_come is not None
    assert to_come.host == "a"
    for fleet in (running, ended):
        with pytest.raises(ApiError) as caught:
            of_replay(fleet, living(fleet, "orders"))
        assert (caught.value.reason, caught.value.metadata["host"]) == ("HOST_UNREACHABLE", "b")
    without = folded(CLAIM, ASKED, serving("a:1"))
    assert of_replay(without, living(without, "orders")) is None


def test_hosts_that_lack_a_file_of_the_request_are_asked_last() -> None:
    kafka = spec_pb2.KafkaAddress(bootstrap_servers="k:9093")
    kafka.secret_properties["sasl.password"].file = "/run/password"
    cluster = events_pb2.ClusterRegistered(meta=META, cluster=spec_pb2.Cluster(name="c", kafka=kafka))
    lacks = {"a": ["file /run/password"], "b": [], "c": ["file /run/other"]}
    registrations = [
        event
        for host, words in lacks.items()
        for event in (
            events_pb2.HostServing(scheduler_id=host, host=host, address=f"{host}:1"),
            events_pb2.HostRegistered(scheduler_id=host, host=host, boot_id="1", lacks=words),
        )
    ]
    fleet = folded(CLAIM, cluster, *registrations)

    def order(spec: spec_pb2.DaggerSpec) -> list[str]:
        return [there.host for there in order_by_files(fleet, everywhere(fleet), spec)]

    assert order(spec_pb2.DaggerSpec()) == ["a", "b", "c"]
    assert order(spec_pb2.DaggerSpec(cluster="c")) == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("fleet", "reason"),
    [(folded(CLAIM), "NOT_FOUND"), (folded(CLAIM, ASKED, INTENDED), "HOST_UNREACHABLE")],
)
def test_a_dagger_or_a_host_that_nobody_knows_is_refused(fleet: Fleet, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        route(fleet, living(fleet, "orders"))

    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ApiError(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", "failed to connect", {}), "HOST_UNREACHABLE"),
        (ApiError(grpc.StatusCode.UNAUTHENTICATED, "TOKEN_REQUIRED", "no token", {}), "HOST_REFUSED"),
        (ApiError(grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED", "no such method", {}), "HOST_TOO_OLD"),
        (ApiError(grpc.StatusCode.NOT_FOUND, "NO_LOG", "there is no log", {}), "NO_LOG"),
        (ApiError(grpc.StatusCode.UNAVAILABLE, "SINK_UNREACHABLE", "no answer", {}), "SINK_UNREACHABLE"),
        (ApiError(grpc.StatusCode.FAILED_PRECONDITION, "WRONG_HOST", "b", {"host": "b"}), "HOST_UNREACHABLE"),
    ],
)
def test_a_hosts_own_words_pass_and_its_silence_is_put_in_words(error: ApiError, reason: str) -> None:
    assert refusal(error, "a", AT).reason == reason


async def test_a_host_whose_schedulers_are_all_gone_is_unreachable(harness: Any) -> None:
    log = MemoryLog()
    with socket.socket() as closed:  # bound and not listening: nobody else is there, and nobody answers
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        for message in (CLAIM, ASKED, INTENDED, serving(address)):
            await log.append(Draft(type(message).__name__, "/t", "s", datetime.now(UTC), message))
        client = await harness.start(log)
        call: Any = client.daggers.ReadLog(gateway_pb2.ReadLogRequest(name="orders"), timeout=20)
        with pytest.raises(grpc.RpcError) as caught:
            async for _ in call:
                pass
    error = from_rpc_error(caught.value)

    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "HOST_UNREACHABLE")
    assert error.message == f"host a cannot be reached: its scheduler at {address} does not answer"


class Other(host_pb2_grpc.HostServiceServicer):
    """A host `b`, at an address that was a's."""

    def __init__(self) -> None:
        self.meant: list[str] = []

    async def ReadHostLog(  # noqa: N802 - gRPC's name
        self, request: host_pb2.ReadHostLogRequest, context: Any
    ) -> AsyncIterator[gateway_pb2.ReadLogResponse]:
        self.meant.append(request.host)
        raise ApiError(grpc.StatusCode.FAILED_PRECONDITION, "WRONG_HOST", "this is b", {"host": "b"})
        yield gateway_pb2.ReadLogResponse()


@pytest.mark.parametrize(
    ("here", "meant", "why"),
    [
        ("a", ["a"], "at ADDRESS, where its scheduler was, host b answers"),
        (
            "b",
            [],
            "its scheduler serves on ADDRESS, where only that host reaches it: set"
            " DAGGERS_SCHEDULER_HOST_BIND there",
        ),
    ],
)
async def test_an_address_that_another_host_has_now_answers_for_nobody(
    harness: Any, here: str, meant: list[str], why: str
) -> None:
    log, other = MemoryLog(), Other()
    server = grpc.aio.server(interceptors=[interceptor(host_pb2.DESCRIPTOR)])
    host_pb2_grpc.add_HostServiceServicer_to_server(other, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    for message in (CLAIM, ASKED, INTENDED, serving(address)):
        await log.append(Draft(type(message).__name__, "/t", "s", datetime.now(UTC), message))
    async with harness.running(log, host_access=HostAccess(here=here)) as client:
        call: Any = client.daggers.ReadLog(gateway_pb2.ReadLogRequest(name="orders"), timeout=20)
        with pytest.raises(grpc.RpcError) as caught:
            await call.read()
    await server.stop(None)
    error = from_rpc_error(caught.value)

    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "HOST_UNREACHABLE")
    assert error.message == f"host a cannot be reached: {why.replace('ADDRESS', address)}"
    assert other.meant == meant


class Rows(host_pb2_grpc.HostServiceServicer):
    """A host that tells which dagger of its name it was asked for, once in each call that is followed."""

    async def WatchHostRows(  # noqa: N802 - gRPC's name
        self, request: host_pb2.WatchHostRowsRequest, context: Any
    ) -> AsyncIterator[gateway_pb2.WatchRowsResponse]:
        yield gateway_pb2.WatchRowsResponse(rows=[gateway_pb2.Row(key=str(request.create_sequence))])
        await asyncio.Event().wait()

    async def ReadHostLog(  # noqa: N802 - gRPC's name
        self, request: host_pb2.ReadHostLogRequest, context: Any
    ) -> AsyncIterator[gateway_pb2.ReadLogResponse]:
        yield gateway_pb2.ReadLogResponse(lines=[str(request.create_sequence)], position="p")
        await asyncio.Event().wait()


REMADE = (
    events_pb2.LaunchFailed(meta=events_pb2.FactMeta(epoch=0, name="orders", generation=2)),
    events_pb2.DeleteRequested(meta=META, name="orders"),
    events_pb2.Deleted(meta=events_pb2.FactMeta(epoch=0, name="orders", generation=2)),
    ASKED,
    INTENDED,
)


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("WatchRows", gateway_pb2.WatchRowsRequest(name="orders")),
        ("ReadLog", gateway_pb2.ReadLogRequest(name="orders", follow=True)),
    ],
)
async def test_what_was_followed_is_not_taken_up_at_a_later_dagger_of_its_name(
    harness: Any, call: str, request_: Any
) -> None:
    log, messages = MemoryLog(), list[Message]()
    server = grpc.aio.server(interceptors=[interceptor(host_pb2.DESCRIPTOR)])
    host_pb2_grpc.add_HostServiceServicer_to_server(Rows(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()

    async def append(*more: Message) -> None:
        for message in more:
            messages.append(message)
            id_ = f"id-{len(messages)}"
            await log.append(Draft(id_, "/t", "orders", datetime.now(UTC), message))

    await append(CLAIM, ASKED, INTENDED, serving(address))
    async with harness.running(log, host_access=HostAccess(here="a")) as client:
        first = await getattr(client.daggers, call)(request_, timeout=20).read()
    await append(*REMADE)  # while the gateway is away
    async with harness.running(log, host_access=HostAccess(here="a")) as client:
        request_.create_sequence = first.create_sequence
        with pytest.raises(grpc.RpcError) as caught:
            await getattr(client.daggers, call)(request_, timeout=20).read()
        request_.create_sequence = 0
        later = await getattr(client.daggers, call)(request_, timeout=20).read()
    await server.stop(None)
    error = from_rpc_error(caught.value)

    assert (error.code, error.message) == (
        grpc.StatusCode.NOT_FOUND,
        "there is no dagger orders of sequence 1",
    )
    assert (first.create_sequence, later.create_sequence) == (1, 7)
