"""Detection of a consumer of aiokafka that is stuck, and not silent because nothing is written.

aiokafka asks the brokers that it knows, and its bootstrap addresses only until it knows any: when all have
moved to other addresses of that list, it never finds them (`AIOKafkaClient._metadata_update`). Its consumers
say nothing of it: they wait. So a silent one is compared with a fresh one, by the rule of `replacing.Spell`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from kafkaclient.connection import Connection, SecretUnreadable
from kafkaclient.replacing import Spell

_ANSWER_S: Final = 10.0


async def is_behind(connection: Connection, positions: Mapping[TopicPartition, int]) -> bool:
    """Tell whether a fresh consumer knows of records at or behind the positions of a silent one.

    False while Kafka does not answer the fresh one, either.
    """
    try:
        consumer = AIOKafkaConsumer(**connection.aiokafka(), group_id=None, enable_auto_commit=False)
        async with asyncio.timeout(_ANSWER_S):
            try:
                await consumer.start()
                ends = await consumer.end_offsets(positions)
            finally:
                await stop_consumer(consumer)
    except (KafkaError, OSError, TimeoutError, SecretUnreadable):
        return False
    return any(ends[partition] > position for partition, position in positions.items())


class Listener:
    """Notices that a consumer hears nothing of what is written to its partitions."""

    def __init__(self, connection: Connection, consumer: AIOKafkaConsumer) -> None:
        self._connection, self._consumer = connection, consumer
        self._silence = Spell()

    async def check(self, *, received: bool) -> None:
        """Compare the consumer with a fresh one once it has been silent for `replacing.PATIENCE_S`.

        received: whether records came since the last call.
        Raises: KafkaConnectionError when the consumer is stuck.
        """
        now = asyncio.get_running_loop().time()
        self._silence = Spell() if received else self._silence.fails(now)
        if not self._silence.due(now):
            return
        self._silence = Spell()
        try:
            async with asyncio.timeout(_ANSWER_S):
                partitions = self._consumer.assignment()
                positions = {place: await self._consumer.position(place) for place in partitions}
        except (KafkaError, TimeoutError):
            return  # it knows of no position: nothing can be missed
        if await is_behind(self._connection, positions):
            raise KafkaConnectionError("a consumer hears nothing of what is written")


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer. Raises: asyncio.CancelledError when the calling task is cancelled.

    aiokafka cancels its own tasks, and mixes that up with a cancellation of the caller, both ways.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        await consumer._client.close()  # noqa: SLF001 - what `stop` had left to do
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
