"""Hosts of drivers that look at streams, and a control topic that says where they serve."""

from __future__ import annotations

import asyncio
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
RECORD = pb.SampledRecord(topic="bookings-1", partition=0, offset=7, size=3, json='{"city": "x"}')
RATE = 2.5
FIT = pb.MessageFit(message="shop.v1.Booking", score=1, example='{"city": "x"}')


class Host(host_pb2_grpc.HostServiceServicer):
    """A host whose Kafka lacks one topic and has one record; `answers` is asked first."""

    def __init__(
        self,
        answers: Callable[[], Any] = lambda: None,
        ids: Mapping[str, str] | None = None,
        record: pb.SampledRecord = RECORD,
        *more: pb.SampledRecord,
        slow: bool = False,
        fit: pb.MessageFit = FIT,
    ) -> None:
        """`ids` are what the Kafkas of clusters say that they are; `slow`: it never comes to records;
        `fit` is that of each topic.
        """
        self._records, self._slow = [record, *more], slow
        self._ids = ids or {}
        self._fit = fit
        self.asked: list[host_pb2.SampleHostStreamRequest] = []
        self.discovered: list[host_pb2.DiscoverHostTopicsRequest] = []
        self._answers = answers

    async def SampleHostStream(  # noqa: N802 - gRPC's name
        self, request: host_pb2.SampleHostStreamRequest, context: Any
    ) -> AsyncIterator[pb.SampleStreamResponse]:
        self.asked.append(request)
        if (waits := self._answers()) is not None:
            await waits
        missing = [MISSING] if MISSING.topic in request.stream.topics else []
        kafka = self._ids.get(request.stream.cluster, "")
        yield pb.SampleStreamResponse(
            missing_topics=missing, partitions=1, kafka_id=kafka, records_per_second=RATE
        )
        if self._slow:
            await asyncio.Event().wait()
        if request.last_records:
            yield pb.SampleStreamResponse(records=self._records, partitions_read=1, partitions=1)

    async def DiscoverHostTopics(  # noqa: N802 - gRPC's name
        self, request: host_pb2.DiscoverHostTopicsRequest, context: Any
    ) -> AsyncIterator[pb.DiscoverTopicsResponse]:
        self.discovered.append(request)
        yield pb.DiscoverTopicsResponse(topics_total=2)
        topics = [pb.DiscoveredTopic(topic=name, fits=[self._fit]) for name in ("bookings-1", "others")]
        yield pb.DiscoverTopicsResponse(topics=topics, topics_read=2, topics_total=2)


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
