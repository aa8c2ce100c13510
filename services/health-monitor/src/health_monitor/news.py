"""Wake tasks of one event loop as soon as there is something new for them."""

from __future__ import annotations

import asyncio


class News:
    """Something that arrives again and again, and any number of tasks that wait for more of it."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def note(self) -> None:
        """Wake all that wait."""
        arrived, self._next = self._next, asyncio.Event()
        arrived.set()

    def expect(self) -> asyncio.Event:
        """Return the event that the next `note` sets, also before anybody waits for it."""
        return self._next
