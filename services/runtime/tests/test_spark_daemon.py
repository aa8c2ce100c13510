"""What workers leave behind is collected: most of it after each task, the rest after some."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

from pyspark import daemon

from runtime.spark.daemon import Collector


class _Cycle:
    def __init__(self) -> None:
        self.me = self


def test_what_a_task_left_behind_is_collected_after_it() -> None:
    left = weakref.ref(_Cycle())

    Collector().collect()

    assert left() is None


def test_what_outlived_its_task_is_collected_later() -> None:
    collector, kept = Collector(), _Cycle()
    for _ in range(2):
        collector.collect()
    left = weakref.ref(kept)
    del kept
    collector.collect()

    soon = left() is None
    for _ in range(20):
        collector.collect()

    assert (soon, left()) == (False, None)


def test_the_collector_stands_in_for_pythons_in_pysparks_daemon() -> None:
    asked: Any = daemon

    assert asked.gc is gc


# Python's own memory, then Arrow's: each is bounded, what was there before counts for nothing, and who was
# refused goes on.
_GREEDY = """
import sys
import pyarrow as pa
from runtime.spark.daemon import bound_memory

before = bytearray(100 * 2**20)
bound_memory(64)
bound_memory(10_000)  # with its next task
for take in (bytearray, pa.allocate_buffer):
    taken = []
    try:
        for _ in range(100):
            taken.append(take(2**20))
    except MemoryError:
        print(len(taken) in range(16, 80))
    del taken
"""


def test_a_worker_that_wants_more_than_its_bound_is_refused_and_its_host_is_not_filled() -> None:
    done = subprocess.run([sys.executable, "-c", _GREEDY], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr, done.returncode) == ("True\nTrue\n", "", 0)


# A hundred threads of a library, which has no word for the size of their stacks.
_THREADS = """
import ctypes, psutil
from runtime.spark.daemon import shrink_stacks

shrink_stacks()
libc = ctypes.CDLL(None)
before = psutil.Process().memory_info().data
for _ in range(100):
    thread = ctypes.c_void_p()
    assert libc.pthread_create(ctypes.byref(thread), None, libc.sleep, ctypes.c_void_p(60)) == 0
print((psutil.Process().memory_info().data - before) // 2**20 < 100)
"""


def test_a_thread_of_a_library_takes_little_of_a_workers_bound() -> None:
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
