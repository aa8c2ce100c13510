"""The parent of a driver's Python workers, which Spark starts: PySpark's own, but for two things.

* What workers import is imported here, once: they are forked with it in a few milliseconds, and share its
  memory. Spark ends workers that had nothing to do for a minute, so this is not only about the start.
* A worker whose task was cancelled while it worked ends without a trace: nobody waits for its answer.

PySpark imports nothing before it forks, for there must be no threads then: of what is imported here jemalloc
alone, a part of pyarrow, starts one, and it has `pthread_atfork` handlers.
"""

from __future__ import annotations

import socket

from pyspark import daemon

from chassis.collector import relieve

_serve = daemon.worker


def main() -> None:
    """Fork workers for as long as Spark asks for them."""
    _load()
    daemon.worker = _worker
    daemon.manager()


def _load() -> None:
    """Import what workers need."""
    import pyspark.worker  # noqa: F401

    import runtime.delivery
    import runtime.source.datasource  # noqa: F401
    from runtime.source.reader.ranges import MESSAGES_ALIVE

    relieve(MESSAGES_ALIVE)


def _worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve one task; the exit code, 0 to wait for another."""
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    main()
