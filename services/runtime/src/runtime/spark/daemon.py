"""PySpark's parent of workers, but for six things.

* What workers import is imported before they are forked: that takes them a few milliseconds, and they share
  its memory. Spark ends workers that had nothing to do for a minute, so this is not only about the start.
* A worker whose task was cancelled while it worked ends without a trace: nobody waits for its answer.
* After a task only the objects are looked at that it left behind, where PySpark collects among all: 20 ms, a
  tenth of what a worker spent on the seed query, and more than a small batch costs otherwise.
* A worker has a bound of its memory: what is beyond it is a MemoryError in its task, before its host has none
  (decision 76).
* Threads that libraries start in a worker have small stacks: whole ones count as its memory, though never
  written to, and a Kafka client has four threads.
* What a worker tells the JVM of an exception has no secret in it: that goes to the driver's log.

PySpark imports nothing before it forks, for there must be no threads then: of what is imported here jemalloc
alone, a part of pyarrow, starts one, and it has `pthread_atfork` handlers.
"""

from __future__ import annotations

import ctypes
import gc
import io
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from typing import IO, Any

import psutil
from pyspark import daemon, util

from daggerspec.limits import WORKER_MEMORY_MIB
from runtime.hiding import hidden

_serve = daemon.worker
_tell = util.handle_worker_exception
# After so many tasks all objects are looked at. What stays of one task is garbage with the next.
_ALL = 20
_STACK_KIB = 512
"""As on macOS, where the same libraries run. With Linux' 8 MiB, 30 Kafka clients fill a worker's bound."""


class Collector:
    """Python's garbage collector as PySpark's daemon uses it: asked once after each task."""

    def __init__(self) -> None:
        self._tasks = count(1)

    def collect(self) -> int:
        """Collect; how many objects that were not reachable."""
        return gc.collect(2 if next(self._tasks) % _ALL == 0 else 1)


def serve(load: Callable[[], None]) -> None:
    """Fork workers for as long as Spark asks for them; `load` imports what they need."""
    util.handle_worker_exception = tell  # before those are imported who call it
    import pyspark.worker  # noqa: F401

    load()
    shrink_stacks()
    daemon.worker = _worker
    shared: Any = daemon
    shared.gc = Collector()
    daemon.manager()


def shrink_stacks() -> None:
    """Give threads that start from now on, also behind a fork, stacks of 512 KiB. The main thread's stays."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "pthread_setattr_default_np"):  # not glibc: musl's are smaller still
        return
    default = ctypes.create_string_buffer(64)  # of pthread_attr_t, on every processor
    libc.pthread_getattr_default_np(default)
    libc.pthread_attr_setstacksize(default, ctypes.c_size_t(_STACK_KIB * 1024))
    libc.pthread_setattr_default_np(default)


@cache
def bound_memory(more_mib: int = WORKER_MEMORY_MIB) -> None:
    """Let this process have so much more than it has now, whoever in it asks. Once: a worker has many tasks.

    The bound is of what is its own and written to: threads and libraries reserve many times the addresses
    that they use, so a bound of those (`spark.executor.pyspark.memory`) says little.
    """
    most = psutil.Process().memory_info().data + more_mib * 2**20
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


def tell(e: BaseException, outfile: IO[bytes], hide_traceback: bool | None = None) -> None:
    """Tell the JVM of an exception, as PySpark does."""
    said = io.BytesIO()
    _tell(e, said, hide_traceback)
    what, text = said.getvalue()[:4], hidden(said.getvalue()[8:].decode()).encode()
    with suppress(OSError):  # the JVM is gone
        outfile.write(what + len(text).to_bytes(4, "big") + text)


def _worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve one task; the exit code, 0 to wait for another."""
    bound_memory()
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1
