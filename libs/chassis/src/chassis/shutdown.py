"""SIGTERM and SIGINT become an event to wait for: a service drains, then ends with exit code 0."""

from __future__ import annotations

import asyncio
import signal


def on_signal() -> asyncio.Event:
    """Create an event that the first SIGTERM or SIGINT sets. Call it once, inside the running loop.

    A second signal ends the process at once, by its default action.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        stopping.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    return stopping
