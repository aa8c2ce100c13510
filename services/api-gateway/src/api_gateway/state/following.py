"""Follow the tail of the heartbeats topic for as long as a gateway serves, over outages of Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Final

from eventlog import LogUnavailable
from eventlog.tail import Arrival, Tail

_AGAIN_S: Final = 1.0
_YIELD_EVERY: Final = 100
"""Records between two turns for calls: a fetch has thousands where the fleet is large, or they are old."""


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
