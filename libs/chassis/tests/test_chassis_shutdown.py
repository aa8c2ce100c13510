from __future__ import annotations

import asyncio
import os
import signal

import pytest

from chassis.shutdown import on_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_sets_the_event(number: signal.Signals) -> None:
    asked = on_signal()
    os.kill(os.getpid(), number)

    assert await asyncio.wait_for(asked.wait(), timeout=5)
