"""A host that shows samples of streams, and a gateway that knows it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, host_pb2_grpc

from chassis.binding import is_loopback
from chassis.endpoint import Endpoint
from eventlog import Draft
from eventlog.memory import MemoryLog

RECORDS = [
    gateway_pb2.SampledRecord(
        topic="orders", partition=1, offset=41, key=b"k\xff", size=9, json='{"city": "a\u202eb", "n": 2.50}'
    ),
    gateway_pb2.SampledRecord(
        topic="orders", partition=0, offset=7, size=1234, problem="it does not decode as shop.v1.Order"
    ),
]

MISSING = gateway_pb2.MissingTopic(topic="ordrs", suggestion="orders")


class Host(host_pb2_grpc.HostServiceServicer):
    """A host whose Kafka lacks the topic `ordrs`."""

    async def SampleHostStream(  # noqa: N802 - gRPC's name
        self, request: host_pb2.SampleHostStreamRequest, context: Any
    ) -> AsyncIterator[gateway_pb2.SampleStreamResponse]:
        missing = [MISSING] if MISSING.topic in request.stream.topics else []
        yield gateway_pb2.SampleStreamResponse(missing_topics=missing, partitions=2)
        yield gateway_pb2.SampleStreamResponse(partitions=2, records_per_second=1234.56)
        records = RECORDS[: request.last_records]
        yield gateway_pb2.SampleStreamResponse(records=records, partitions_read=2, partitions=2, cut="cut")

    async def DiscoverHostTopics(  # noqa: N802 - gRPC's name
        self, request: host_pb2.DiscoverHostTopicsRequest, context: Any
    ) -> AsyncIterator[gateway_pb2.DiscoverTopicsResponse]:
        if list(request.request.topics) == ["text"]:
            text = gateway_pb2.DiscoveredTopic(topic="text", partitions=1, offsets=10, sampled=10)
            yield gateway_pb2.DiscoverTopicsResponse(topics=[text], topics_read=1, topics_total=1)
            return
        topic = gateway_pb2.DiscoveredTopic(
            topic="orders", partitions=2, offsets=12_345, records_per_second=1.5, sampled=10,
            retention={"seconds": 604_800},
        )  # fmt: skip
        topic.fits.add(message="shop.v1.Order", score=1, example='{"n": 2.50}')
        topic.fits.add(message="shop.v1.Other", score=0.75, problem="25% of their bytes are no fields of it")
        empty = gateway_pb2.DiscoveredTopic(topic="quiet", partitions=1)
        yield gateway_pb2.DiscoverTopicsResponse(topics=[topic, empty], topics_read=2, topics_total=2)


def served(host: Host) -> Iterator[str]:
    """Its address while it serves, in a thread of its own."""
    address: Future[str] = Future()
    stop: Future[Callable[[], object]] = Future()

    async def serve() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.set_result(lambda: loop.call_soon_threadsafe(stopped.set))
        server = grpc.aio.server()
        host_pb2_grpc.add_HostServiceServicer_to_server(host, server)
        address.set_result(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        await server.start()
        await stopped.wait()
        await server.stop(None)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    yield address.result(60)
    stop.result(60)()
    thread.join(60)


@pytest.fixture(scope="module")
def gateway(serve: Callable[..., int], host: str) -> str:
    """Address of a gateway that knows the host."""
    assert is_loopback(host)
    log = MemoryLog()
    said = events_pb2.HostServing(scheduler_id="s", host="", address=host)
    asyncio.run(log.append(Draft("h", "/t", "host", datetime.now(UTC), said)))
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), lambda: log)}"
