"""What the topic of records that were set aside promises, wherever it is."""

from __future__ import annotations

import asyncio
from typing import Any

from daggers.v1 import telemetry_pb2

from api_gateway.quarantine.topic import Message, PartitionBounds, QuarantineTopic, TopicReader
from eventlog import Draft
from eventlog.testing import START


def set_aside(dagger: str, number: int, **more: Any) -> tuple[bytes, list[tuple[str, bytes]], bytes]:
    """Key, headers and value of a record that a dagger set aside."""
    message = telemetry_pb2.Quarantined(**{"dagger": dagger, "generation": 1_000, "offset": number, **more})
    draft = Draft(f"q-{number}", "/runtime", dagger, START, message)
    return dagger.encode(), draft.headers(), message.SerializeToString()


async def everything(reader: TopicReader, count: int) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await reader.read()
    return found


class QuarantineTopicContract:
    """A subclass brings a fixture `topic`, of two partitions and empty, and `place`."""

    async def place(self, topic: Any, partition: int, record: tuple[Any, ...], *, time_ms: int) -> None:
        """Write a record, as `set_aside` made it."""
        raise NotImplementedError

    async def test_a_new_topic_is_empty(self, topic: QuarantineTopic) -> None:
        async with topic.open_reader() as reader:
            bounds = await reader.bounds()
            read = await reader.read()

        assert (dict(bounds), list(read)) == ({0: PartitionBounds(0, 0), 1: PartitionBounds(0, 0)}, [])

    async def test_what_was_written_is_read_whole_and_in_order(self, topic: QuarantineTopic) -> None:
        for number in range(4):
            record = set_aside(f"d{number}", number)
            await self.place(topic, number % 2, record, time_ms=1_700_000_000_000 + number)
        async with topic.open_reader() as reader:
            bounds = await reader.bounds()
            for partition in bounds:
                reader.seek(partition, 0)
            read = await everything(reader, 4)

        expected = [
            Message(n % 2, n // 2, 1_700_000_000_000 + n, *map(_tuple, set_aside(f"d{n}", n)))
            for n in (0, 2, 1, 3)
        ]
        assert dict(bounds) == {0: PartitionBounds(0, 2), 1: PartitionBounds(0, 2)}
        assert [
            Message(m.partition, m.offset, m.time_ms, m.key, tuple(m.headers), m.value)
            for m in sorted(read, key=lambda m: (m.partition, m.offset))
        ] == expected

    async def test_a_partition_is_read_from_where_it_is_told(self, topic: QuarantineTopic) -> None:
        for number in range(4):
            await self.place(topic, 0, set_aside("d", number), time_ms=1_700_000_000_000)
        async with topic.open_reader() as reader:
            reader.seek(0, 3)
            reader.seek(1, 0)
            read = await everything(reader, 1)

        assert [(m.partition, m.offset) for m in read] == [(0, 3)]

    async def test_what_comes_is_read(self, topic: QuarantineTopic) -> None:
        async with topic.open_reader() as reader:
            reader.seek(0, 0)
            reader.seek(1, 0)
            await self.place(topic, 1, set_aside("d", 1), time_ms=1_700_000_000_000)
            read = await everything(reader, 1)
            bounds = await reader.bounds()

        assert ([(m.partition, m.offset) for m in read], bounds[1]) == ([(1, 0)], PartitionBounds(0, 1))

    async def test_what_is_appended_stands_in_its_partition(self, topic: QuarantineTopic) -> None:
        key, headers, value = set_aside("d", 1)
        await topic.append(1, key, headers, value)
        async with topic.open_reader() as reader:
            reader.seek(0, 0)
            reader.seek(1, 0)
            (read,) = await everything(reader, 1)

        assert (read.partition, read.offset, read.key, read.value) == (1, 0, key, value)
        assert [*map(tuple, read.headers)] == headers


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
