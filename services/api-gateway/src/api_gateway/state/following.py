"""Follow the tail of the heartbeats topic for as long as a gateway serves, over outages of Kafka.

Vitals need the last minutes at once; minute sums need all that came since they were saved, in its order. So
at a start each has a reader. From when the sums have come to the present one reader serves both: with
thousands of daggers reading a record costs more than applying it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Final, Protocol

from chassis.logging import logger
from eventlog import LogUnavailable
from eventlog.tail import Arrival, Tail

_AGAIN_S: Final = 1.0
_YIELD_EVERY: Final = 100
"""Records between two turns for calls: a fetch has thousands where the fleet is large, or they are old."""
# Clocks of writers differ, so a record that has not been read may be stamped a little before the newest one
# that has. A heartbeat that is read twice changes nothing.
_OVERLAP: Final = timedelta(seconds=10)


class Cache(Protocol):
    """State that is derived from heartbeats."""

    since: datetime
    """From when on records are read, or were read last."""

    def take(self, arrival: Arrival) -> None:
        """Apply a record of the topic."""


class SavedCache(Cache, Protocol):
    """State that is derived from heartbeats, and saved."""

    async def load(self) -> None:
        """Read what was saved."""

    async def keep_saving(self) -> None:
        """Save now and then, until cancelled."""


async def follow_heartbeats(tail: Tail, vitals: Cache, sums: SavedCache) -> None:
    """Read heartbeats into both until cancelled. Start it once the fold knows the daggers."""
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read_into(tail, vitals))
        await sums.load()
        tasks.create_task(sums.keep_saving())
        await read_into(tail, sums, to_present=True, lost="minutes.follow_failed")
        reading.cancel()
        await read_into(tail, vitals, sums)


async def read_into(
    tail: Tail, *caches: Cache, to_present: bool = False, lost: str = "heartbeats.follow_failed"
) -> None:
    """Read heartbeats into caches until cancelled, or `to_present` until one comes that was not there before.

    lost: event that is logged once for each outage.
    """

    def since() -> datetime:
        return min(cache.since for cache in caches) - _OVERLAP

    def report(error: LogUnavailable) -> None:
        logger().warning(lost, detail=str(error))

    async with aclosing(follow_on(tail, since, report)) as arrivals:
        async for arrival in arrivals:
            for cache in caches:
                cache.take(arrival)
            if to_present and not arrival.past:
                return


async def follow_on(
    tail: Tail, since: Callable[[], datetime], report: Callable[[LogUnavailable], None]
) -> AsyncGenerator[Arrival, None]:
    """Yield what arrives until it is closed; connect again after errors.

    since: gives from when on records are read, each time it connects. report: called once an outage.
    """
    lost, count = False, 0
    while True:
        try:
            async with aclosing(tail.follow(since())) as arrivals:
                async for arrival in arrivals:
                    lost = False
                    count += 1
                    yield arrival
                    if count % _YIELD_EVERY == 0:
                        await asyncio.sleep(0)
        except LogUnavailable as error:
            if not lost:
                report(error)
            lost = True
        await asyncio.sleep(_AGAIN_S)
