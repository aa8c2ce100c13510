"""The shell: topics in, points out.

Nothing is kept between two runs. Every start reads the topics from their beginning and writes the same points
over the ones that stand there; what cannot be written is written again until it can.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeAlias

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write.point import Point
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from urllib3.exceptions import HTTPError

from chassis.logging import logger, unit_of_work
from eventlog import Record, read_record
from eventlog.heartbeats import unpack
from eventlog.reader import client, unavailable
from kafkaclient import Connection
from kafkaclient.behind import Listener

Projection: TypeAlias = Callable[[Record], Point | None]
Write: TypeAlias = Callable[[Sequence[Point]], None]

_POLL_MS: Final = 1_000
_RECORDS: Final = 5_000
_TIMEOUT_MS: Final = 10_000
_RETRY_S: Final = 5.0


class DatabaseUnavailable(Exception):  # noqa: N818 - reads as what is the case
    """InfluxDB takes nothing. One sentence."""


@dataclass(frozen=True, slots=True)
class Database:
    """A bucket of InfluxDB, and the token that may write to it."""

    url: str
    org: str
    bucket: str
    token: str

    def writer(self) -> Write:
        """Build a function that writes points, and raises DatabaseUnavailable when it cannot."""
        client = InfluxDBClient(url=self.url, token=self.token, org=self.org, timeout=_TIMEOUT_MS)
        api = client.write_api(write_options=SYNCHRONOUS)

        def write(points: Sequence[Point]) -> None:
            try:
                api.write(bucket=self.bucket, org=self.org, record=points)
            except ApiException as answer:
                raise DatabaseUnavailable(
                    f"InfluxDB at {self.url} answers {answer.status} {answer.reason} for {self.bucket!r}"
                ) from None
            except (HTTPError, OSError) as silence:
                raise DatabaseUnavailable(
                    f"InfluxDB at {self.url} does not answer: {type(silence).__name__}"
                ) from None

        return write


async def project(connection: Connection, topics: Mapping[str, Projection], write: Write) -> None:
    """Write the points of these topics, from their beginning, for ever. Raises: LogUnavailable."""
    batches = read(connection, list(topics))
    async with aclosing(batches):
        async for batch in batches:
            points = [
                point
                for topic, packed in batch
                for record in unpack(packed)
                if (point := topics[topic](record)) is not None
            ]
            with unit_of_work("projected", records=len(batch), points=len(points)):
                if points:
                    await _write_patiently(write, points)


async def _write_patiently(write: Write, points: Sequence[Point]) -> None:
    """Write points, again and again while the database takes nothing; why is logged when that changes."""
    logged = ""
    while True:
        try:
            return await asyncio.to_thread(write, points)
        except DatabaseUnavailable as error:
            if str(error) != logged:
                logged = str(error)
                logger().warning("influxdb.awaited", detail=logged)
        await asyncio.sleep(_RETRY_S)


async def read(
    connection: Connection, topics: Iterable[str]
) -> AsyncGenerator[list[tuple[str, Record]], None]:
    """Yield the topics' records from the first on, and then those that come, as batches of (topic, record).

    Raises: LogUnavailable.
    """
    # Without a group nothing is committed, and every start is at the earliest record.
    consumer = AIOKafkaConsumer(
        *topics, **client(connection), enable_auto_commit=False, auto_offset_reset="earliest"
    )
    try:
        await consumer.start()
        listener = Listener(connection, consumer)
        while True:
            fetched = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS)
            await listener.check(received=bool(fetched))
            batch = [
                (message.topic, read_record(message.offset, message.headers, message.value))
                for messages in fetched.values()
                for message in messages
            ]
            if batch:
                yield batch
    except (KafkaError, OSError) as error:
        raise unavailable(connection, error) from error
    finally:
        await consumer.stop()
