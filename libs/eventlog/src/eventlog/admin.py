"""Create topics that are missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from chassis.logging import logger
from eventlog.log import LogError, LogRefused, LogUnavailable
from eventlog.topics import TOPICS, Topic
from kafkaclient import Connection
from kafkaclient.errors import is_refusal, sentence, underlying

_TOPIC_ALREADY_EXISTS: Final = 36
_RETRY_S: Final = 2.0


async def await_topics(
    connection: Connection, stop: asyncio.Event, topics: tuple[Topic, ...] = TOPICS
) -> bool:
    """Create the missing topics as soon as Kafka answers; False: `stop` was set before.

    Each new reason to wait is logged once. Raises: LogRefused when a setting is wrong; LogError when
    Kafka refuses a topic.
    """
    stopping = asyncio.create_task(stop.wait())
    logged_reason = ""
    try:
        while not stop.is_set():
            creating = asyncio.create_task(ensure_topics(connection, topics))
            await asyncio.wait((creating, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not creating.done():
                creating.cancel()
                await asyncio.gather(creating, return_exceptions=True)
                break
            try:
                creating.result()
            except LogRefused:
                raise
            except LogUnavailable as error:
                if str(error) != logged_reason:
                    logged_reason = str(error)
                    logger().warning("kafka.awaited", detail=logged_reason)
            else:
                return True
            await asyncio.wait((stopping,), timeout=_RETRY_S)
    finally:
        stopping.cancel()
    return False


async def ensure_topics(connection: Connection, topics: tuple[Topic, ...] = TOPICS) -> None:
    """Create the missing topics, with the broker's replication defaults.

    Raises: LogUnavailable when Kafka does not answer; LogError when it refuses.
    """
    async with open_admin_client(connection) as admin:
        await create_missing(admin, topics)


@asynccontextmanager
async def open_admin_client(connection: Connection) -> AsyncGenerator[AIOKafkaAdminClient, None]:
    """Start an admin client for the block.

    Errors of Kafka in the block are translated, too. Raises: LogRefused when Kafka refuses the settings;
    LogUnavailable.
    """
    admin = None
    try:
        admin = AIOKafkaAdminClient(**connection.aiokafka())
        await admin.start()
        yield admin
    except (KafkaError, OSError, TimeoutError) as error:
        cause = await underlying(connection, error)
        kind = LogRefused if is_refusal(cause) else LogUnavailable
        raise kind(sentence(connection, cause)) from error
    finally:
        if admin is not None:
            await admin.close()


async def create_missing(admin: AIOKafkaAdminClient, topics: tuple[Topic, ...]) -> None:
    """Create the missing topics. Raises: LogError when the broker refuses one; KafkaError."""
    wanted = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=-1,
            replica_assignments={},  # aiokafka takes -1, the broker's default, only beside this
            topic_configs=dict(topic.config),
        )
        for topic in topics
    ]
    # An existing topic does not raise: its code stands in the answer.
    answer = await admin.create_topics(wanted)
    for name, code, *_ in answer.topic_errors:
        if code not in (0, _TOPIC_ALREADY_EXISTS):
            reason = for_code(code)
            raise LogError(f"Kafka refuses to create topic {name}: {reason.message} ({reason.description})")
