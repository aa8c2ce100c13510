"""The logs of sinks, topics that drivers make: those of daggers that are deleted are deleted with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from chassis.logging import logger
from daggerspec.topics import SPOOL
from eventlog.admin import open_admin_client
from kafkaclient import Connection

_GONE: Final = frozenset({0, 3})
"""Answers of Kafka to a deletion: done, and no such topic."""


async def delete_logs(
    connection: Connection, is_deleted: Callable[[str], bool], confirm: Callable[[], Awaitable[None]]
) -> None:
    """Delete the logs of the sinks of daggers that are deleted.

    is_deleted: tells it of a dagger's name. confirm: brings that up to date once there is something to
    delete, for a name may be used again; what it raises ends this.

    Raises: LogError.
    """
    async with open_admin_client(connection) as admin:
        topics = [topic for topic in await admin.list_topics() if topic.startswith(SPOOL)]
        leftovers = sorted(topic for topic in topics if is_deleted(dagger_of(topic)))
        if leftovers:
            await confirm()
            leftovers = [topic for topic in leftovers if is_deleted(dagger_of(topic))]
        if not leftovers:
            return
        answer = await admin.delete_topics(leftovers)
        for topic, code, *_ in answer.topic_error_codes:
            if code in _GONE:
                logger().info("spool.deleted", topic=topic)
            else:
                logger().warning("spool.not_deleted", topic=topic, code=code)


def dagger_of(topic: str) -> str:
    """Return the dagger that a log belongs to."""
    return topic.removeprefix(SPOOL).partition(".")[0]
