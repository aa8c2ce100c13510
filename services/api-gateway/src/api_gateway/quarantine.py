"""QuarantineService: the newest records a dagger has set aside, read backwards from `daggers.quarantine`.

The topic is not folded: it holds raw records for two weeks, for people to look at. A call reads a bounded
part of it, so what it answers is the newest, not all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from heapq import nlargest
from typing import TYPE_CHECKING, Final

import grpc
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, telemetry_pb2

from api_gateway import validation
from api_gateway.reader import Reader, fitting
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context
from chassis.logging import note
from daggerspec import fields
from eventlog import read_record, topics
from kafkaclient import Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_PAGE: Final = 100
_MAX_PAGE: Final = 1_000
_MAX_SCANNED: Final = 20_000
_STEP: Final = 500

Quarantined = telemetry_pb2.Quarantined
Newest = Callable[[str, int], Awaitable[list[Quarantined]]]
"""The newest records of a dagger, newest first, at most so many. Raises: KafkaError, OSError."""


class QuarantineService(gateway_pb2_grpc.QuarantineServiceServicer):
    """Records that were set aside."""

    def __init__(self, reader: Reader, newest: Newest) -> None:
        self._reader = reader
        self._newest = newest

    async def ListQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListQuarantinedRequest, context: Context
    ) -> gateway_pb2.ListQuarantinedResponse:
        """The newest records of one dagger, newest first."""
        violations = [
            *fields.name("dagger", request.dagger),
            *validation.page_size("page_size", request.page_size),
        ]
        if violations:
            raise invalid(violations)
        name = request.dagger
        dagger = (await self._reader.state(context, 0)).living(name)
        if dagger is None:
            raise ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", f"there is no dagger {name}")
        try:
            found = await self._newest(name, min(request.page_size or _PAGE, _MAX_PAGE))
        except (KafkaError, OSError, TimeoutError) as error:
            raise ApiError(
                grpc.StatusCode.UNAVAILABLE,
                "QUARANTINE_UNAVAILABLE",
                f"topic {topics.QUARANTINE} cannot be read now: {type(error).__name__}",
            ) from error
        # an earlier dagger of this name had its own records; its launches came before this one was created
        found = [record for record in found if record.generation > dagger.create_sequence]
        note(records=len(found))
        return gateway_pb2.ListQuarantinedResponse(records=fitting(found))


class KafkaQuarantine:
    """Reads all partitions backwards: which one a dagger's key goes to is for the writer to say."""

    def __init__(self, connection: Connection, topic: str = topics.QUARANTINE) -> None:
        self._connection = connection
        self._topic = topic

    async def newest(self, dagger: str, limit: int) -> list[Quarantined]:
        """The newest records of a dagger, newest first. Raises: KafkaError."""
        async with self._consumer() as consumer:
            partitions = [
                TopicPartition(self._topic, number)
                for number in sorted(consumer.partitions_for_topic(self._topic) or ())
            ]
            first = await consumer.beginning_offsets(partitions)
            last = await consumer.end_offsets(partitions)
            budget = _MAX_SCANNED // max(len(partitions), 1)
            found: list[tuple[int, int, Quarantined]] = []
            for partition in partitions:
                start = max(first[partition], last[partition] - budget)
                found += await _backwards(consumer, partition, dagger, limit, start, last[partition])
        return [record for *_, record in nlargest(limit, found, key=lambda each: each[:2])]

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            self._topic,
            **self._connection.aiokafka(),
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=10_000,
        )
        try:
            await consumer.start()
            consumer.unsubscribe()  # its partitions are known now; each is read by itself
            yield consumer
        finally:
            await consumer.stop()


async def _backwards(
    consumer: AIOKafkaConsumer, partition: TopicPartition, dagger: str, limit: int, start: int, end: int
) -> list[tuple[int, int, Quarantined]]:
    """(Kafka timestamp, offset, record) of the newest `limit` of a dagger in [start, end)."""
    found: list[tuple[int, int, Quarantined]] = []
    consumer.assign([partition])
    while start < end and len(found) < limit:
        lower = max(start, end - _STEP)
        consumer.seek(partition, lower)
        position = lower
        while position < end:
            fetched = await consumer.getmany(partition, timeout_ms=5_000)
            messages = fetched.get(partition, [])
            if not messages:
                raise KafkaError(f"{partition.topic} gave nothing at offset {position}")
            for message in messages:
                position = message.offset + 1
                if message.offset >= end or message.key != dagger.encode():
                    continue
                record = read_record(message.offset, message.headers, message.value).message
                if isinstance(record, Quarantined):
                    found.append((message.timestamp, message.offset, record))
        end = lower
    return nlargest(limit, found, key=lambda each: each[:2])
