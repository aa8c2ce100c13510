"""Start threads that work in the context (`contextvars`) of who starts them: Python's own begin with none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context


def start(work: Callable[[], object], name: str) -> threading.Thread:
    """Run `work` in a daemon thread, in a copy of this context, and return the thread."""
    thread = threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True)
    thread.start()
    return thread
