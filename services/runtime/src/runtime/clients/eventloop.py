"""Run one event loop for a process, in its own thread, so that connections are served between batches.

The first call starts it. A forked child starts its own.
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
    """Run a coroutine in the loop and block until its result. Raises: what the coroutine raises."""
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
    """Stop the loop; the next call of `run` starts another one."""
    with _guard:
        while _running:
            loop, thread = _running.pop()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _forget() -> None:
    """Drop the loop in a forked child: its thread is gone, and the loop belongs to the parent."""
    global _guard  # a thread that does not exist in the child may hold it
    _guard = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(stop)
