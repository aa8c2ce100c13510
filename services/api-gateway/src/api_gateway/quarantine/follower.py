"""Follow `daggers.quarantine` into its index: new records, retention, a recreated topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from aiokafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.place import Position, digest
from api_gateway.quarantine.topic import Message, PartitionBounds, QuarantineTopic, TopicReader
from api_gateway.state.database import in_thread
from chassis.logging import logger

AWAY: Final = (KafkaError, OSError, TimeoutError)
_RETRY_S: Final = 1.0
# After this time the topic is opened again: partitions may have been added, and records have expired.
_SESSION_S: Final = 300.0
# Longest wait of a call for records that are not in the index yet; without them its response is degraded.
_BEHIND_S: Final = 5.0


class TopicUnreadable(Exception):  # noqa: N818 - reads as what is wrong
    """The topic cannot be read now; the message is the reason."""


class QuarantineFollower:
    """Keeps the index at the end of the topic. A gateway serves calls before the topic is read."""

    def __init__(self, topic: QuarantineTopic, index: QuarantineIndex) -> None:
        self._topic, self._index = topic, index
        self._reader: TopicReader | None = None
        self._failure = ""
        self._next: dict[int, int] = {}
        self._doubted: dict[int, Position] = {}
        self._progress = asyncio.Event()
        self._bounds_readers = 0

    async def run(self) -> None:
        """Follow the topic until cancelled, and retry after errors of Kafka and of the database."""
        while True:
            try:
                await self._session()
            except (*AWAY, SQLAlchemyError) as error:
                failure = f"{type(error).__name__}: {error}"
                if not self._failure:
                    logger().warning("quarantine.follow_failed", detail=failure)
                self._failure = failure
            finally:
                self._wake()
            if self._failure:
                await asyncio.sleep(_RETRY_S)

    async def wait_until_caught_up(self, patience_s: float) -> int:
        """Wait until the index has all records that are in the topic now; return how many are still missing.

        Raises: TopicUnreadable where the topic does not answer within `patience_s`.
        """
        try:
            async with asyncio.timeout(patience_s):
                while self._reader is None:
                    if self._failure:
                        raise TopicUnreadable(self._failure)
                    await self._progress.wait()
                bounds = await self._read_bounds(self._reader)
        except TimeoutError as error:
            raise TopicUnreadable(f"no answer within {patience_s:g} s") from error
        except AWAY as error:
            raise TopicUnreadable(f"{type(error).__name__}: {error}") from error

        def missing() -> int:
            return sum(max(bounds_.end - self._next.get(number, 0), 0) for number, bounds_ in bounds.items())

        with suppress(TimeoutError):
            async with asyncio.timeout(min(_BEHIND_S, patience_s)):
                while missing():
                    await self._progress.wait()
        return missing()

    async def _read_bounds(self, reader: TopicReader) -> Mapping[int, PartitionBounds]:
        """Read the topic's bounds while counting the callers, so that the reader stays open for them."""
        self._bounds_readers += 1
        try:
            return await reader.bounds()
        finally:
            self._bounds_readers -= 1
            self._wake()

    @property
    def ends(self) -> dict[int, int]:
        """Offsets behind the last indexed record, by partition."""
        return dict(self._next)

    async def _session(self) -> None:
        clock = asyncio.get_running_loop()
        async with self._topic.open_reader() as reader:
            await self._begin(reader)
            self._reader, self._failure = reader, ""
            self._wake()
            until = clock.time() + _SESSION_S
            try:
                while clock.time() < until:
                    messages = await reader.read()
                    if messages and not await self._take(messages):
                        break
            finally:
                self._reader = None  # calls must not use a reader that is being closed
            while self._bounds_readers:
                await self._progress.wait()

    async def _begin(self, reader: TopicReader) -> None:
        """Continue each partition where the index ends, and drop what retention has removed."""
        positions = await in_thread(self._index.prepare)
        self._doubted = {}
        for number, bounds in (await reader.bounds()).items():
            position = positions.get(number, Position(0, b""))
            if position.next > bounds.end:
                await self._forget(number, position)
                position = Position(0, b"")
            await in_thread(lambda: self._index.expire(number, bounds.first))  # noqa: B023 - awaited
            self._next[number] = max(position.next, bounds.first)
            again = position.last and position.next > bounds.first
            if again:  # read the last indexed record again: another digest means a recreated topic
                self._doubted[number] = position
            reader.seek(number, position.next - 1 if again else self._next[number])

    async def _forget(self, partition: int, position: Position) -> None:
        logger().warning("quarantine.topic_recreated", partition=partition)
        await in_thread(lambda: self._index.forget(partition, position))

    async def _take(self, messages: Sequence[Message]) -> bool:
        """Write messages to the index; return False where the topic was recreated, and must
        be opened again.
        """
        new = []
        for message in messages:
            doubted = self._doubted.pop(message.partition, None)
            if doubted is None or message.offset >= doubted.next:
                new.append(message)
            elif digest(message) != doubted.last:
                await self._forget(message.partition, doubted)
                return False
        if new:
            await in_thread(lambda: self._index.write(new))
        for message in new:
            self._next[message.partition] = message.offset + 1
        self._wake()
        return True

    def _wake(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()
