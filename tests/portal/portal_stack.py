"""Helpers of tests of the pages on the real stack: a portal before it, and bookings that come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import Stack
from tests.integration.bookings import NOON, Bookings, booking
from tests.portal.conftest import portal, running

from devstack import services, state

LAUNCH_MS = 180_000
"""A driver on a busy machine, and its first window. How long all steps take together says how busy it is."""
BEFORE_S = 60


@contextmanager
def serving_stack(stack: Stack, folder: Path) -> Iterator[str]:
    """Serve a portal without a login, with a gateway of its own on the stack's log; yield its address."""
    running_stack = state.load(stack.state_dir)
    assert running_stack is not None
    settings = {
        name: value
        for name, value in services.gateway_environment(running_stack).items()
        if not name.startswith("DAGGERS_GATEWAY_TOKEN")
    }
    own = settings | {
        "DAGGERS_GATEWAY_BIND": "127.0.0.1:0",
        "DAGGERS_GATEWAY_HEALTH_BIND": "127.0.0.1:0",  # the stack's gateway has the one of these settings
        "DAGGERS_GATEWAY_DATABASE_URL": f"sqlite:///{folder}/gateway.db",
    }
    with running("api_gateway", own, folder) as gateway, portal(gateway, folder) as at:
        yield at


@contextmanager
def repeating(step: Callable[[int], None]) -> Iterator[None]:
    """Call a step ten times a second in a thread, with numbers from 1, for as long as the block lasts."""
    over = threading.Event()

    def repeat() -> None:
        number = 0
        while not over.wait(0.1):
            number += 1
            step(number)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def fed(bookings: Bookings) -> Iterator[None]:
    """Bookings of three cities: those of the last minute, and then one after another as they happen."""

    def at(second: float, number: int) -> bytes:
        return booking(second - NOON, city_id=number % 3 + 1, fare=2.5)

    now = time.time()
    bookings.write(at(now - second, second) for second in range(BEFORE_S, 0, -1))
    try:
        with repeating(lambda number: bookings.produce(at(time.time(), number))):
            yield
    finally:
        bookings.flush()
