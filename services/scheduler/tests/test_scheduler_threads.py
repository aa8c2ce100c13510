"""What a scheduler does in a thread is done when it has stopped."""

import asyncio
import threading
from contextlib import suppress

from scheduler.threads import to_its_end


async def test_who_is_cancelled_while_a_thread_works_waits_for_its_end() -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        begun.set()
        may_end.wait(30)
        done.append("work")

    working = asyncio.create_task(to_its_end(work))
    await asyncio.to_thread(begun.wait, 30)
    working.cancel()
    asyncio.get_running_loop().call_later(0.05, may_end.set)
    with suppress(asyncio.CancelledError):
        await working

    assert done == ["work"]
    assert working.cancelled()
