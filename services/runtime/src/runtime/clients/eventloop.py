"""One event loop of a process, in a thread of its own: connections stay open, and are heard, between batches.

It is made when somebody first asks. A process that was forked meanwhile makes its own.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")
_guard = threading.Lock()
_running: list[tuple[asyncio.AbstractEventLoop, threading.Thread]] = []


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """What comes of this, in the loop. Raises what it raises."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


def _loop() -> asyncio.AbstractEventLoop:
    with _guard:
        if not _running:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="http", daemon=True)
            thread.start()
            _running.append((loop, thread))
        return _running[0][0]


def stop() -> None:
    """End the loop; the next who asks gets another one."""
    with _guard:
        while _running:
            loop, thread = _running.pop()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _forget() -> None:
    """In a child the thread is gone, and its loop is the parent's."""
    global _guard  # a thread that is not here any more may hold it
    _guard = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(stop)
