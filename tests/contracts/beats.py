"""What the heartbeats topic promises who follows it; and one in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from daggers.v1 import telemetry_pb2

from eventlog import Draft, Record
from eventlog.heartbeats import unpack
from eventlog.memory import MemoryLog


class MemoryBeats(MemoryLog):
    """The heartbeats topic in memory."""

    async def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """What comes from now on, for ever."""
        async for packed in super().follow(max(since, len(self._records) - 1)):
            for record in unpack(packed):
                yield record


def beat(name: str) -> Draft:
    """A heartbeat of a dagger."""
    return Draft(uuid4().hex, "/test", name, datetime.now(UTC), telemetry_pb2.Heartbeat(dagger=name))


async def first_heard(beats: Any, heard: AsyncGenerator[Record, None], name: str = "heard") -> Record:
    """Sends beats of this name until anything is heard, and returns it: nobody says when a reader listens."""
    coming = asyncio.ensure_future(anext(heard))
    while not coming.done():
        await beats.append(beat(name))
        await asyncio.wait({coming}, timeout=0.5)
    return coming.result()


class BeatsContract:
    """A subclass brings a fixture `topic`, and how to connect to it."""

    def connected(self, topic: Any) -> AbstractAsyncContextManager[Any]:
        """A way to the topic."""
        raise NotImplementedError

    async def test_what_comes_is_heard_in_order_and_what_was_before_is_not(self, topic: Any) -> None:
        async with self.connected(topic) as before:
            await before.append(beat("unheard"))
        async with self.connected(topic) as beats, aclosing(beats.follow()) as heard, asyncio.timeout(60):
            found = [await first_heard(beats, heard)]
            for _ in range(3):
                await beats.append(beat("heard"))
                found.append(await anext(heard))

        assert {record.message.dagger for record in found} == {"heard"}
        assert [record.sequence for record in found] == sorted({record.sequence for record in found})

    async def test_heartbeats_of_a_host_are_heard_one_by_one(self, topic: Any) -> None:
        heartbeats = [telemetry_pb2.Heartbeat(dagger=name, generation=7) for name in ("one", "two")]
        host = telemetry_pb2.HostBeat(host="h", heartbeats=heartbeats)
        async with self.connected(topic) as beats, aclosing(beats.follow()) as records, asyncio.timeout(60):
            await first_heard(beats, records)
            await beats.append(Draft(uuid4().hex, "/test", "host/h", datetime.now(UTC), host))
            found = [(await anext(records)).message for _ in range(3)]

        assert found == [*heartbeats, host]
