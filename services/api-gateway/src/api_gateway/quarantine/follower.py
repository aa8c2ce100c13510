"""Follows `daggers.quarantine` into its index: what comes, what retention takes, a topic made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from aiokafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.place import Position, digest
from api_gateway.quarantine.topic import Bounds, Message, QuarantineTopic, TopicReader
from chassis.logging import logger

AWAY: Final = (KafkaError, OSError, TimeoutError)
_RETRY_S: Final = 1.0
# Then the topic is opened anew: it may have more partitions, and fewer records.
_SESSION_S: Final = 300.0
# So long an answer waits for records that are not in the index yet; without them it is degraded.
_BEHIND_S: Final = 5.0
T = TypeVar("T")


class Unread(Exception):  # noqa: N818 - reads as what is wrong
    """The topic cannot be read now; says why."""


class QuarantineFollower:
    """Keeps the index at the end of the topic. A gateway serves before it has read it."""

    def __init__(self, topic: QuarantineTopic, index: QuarantineIndex) -> None:
        self._topic, self._index = topic, index
        self._reader: TopicReader | None = None
        self._failure = ""
        self._next: dict[int, int] = {}
        self._doubted: dict[int, Position] = {}
        self._moved = asyncio.Event()
        self._asking = 0

    async def run(self) -> None:
        """Follow for ever; what does not answer is asked again."""
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

    async def caught_up(self, patience_s: float) -> int:
        """Wait until everything is in the index that stands in the topic now; answers how much is not, yet.

        Raises: Unread when the topic does not answer within `patience_s`.
        """
        try:
            async with asyncio.timeout(patience_s):
                while self._reader is None:
                    if self._failure:
                        raise Unread(self._failure)
                    await self._moved.wait()
                bounds = await self._asked(self._reader)
        except TimeoutError as error:
            raise Unread(f"no answer within {patience_s:g} s") from error
        except AWAY as error:
            raise Unread(f"{type(error).__name__}: {error}") from error

        def missing() -> int:
            return sum(max(bounds_.end - self._next.get(number, 0), 0) for number, bounds_ in bounds.items())

        with suppress(TimeoutError):
            async with asyncio.timeout(min(_BEHIND_S, patience_s)):
                while missing():
                    await self._moved.wait()
        return missing()

    async def _asked(self, reader: TopicReader) -> Mapping[int, Bounds]:
        """What the topic holds. Raises: as its reader."""
        self._asking += 1
        try:
            return await reader.bounds()
        finally:
            self._asking -= 1
            self._wake()

    @property
    def ends(self) -> dict[int, int]:
        """Of each partition the offset behind the last record that is in the index."""
        return dict(self._next)

    async def _session(self) -> None:
        clock = asyncio.get_running_loop()
        async with self._topic.opened() as reader:
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
                self._reader = None  # a reader that is being closed answers nobody
            while self._asking:
                await self._moved.wait()

    async def _begin(self, reader: TopicReader) -> None:
        """Go on from what the index holds of each partition, and drop what the topic holds no more."""
        held = await _in_thread(self._index.prepare)
        self._doubted = {}
        for number, bounds in (await reader.bounds()).items():
            position = held.get(number, Position(0, b""))
            if position.next > bounds.end:
                await self._forget(number, position)
                position = Position(0, b"")
            await _in_thread(lambda: self._index.expire(number, bounds.first))  # noqa: B023 - awaited
            self._next[number] = max(position.next, bounds.first)
            again = position.last and position.next > bounds.first
            if again:  # the last record is read again, to see that it is the one that was read
                self._doubted[number] = position
            reader.seek(number, position.next - 1 if again else self._next[number])

    async def _forget(self, partition: int, position: Position) -> None:
        logger().warning("quarantine.topic_recreated", partition=partition)
        await _in_thread(lambda: self._index.forget(partition, position))

    async def _take(self, messages: Sequence[Message]) -> bool:
        """Take messages into the index; False when the topic was made anew, and is to be begun again."""
        new = []
        for message in messages:
            doubted = self._doubted.pop(message.partition, None)
            if doubted is None or message.offset >= doubted.next:
                new.append(message)
            elif digest(message) != doubted.last:
                await self._forget(message.partition, doubted)
                return False
        if new:
            await _in_thread(lambda: self._index.write(new))
        for message in new:
            self._next[message.partition] = message.offset + 1
        self._wake()
        return True

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


async def _in_thread(work: Callable[[], T]) -> T:
    """The work's answer. Who is cancelled waits for its end: a thread cannot be."""
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise
