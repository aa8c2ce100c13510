"""A log to which something happens when a test says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from eventlog import Draft
from eventlog.memory import MemoryLog

Hook = Callable[[Draft], Awaitable[None]]


async def nothing(_: Draft) -> None:
    """What happens at most appends."""


class TroubledLog(MemoryLog):
    """Passes `LogContract` as long as nothing happens to it."""

    def __init__(self) -> None:
        """`before` and `after` come with every append; what they raise, it raises."""
        super().__init__()
        self.before: Hook = nothing
        self.after: Hook = nothing

    async def append(self, draft: Draft) -> None:
        """As MemoryLog's, between the two."""
        await self.before(draft)
        await super().append(draft)
        await self.after(draft)
