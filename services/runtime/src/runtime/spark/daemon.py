"""Run PySpark's parent of workers, with six differences.

* Modules that workers need are imported before the fork: a worker then starts in a few milliseconds, and
  shares their memory. Spark ends workers that were idle for a minute, so this is not only about the start.
* A worker whose task was cancelled while it worked ends silently: nobody waits for its answer.
* After a task the garbage collector only examines the objects of that task, where PySpark collects all
  generations: 20 ms, a tenth of a worker's time on the seed query, and more than the rest of a small batch.
* A worker's memory is limited: beyond it its task gets a MemoryError, before the host runs out (decision
  76).
* Threads of libraries in a worker have small stacks: whole ones count as its memory, though never written
  to, and a Kafka client has four threads.
* An exception that a worker sends to the JVM has its secrets hidden: it goes to the driver's log.

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
from runtime.hiding import redact

_serve = daemon.worker
_handle_exception = util.handle_worker_exception
# every so many tasks all generations are collected; a task's leftovers are garbage after the next
_TASKS_PER_FULL_COLLECTION = 20
_STACK_KIB = 512
"""The default of macOS, where the same libraries run. With Linux' 8 MiB, 30 Kafka clients exceed the limit.
"""


class Collector:
    """Garbage collector as PySpark's daemon calls it: once after each task."""

    def __init__(self) -> None:
        self._tasks = count(1)

    def collect(self) -> int:
        """Collect garbage, and return the number of unreachable objects."""
        return gc.collect(2 if next(self._tasks) % _TASKS_PER_FULL_COLLECTION == 0 else 1)


def serve(load: Callable[[], None]) -> None:
    """Fork workers for as long as Spark requests them. load: imports the modules that they need."""
    util.handle_worker_exception = hide_secrets  # before its callers are imported
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
    """Limit this process to `more_mib` beyond its present memory. Cached: a worker has many tasks.

    The limit is on private, written memory: threads and libraries reserve many times the addresses that they
    use, so a limit of addresses (`spark.executor.pyspark.memory`) means little.
    """
    most = psutil.Process().memory_info().data + more_mib * 2**20
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


def hide_secrets(e: BaseException, outfile: IO[bytes], hide_traceback: bool | None = None) -> None:
    """Send an exception to the JVM as PySpark does, with secrets hidden."""
    message = io.BytesIO()
    _handle_exception(e, message, hide_traceback)
    length_code, text = message.getvalue()[:4], redact(message.getvalue()[8:].decode()).encode()
    with suppress(OSError):  # the JVM is gone
        outfile.write(length_code + len(text).to_bytes(4, "big") + text)


def _worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve one task, and return the exit code; 0 to wait for another task."""
    bound_memory()
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1
