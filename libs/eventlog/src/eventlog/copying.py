"""Copy between a topic and an exported file: read a topic whole, and restore a topic from a file.

A restored topic has every record at its old sequence, so that all that was derived from the log (projections,
generations, epochs, resume tokens) stays valid. This needs a topic that begins at sequence 0, and no other
writer, so all else is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from eventlog.admin import create_missing, open_admin_client
from eventlog.export import ExportEntry
from eventlog.log import LogError
from eventlog.reader import REQUEST_TIMEOUT_MS, TEMPORARY, PartitionReader, unavailable
from eventlog.topics import log_topic
from kafkaclient import Connection

_CHUNK: Final = 500
_LARGEST: Final = 16 * 1024 * 1024
_SETTLED_S: Final = 30.0
_AGAIN_S: Final = 0.2
_ANEW: Final = "To write the topic anew from the file, restore with --recreate"

Entries = Callable[[], Iterable[ExportEntry]]
"""Opens the messages to restore, contiguous from sequence 0: called once for each pass over them."""


class RestoreRefused(LogError):  # noqa: N818 - reads as what happened
    """The topic cannot become a copy of the file. Nothing was written unless the sentence says so."""


@dataclass(frozen=True, slots=True)
class RestoreCounts:
    """Records that a restore found and wrote, or would write."""

    existing: int
    """Records that the topic had already, equal to the file's."""
    written: int


async def first_sequence(connection: Connection, topic: str) -> int:
    """Look up the first sequence of a topic. Raises: LogUnavailable; LogError when there is no such topic."""
    async with open_admin_client(connection) as admin:
        if not await _partitions(admin, topic):
            raise LogError(f"Kafka at {connection.bootstrap_servers} has no topic {topic}")
    async with PartitionReader(connection, TopicPartition(topic, 0)) as reader:
        return (await reader.bounds())[0]


async def read_messages(connection: Connection, topic: str) -> AsyncGenerator[ExportEntry, None]:
    """Yield all messages of a topic up to its end at the call. Raises: LogUnavailable, LogDamaged."""
    async with PartitionReader(connection, TopicPartition(topic, 0)) as reader:
        sequence, last = await reader.bounds()
        reader.seek(sequence)
        while sequence <= last:
            for message in await reader.read_to(last):
                if message.offset > last:
                    return
                yield ExportEntry(
                    message.offset,
                    message.timestamp,
                    message.key,
                    tuple(message.headers),
                    message.value,
                )
            sequence = (
                await reader.position()
            )  # not the last offset + 1: a transaction's marker is no message


async def retention_problems(connection: Connection, topic: str) -> list[str]:
    """List what is wrong with a topic's partitions and configuration for a log. Raises: LogUnavailable."""
    async with open_admin_client(connection) as admin:
        return await _retention_problems(admin, topic)


async def restore(
    connection: Connection, topic: str, entries: Entries, *, recreate: bool = False, dry_run: bool = False
) -> RestoreCounts:
    """Append the entries that a topic lacks, each at its sequence; create the topic if it is missing.

    The topic's records must be the beginning of `entries`; `recreate` deletes the topic first, whatever it
    holds. Nobody else may write meanwhile. Everything is read back at the end. `dry_run`: only count.

    Raises: RestoreRefused; LogUnavailable, after which the same call goes on; LogDamaged.
    """
    async with open_admin_client(connection) as admin:
        exists = bool(await _partitions(admin, topic))
        if dry_run and (recreate or not exists):
            return RestoreCounts(0, sum(1 for _ in entries()))
        if exists and recreate:
            await _delete(admin, topic)
        await create_missing(admin, (log_topic(topic),))
        if problems := await _retention_problems(admin, topic):
            raise RestoreRefused(f"topic {topic} is not kept as a log: {'; '.join(problems)}. {_ANEW}")
    existing = await _count_existing(connection, topic, entries())
    rest = islice(entries(), existing, None)
    if dry_run:
        return RestoreCounts(existing, sum(1 for _ in rest))
    written = await _append(connection, topic, rest)
    if await _count_existing(connection, topic, entries()) != existing + written:
        raise RestoreRefused(f"topic {topic} does not hold what was written to it. {_ANEW}")
    return RestoreCounts(existing, written)


