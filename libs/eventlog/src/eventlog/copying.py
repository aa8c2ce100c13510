"""Between a topic and an exported file: read all of a topic as it stands, and write a topic from a file.

A restored topic has every record at the sequence it had: what was built on the log (projections, generations,
epochs, resume tokens) stays true. That works only from sequence 0 on and only alone, so all else is refused.
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

from eventlog.admin import create_missing, started
from eventlog.export import Entry
from eventlog.log import LogError
from eventlog.reader import REQUEST_TIMEOUT_MS, TEMPORARY, Reader, unavailable
from eventlog.topics import forever
from kafkaclient import Connection

_CHUNK: Final = 500
_LARGEST: Final = 16 * 1024 * 1024
_SETTLED_S: Final = 30.0
_AGAIN_S: Final = 0.2
_ANEW: Final = "To write the topic anew from the file, restore with --recreate"

Entries = Callable[[], Iterable[Entry]]
"""The messages to be restored, contiguous from sequence 0; asked for anew for each pass over them."""


class RestoreRefused(LogError):  # noqa: N818 - reads as what happened
    """The topic cannot become what the file says. Nothing was written unless the sentence says so."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did, or would do."""

    kept: int
    """Records that stood in the topic already, the same as in the file."""
    written: int


async def first_sequence(connection: Connection, topic: str) -> int:
    """Where a topic begins. Raises: LogUnavailable; LogError when there is no such topic."""
    async with started(connection) as admin:
        if not await _partitions(admin, topic):
            raise LogError(f"Kafka at {connection.bootstrap_servers} has no topic {topic}")
    async with Reader(connection, TopicPartition(topic, 0)) as reader:
        return (await reader.bounds())[0]


async def messages(connection: Connection, topic: str) -> AsyncGenerator[Entry, None]:
    """Everything in a topic up to its end at the call. Raises: LogUnavailable, LogDamaged."""
    async with Reader(connection, TopicPartition(topic, 0)) as reader:
        sequence, last = await reader.bounds()
        reader.seek(sequence)
        while sequence <= last:
            for message in await reader.read_to(last):
                if message.offset > last:
                    return
                yield Entry(
                    message.offset, message.timestamp, message.key, tuple(message.headers), message.value
                )
            sequence = await reader.position()  # also behind a transaction's mark, which is no message


async def unkept(connection: Connection, topic: str) -> list[str]:
    """Why a topic is no log that lasts: what is wrong with how it is kept. Raises: LogUnavailable."""
    async with started(connection) as admin:
        return await _unkept(admin, topic)


async def restore(
    connection: Connection, topic: str, entries: Entries, *, recreate: bool = False, dry_run: bool = False
) -> Restored:
    """Write what a topic lacks of `entries`, each at its sequence; a missing topic is created.

    What the topic holds must be the beginning of `entries`; `recreate` deletes it first, whatever it holds.
    Nobody else may write meanwhile. Everything is read back at the end.

    Raises: RestoreRefused; LogUnavailable, after which the same call goes on; LogDamaged.
    """
    async with started(connection) as admin:
        exists = bool(await _partitions(admin, topic))
        if dry_run and (recreate or not exists):
            return Restored(0, sum(1 for _ in entries()))
        if exists and recreate:
            await _delete(admin, topic)
        await create_missing(admin, (forever(topic),))
        if wrong := await _unkept(admin, topic):
            raise RestoreRefused(f"topic {topic} is not kept as a log: {'; '.join(wrong)}. {_ANEW}")
    kept = await _same(connection, topic, entries())
    rest = islice(entries(), kept, None)
    if dry_run:
        return Restored(kept, sum(1 for _ in rest))
    written = await _append(connection, topic, rest)
    if await _same(connection, topic, entries()) != kept + written:
        raise RestoreRefused(f"topic {topic} does not hold what was written to it. {_ANEW}")
    return Restored(kept, written)


async def _same(connection: Connection, topic: str, entries: Iterable[Entry]) -> int:
    """How many messages the topic holds, all of which are those of the file. Raises: RestoreRefused."""
    count, expected = 0, iter(entries)
    async with aclosing(messages(connection, topic)) as standing:
        async for kept in standing:
            if kept.sequence != count:
                what = (
                    f"begins at sequence {kept.sequence}"
                    if not count
                    else f"holds nothing at sequence {count}"
                )
                raise RestoreRefused(f"topic {topic} {what}: its records are lost. {_ANEW}")
            entry = next(expected, None)
            if entry is None:
                raise RestoreRefused(
                    f"topic {topic} goes on behind sequence {count - 1}, where the file ends: what it holds"
                    " more would be lost. Export it, and look which of the two is meant"
                )
            if (entry.key, entry.headers, entry.value) != (kept.key, kept.headers, kept.value):
                raise RestoreRefused(
                    f"topic {topic} holds another record at sequence {count} than the file. {_ANEW}"
                )
            count += 1
    if not count and (first := await first_sequence(connection, topic)):
        raise RestoreRefused(f"topic {topic} is empty but goes on at sequence {first}. {_ANEW}")
    return count


async def _append(connection: Connection, topic: str, entries: Iterator[Entry]) -> int:
    """Write each message, and see that it gets its sequence; answers how many."""
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
                # -1: the broker had it already when it was asked again; reading back will tell
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
    """How many partitions a topic has; 0 when there is none."""
    if topic not in await admin.list_topics():
        return 0
    (described,) = await admin.describe_topics([topic])
    return len(described["partitions"])


async def _unkept(admin: AIOKafkaAdminClient, topic: str) -> list[str]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    async with asyncio.timeout(_SETTLED_S):
        while True:
            (answer,) = await admin.describe_configs([resource])
            ((code, _, _, _, config),) = answer.resources
            if code == 0:
                break
            await asyncio.sleep(_AGAIN_S)  # a broker hears of a new topic a little later
    settings = {entry[0]: entry[1] for entry in config}
    wrong = [
        f"{name} is {settings.get(name)}, not {wanted}"
        for name, wanted in forever(topic).config.items()
        if settings.get(name) != wanted
    ]
    partitions = await _partitions(admin, topic)
    return wrong if partitions == 1 else [f"it has {partitions} partitions, not one", *wrong]


async def _delete(admin: AIOKafkaAdminClient, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    async with asyncio.timeout(_SETTLED_S):
        await admin.delete_topics([topic])
        while topic in await admin.list_topics():  # noqa: ASYNC110 - Kafka tells nobody; it has to be asked
            await asyncio.sleep(_AGAIN_S)
