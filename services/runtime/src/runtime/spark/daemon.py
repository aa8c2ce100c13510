"""PySpark's parent of workers, but for two things.

* What workers import is imported before they are forked: that takes them a few milliseconds, and they share
  its memory. Spark ends workers that had nothing to do for a minute, so this is not only about the start.
* A worker whose task was cancelled while it worked ends without a trace: nobody waits for its answer.

PySpark imports nothing before it forks, for there must be no threads then: of what is imported here jemalloc
alone, a part of pyarrow, starts one, and it has `pthread_atfork` handlers.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from pyspark import daemon

_serve = daemon.worker


def serve(load: Callable[[], None]) -> None:
    """Fork workers for as long as Spark asks for them; `load` imports what they need."""
    import pyspark.worker  # noqa: F401

    load()
    daemon.worker = _worker
    daemon.manager()


def _worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve one task; the exit code, 0 to wait for another."""
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1