async def _count_existing(connection: Connection, topic: str, entries: Iterable[ExportEntry]) -> int:
    """Count the topic's messages, and compare each with the file's. Raises: RestoreRefused if one differs."""
    count, expected = 0, iter(entries)
    async with aclosing(read_messages(connection, topic)) as existing:
        async for message in existing:
            if message.sequence != count:
                gap = (
                    f"begins at sequence {message.sequence}"
                    if not count
                    else f"holds nothing at sequence {count}"
                )
                raise RestoreRefused(f"topic {topic} {gap}: its records are lost. {_ANEW}")
            entry = next(expected, None)
            if entry is None:
                raise RestoreRefused(
                    f"topic {topic} goes on behind sequence {count - 1}, where the file ends: what it holds"
                    " more would be lost. Export it, and look which of the two is meant"
                )
            if (entry.key, entry.headers, entry.value) != (message.key, message.headers, message.value):
                raise RestoreRefused(
                    f"topic {topic} holds another record at sequence {count} than the file. {_ANEW}"
                )
            count += 1
    if not count and (first := await first_sequence(connection, topic)):
        raise RestoreRefused(f"topic {topic} is empty but goes on at sequence {first}. {_ANEW}")
    return count


async def _append(connection: Connection, topic: str, entries: Iterator[ExportEntry]) -> int:
    """Append messages, and check that each gets its sequence; return how many were written."""
    producer = AIOKafkaProducer(
        **connection.aiokafka(),
        acks="all",
        enable_idempotence=True,
        max_request_size=_LARGEST,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    written = 0
    try:
        await producer.start()
        while chunk := list(islice(entries, _CHUNK)):
            sent = [
                await producer.send(
                    topic,
                    entry.value,
                    key=entry.key,
                    headers=list(entry.headers),
                    partition=0,
                    timestamp_ms=entry.timestamp_ms,
                )
                for entry in chunk
            ]
            for entry, metadata in zip(chunk, await asyncio.gather(*sent), strict=True):
                # -1: a repeated send that the broker had already; the read-back at the end checks it
                if metadata.offset not in (entry.sequence, -1):
                    raise RestoreRefused(
                        f"somebody else writes to topic {topic}: sequence {entry.sequence} was taken. Stop"
                        f" every gateway, scheduler and health monitor. {_ANEW}"
                    )
                written += 1
    except TEMPORARY as error:
        raise unavailable(connection, error) from error
    finally:
        await producer.stop()
    return written


async def _partitions(admin: AIOKafkaAdminClient, topic: str) -> int:
    """Count the partitions of a topic; 0 when there is no such topic."""
    if topic not in await admin.list_topics():
        return 0
    (described,) = await admin.describe_topics([topic])
    return len(described["partitions"])


async def _retention_problems(admin: AIOKafkaAdminClient, topic: str) -> list[str]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    async with asyncio.timeout(_SETTLED_S):
        while True:
            (answer,) = await admin.describe_configs([resource])
            ((code, _, _, _, config),) = answer.resources
            if code == 0:
                break
            await asyncio.sleep(_AGAIN_S)  # brokers get the metadata of a new topic a little later
    settings = {entry[0]: entry[1] for entry in config}
    problems = [
        f"{name} is {settings.get(name)}, not {wanted}"
        for name, wanted in log_topic(topic).config.items()
        if settings.get(name) != wanted
    ]
    partitions = await _partitions(admin, topic)
    return problems if partitions == 1 else [f"it has {partitions} partitions, not one", *problems]


async def _delete(admin: AIOKafkaAdminClient, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    async with asyncio.timeout(_SETTLED_S):
        await admin.delete_topics([topic])
        while topic in await admin.list_topics():  # noqa: ASYNC110 - Kafka tells nobody; it has to be asked
            await asyncio.sleep(_AGAIN_S)
