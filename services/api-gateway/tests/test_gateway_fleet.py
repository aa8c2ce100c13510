"""The hosts of drivers: what is shown of them, and when a person's word that one is gone is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc
from daggers.v1 import (
    events_pb2,
    gateway_pb2,
    gateway_pb2_grpc,
    host_pb2,
    host_pb2_grpc,
    spec_pb2,
    telemetry_pb2,
)
from google.protobuf.message import Message

from chassis.interceptors import interceptor
from eventlog import Draft
from eventlog.memory import MemoryLog

pb = gateway_pb2
META = events_pb2.RequestMeta(actor="test")
FACT = events_pb2.FactMeta(epoch=0, name="orders", generation=2)
REGISTERED = events_pb2.HostRegistered(scheduler_id="t", host="b", boot_id="boot", version="0.3.0", cores=4)
HISTORY: tuple[Message, ...] = (
    events_pb2.SchedulerStarted(scheduler_id="s", host="a"),
    events_pb2.DaggerRequested(
        meta=META, name="orders", spec=spec_pb2.DaggerSpec(cluster="c", team="pricing")
    ),
    events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=0, name="orders"), version=1),
    REGISTERED,
    events_pb2.Launched(meta=FACT, driver=events_pb2.DriverHandle(host="b", pid=7)),
)
Refusal = Callable[[Any], Any]


async def append(log: Any, *messages: Message) -> None:
    for message in messages:
        await log.append(Draft(f"id-{await log.end()}", "/t", "s", datetime.now(UTC), message))


@asynccontextmanager
async def fleet(harness: Any, *more: Message) -> AsyncIterator[Any]:
    log = MemoryLog()
    await append(log, *HISTORY, *more)
    async with harness.running(log) as client:
        yield gateway_pb2_grpc.FleetServiceStub(client.channel)


def gone(**more: Any) -> pb.ConfirmHostGoneRequest:
    return pb.ConfirmHostGoneRequest(name="b", message="its power supply burned", **more)


async def test_hosts_are_shown_with_what_they_said_and_what_is_on_them(harness: Any) -> None:
    async with fleet(harness) as hosts:
        listed = (await hosts.ListHosts(pb.ListHostsRequest(), timeout=20)).hosts
        shown = await hosts.GetHost(pb.GetHostRequest(name="b"), timeout=20)

    assert [(host.name, host.epoch, host.daggers, host.leads) for host in listed] == [("b", 3, 1, False)]
    assert (shown.host.registered, shown.host.HasField("gone")) == (REGISTERED, False)
    assert [(dagger.name, dagger.team, dagger.keeps_state) for dagger in shown.daggers] == [
        ("orders", "pricing", False)
    ]


async def test_a_silent_host_is_gone_when_a_person_says_so_and_says_it_once(harness: Any) -> None:
    async with fleet(harness) as hosts:
        checked = await hosts.ConfirmHostGone(gone(validate_only=True), timeout=30)
        before = (await hosts.ListHosts(pb.ListHostsRequest(), timeout=20)).hosts[0]
        first = await hosts.ConfirmHostGone(gone(request_id="r", epoch=checked.host.epoch), timeout=30)
        again = await hosts.ConfirmHostGone(gone(request_id="r", epoch=checked.host.epoch), timeout=30)

    assert (checked.sequence, before.HasField("gone")) == (0, False)
    assert [dagger.name for dagger in checked.daggers] == ["orders"]
    assert (first.sequence, again.sequence) == (5, 5)
    assert first.host.gone.message == "its power supply burned"
    assert first.host.gone.cause == events_pb2.HOST_GONE_CAUSE_PERSON


async def test_a_host_whose_driver_is_heard_is_not_gone(harness: Any, refusal: Refusal) -> None:
    beat = telemetry_pb2.Heartbeat(dagger="orders", generation=2, host="b")
    await append(harness.heartbeats, beat)
    async with fleet(harness) as hosts:
        async with asyncio.timeout(20):
            asked = pb.GetHostRequest(name="b")
            while not (await hosts.GetHost(asked, timeout=20)).host.HasField("heard_time"):
                pass  # each call lets the gateway hear
        error = await refusal(hosts.ConfirmHostGone(gone(), timeout=30))

    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "HOST_ALIVE")


class Here(host_pb2_grpc.HostServiceServicer):
    """A scheduler that answers for the host `a`."""

    async def ReadHostLog(  # noqa: N802 - gRPC's name
        self, request: host_pb2.ReadHostLogRequest, context: Any
    ) -> AsyncIterator[pb.ReadLogResponse]:
        if request.host == "a":
            yield pb.ReadLogResponse(position="p")


async def test_a_host_whose_scheduler_answers_is_not_gone(harness: Any, refusal: Refusal) -> None:
    server = grpc.aio.server(interceptors=[interceptor(host_pb2.DESCRIPTOR)])
    host_pb2_grpc.add_HostServiceServicer_to_server(Here(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    serving = events_pb2.HostServing(scheduler_id="s", host="a", address=address)
    async with fleet(harness, serving) as hosts:
        asked = pb.ConfirmHostGoneRequest(name="a")
        alive = await refusal(hosts.ConfirmHostGone(asked, timeout=30))
        await server.stop(None)
        silent = await hosts.ConfirmHostGone(asked, timeout=30)

    assert (alive.reason, alive.metadata["why"]) == ("HOST_ALIVE", "its scheduler answers")
    assert silent.sequence == 6


async def test_a_host_that_is_another_now_or_unknown_is_refused(harness: Any, refusal: Refusal) -> None:
    async with fleet(harness, REGISTERED) as hosts:
        errors = [
            await refusal(hosts.ConfirmHostGone(gone(epoch=3), timeout=30)),
            await refusal(hosts.ConfirmHostGone(pb.ConfirmHostGoneRequest(name="bb"), timeout=30)),
            await refusal(hosts.GetHost(pb.GetHostRequest(name="c"), timeout=30)),
            await refusal(hosts.ConfirmHostGone(pb.ConfirmHostGoneRequest(), timeout=30)),
        ]

    reasons = [error.reason for error in errors]

    assert reasons == ["HOST_REGISTERED", "NOT_FOUND", "NOT_FOUND", "INVALID_FIELDS"]


async def test_a_host_is_cordoned_drained_and_uncordoned_once_for_each_id(harness: Any) -> None:
    async with fleet(harness) as hosts:
        checked = await hosts.DrainHost(pb.DrainHostRequest(name="b", validate_only=True), timeout=30)
        cordoned = await hosts.CordonHost(
            pb.CordonHostRequest(name="b", message="new disk", request_id="c"), timeout=30
        )
        again = await hosts.CordonHost(
            pb.CordonHostRequest(name="b", message="new disk", request_id="c"), timeout=30
        )
        drained = await hosts.DrainHost(pb.DrainHostRequest(name="b"), timeout=30)
        ended = await hosts.UncordonHost(pb.UncordonHostRequest(name="b"), timeout=30)

    assert (checked.sequence, checked.host.HasField("cordon")) == (0, False)
    assert checked.daggers[0].stays.reason == "NO_OTHER_HOST"
    assert (cordoned.sequence, again.sequence) == (5, 5)
    assert (cordoned.host.cordon.message, cordoned.host.cordon.drains) == ("new disk", False)
    assert (drained.host.cordon.drains, drained.host.cordon.sequence) == (True, 6)
    assert not ended.host.HasField("cordon")


async def test_a_drain_says_what_another_host_that_is_heard_has_no_room_for(harness: Any) -> None:
    def register(host: str) -> events_pb2.HostRegistered:
        return events_pb2.HostRegistered(
            scheduler_id=host, host=host, agent=1, memory_mib=100, shared_checkpoints=True
        )

    await append(harness.heartbeats, telemetry_pb2.HostBeat(host="a", epoch=6))
    async with fleet(harness, register("b"), register("a")) as hosts:
        async with asyncio.timeout(20):
            while not (await hosts.GetHost(pb.GetHostRequest(name="a"), timeout=20)).host.HasField(
                "heard_time"
            ):
                pass  # each call lets the gateway hear
        answer = await hosts.GetHost(pb.GetHostRequest(name="b"), timeout=20)

    assert answer.host.room_left == 0
    assert answer.daggers[0].stays.reason == "MAX_MEMORY"
    assert answer.daggers[0].stays.detail.startswith("no other host takes it; of host a: ")


async def test_a_host_that_nobody_knows_is_not_cordoned(harness: Any, refusal: Refusal) -> None:
    async with fleet(harness) as hosts:
        errors = [
            await refusal(hosts.CordonHost(pb.CordonHostRequest(name="x"), timeout=30)),
            await refusal(hosts.DrainHost(pb.DrainHostRequest(), timeout=30)),
            await refusal(hosts.UncordonHost(pb.UncordonHostRequest(name="x"), timeout=30)),
        ]

    assert [error.reason for error in errors] == ["NOT_FOUND", "INVALID_FIELDS", "NOT_FOUND"]
