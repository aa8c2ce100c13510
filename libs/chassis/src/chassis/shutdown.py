"""SIGTERM and SIGINT become an event to wait for: a service drains, then ends with exit code 0."""

from __future__ import annotations

import asyncio
import signal


def on_signal() -> asyncio.Event:
    """An event that is set by the first SIGTERM or SIGINT. Call it inside the running loop, once.

    A second signal ends the process at once, as if nobody had asked.
    """
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        asked.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    return asked
