"""Work in a thread that is never left behind: who is cancelled meanwhile waits for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: Callable[[], T]) -> T:
    """Run `work` in a thread and return its result. Once a scheduler is cancelled and has ended, no such work
    goes on.
    """
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise
