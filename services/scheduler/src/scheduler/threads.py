"""Work in a thread that is never left behind: who is cancelled meanwhile waits for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: Callable[[], T]) -> T:
    """What `work` gives. Who has stopped this scheduler may take for granted that it does nothing more."""
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise
