"""Hosts of drivers that look at streams, and a control topic that says where they serve."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, host_pb2_grpc

from chassis.interceptors import interceptor
from eventlog import Draft
from eventlog.memory import MemoryLog

pb = gateway_pb2
MISSING = pb.MissingTopic(topic="bookings-2", suggestion="bookings-1")
RECORD = pb.SampledRecord(topic="bookings-1", partition=0, offset=7, json='{"city": "x"}')


class Host(host_pb2_grpc.HostServiceServicer):
    """A host whose Kafka lacks one topic and has one record; `answers` is asked first."""

    def __init__(
        self, answers: Callable[[], Any] = lambda: None, ids: Mapping[str, str] | None = None
    ) -> None:
        """`ids` are what the Kafkas of clusters say that they are."""
        self._ids = ids or {}
        self.asked: list[host_pb2.SampleHostStreamRequest] = []
        self._answers = answers

    async def SampleHostStream(  # noqa: N802 - gRPC's name
        self, request: host_pb2.SampleHostStreamRequest, context: Any
    ) -> AsyncIterator[pb.SampleStreamResponse]:
        self.asked.append(request)
        if (waits := self._answers()) is not None:
            await waits
        missing = [MISSING] if MISSING.topic in request.stream.topics else []
        kafka = self._ids.get(request.stream.cluster, "")
        yield pb.SampleStreamResponse(missing_topics=missing, partitions=1, kafka_id=kafka)
        if request.last_records:
            yield pb.SampleStreamResponse(records=[RECORD], partitions_read=1, partitions=1)


@asynccontextmanager
async def serving(*hosts: tuple[str, Host]) -> AsyncIterator[MemoryLog]:
    """A control topic in which these hosts have said where they serve; the first leads."""
    log = MemoryLog()
    leads = events_pb2.SchedulerStarted(scheduler_id="s", host=hosts[0][0] if hosts else "a")
    await log.append(Draft("leads", "/t", "s", datetime.now(UTC), leads))
    servers = []
    for name, host in hosts:
        server = grpc.aio.server(interceptors=[interceptor(host_pb2.DESCRIPTOR)])
        host_pb2_grpc.add_HostServiceServicer_to_server(host, server)
        at = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        servers.append(server)
        said = events_pb2.HostServing(scheduler_id="s", host=name, address=at)
        await log.append(Draft(f"at {name}", "/t", "s", datetime.now(UTC), said))
    yield log
    for server in servers:
        await server.stop(None)
