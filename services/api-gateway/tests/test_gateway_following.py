"""A gateway answers calls while it takes in a fetch of many records, and reads each once for all caches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

from daggers.v1 import events_pb2, telemetry_pb2

from api_gateway.state.database import Database
from api_gateway.state.fold import Fold
from api_gateway.state.following import follow_heartbeats, follow_on
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.minute_sums import MinuteCache
from api_gateway.state.minute_table import MinuteTable
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.tail import Arrival
from eventlog.testing import START, LogTail, given, record


class FullTail:
    """Has all its records at once, as a fetch has."""

    def __init__(self, count: int) -> None:
        beat = record(telemetry_pb2.Heartbeat(dagger="d"), sequence=0)
        self._arrivals = [Arrival(beat, past=False)] * count

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        for arrival in self._arrivals:
            yield arrival
        await asyncio.Event().wait()


async def test_other_tasks_have_their_turns_within_a_fetch_of_thousands() -> None:
    count, turns, arrived = 5_000, 0, 0

    async def call() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    calling = asyncio.create_task(call())
    async with aclosing(follow_on(FullTail(count), lambda: START, lambda _: None)) as arrivals:
        async for _ in arrivals:
            arrived += 1
            if arrived == count:
                break
    calling.cancel()

    assert turns >= count // 200


class CountedTail(LogTail):
    """A tail that counts its readers, and the records that each was given."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.given: list[int] = []
        self.open = 0

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        reader = len(self.given)
        self.given.append(0)
        self.open += 1
        try:
            async with aclosing(super().follow(since)) as arrivals:
                async for arrival in arrivals:
                    self.given[reader] += 1
                    yield arrival
        finally:
            self.open -= 1


async def test_once_the_sums_have_come_to_the_present_one_reader_serves_all_and_none_is_missed(
    database_url: str,
) -> None:
    fold, beats, database = Fold(), MemoryLog(), Database(database_url)
    for each in given(events_pb2.DaggerRequested(name="d")):
        fold.apply(each)
    cache, minutes = HeartbeatCache(fold), MinuteCache(fold, MinuteTable(database))
    tail = CountedTail(beats)
    sent: list[int] = []

    async def send(ago_s: float) -> None:
        """Send a heartbeat that has counted one record more than the one before."""
        sent.append(len(sent))
        now = datetime.now(UTC)
        time = now - timedelta(seconds=ago_s)
        beat = telemetry_pb2.Heartbeat(dagger="d", generation=7, rows_in=len(sent))
        beat.time.FromDatetime(time)
        await beats.append(Draft(f"b{len(sent)}", "/test", "d", time, beat))

    def has_heard_all() -> bool:
        newest = cache.watch_of(fold.fleet.daggers["d"]).heartbeat
        return newest is not None and newest.rows_in == len(sent)

    for number in range(20):
        await send(3_000 - 100 * number)
    following = asyncio.create_task(follow_heartbeats(tail, cache, minutes))
    living = fold.fleet.daggers["d"]
    try:
        async with asyncio.timeout(20):
            while len(tail.given) < 3 or tail.open > 1:
                await send(0)
                await asyncio.sleep(0.01)
            for _ in range(5):
                await send(0)
            while not has_heard_all():  # noqa: ASYNC110 - a cache tells nobody
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
        await asyncio.wait([following])
        database.close()

    assert (tail.open, len(tail.given)) == (0, 3)
    # The first that is heard tells of nothing before it.
    assert sum(max(number, 0) for number in minutes.sums_of(living).since(0)[1][0]) == len(sent) - 1
