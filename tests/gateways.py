"""A real gateway in this process, in a thread of its own; its log is in memory unless another is given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.server import serving
from api_gateway.state.projection import Projection
from chassis.endpoint import Endpoint
from eventlog import Log
from eventlog.memory import MemoryLog


@contextmanager
def served(
    endpoint: Endpoint,
    database: str,
    log: Callable[[], Log] = MemoryLog,
    alerts: Callable[[], Log] = MemoryLog,
    quarantine: Callable[[], MemoryQuarantine] = MemoryQuarantine,
    **further: Any,
) -> Iterator[int]:
    """A gateway at an endpoint: its port. `further` is what else `serving` takes."""
    port: Future[int] = Future()
    stop: Future[Callable[[], object]] = Future()

    async def serving_until_stopped() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.set_result(lambda: loop.call_soon_threadsafe(stopped.set))
        async with serving(
            log(),
            Projection(database),
            quarantine(),
            endpoint,
            alerts=alerts(),
            source="/api-gateway/test",
            reference_places=["/tables"],
            drain_s=5,
            **further,
        ) as served:
            port.set_result(served.port)
            await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=(serving_until_stopped(),))
    thread.start()
    try:
        yield port.result(60)
    finally:
        stop.result(60)()
        thread.join(60)
