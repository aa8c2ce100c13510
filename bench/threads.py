"""Where CPU time goes, thread by thread, when records wait: of the seed query, warm.

    .venv/bin/python bench/threads.py [--records N] [--runs K]

N records at once, 4,000,000 as a rule, K times after two that are not counted; the driver stands still while
they are written. CPU-s of a run, medians, and how many µs that is for a record. A thread's name is the one
that the kernel knows; Python's own have none. What a light dagger takes by thread says bench/idle.py.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import dagger
import seed
import workload
from machine import header
from stack import Stack, stack

NAME = "threads"
_HOUR, _COLD = 3600, 2
_SMALL = 0.01
_LOOK_S = 1.0
# How the names of threads begin, as far as the kernel keeps them, by what they do.
_JVM = {
    "stream executio": "JVM: the query's thread, which plans and starts jobs",
    "Executor task": "JVM: tasks",
    "Idle Worker Mon": "JVM: tasks",
    "stdout writer": "JVM: tasks",
    "Writer": "JVM: tasks",
    "C1 CompilerThre": "JVM: compiler",
    "C2 CompilerThre": "JVM: compiler",
    "Spark Context C": "JVM: Spark's context cleaner",
    "spark-listener-": "JVM: listeners",
    "streaming-query": "JVM: listeners",
    "dag-scheduler-e": "JVM: scheduler of stages and tasks",
    "task-result-get": "JVM: scheduler of stages and tasks",
    "dispatcher-": "JVM: scheduler of stages and tasks",
    "block-manager": "JVM: scheduler of stages and tasks",
    "element-trackin": "JVM: listeners",
    "Thread-": "JVM: answers to Python",
    "state-store-mai": "JVM: upkeep of state",
    "VM Thread": "JVM: its own threads",
    "VM Periodic Tas": "JVM: its own threads",
    "GC Thread": "JVM: its own threads",
    "G1 ": "JVM: its own threads",
}


def main() -> None:
    """Print a line for each kind of thread."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(header("pyspark", "confluent-kafka", "ptars", "pyarrow"), flush=True)
    with stack() as on:
        on.end("health-monitor")  # see bench/seed.py
        dagger.prepare(on)
        found = backlog(on, given.records, given.runs)
    whats = {what for run in found for what in run}
    medians = {what: statistics.median(run[what] for run in found) for what in whats}
    print(f"{given.records:,} records at once, warm: CPU-s, and µs for a record")
    shown(medians, 1, 1e6 / given.records)


def backlog(on: Stack, records: int, runs: int) -> list[Counter[str]]:
    """What each run takes."""
    dagger.apply(on, NAME)
    session = on.driver_session(NAME)
    rows, expected, found = seed.RowCounter(on.kafka, dagger.ROWS_TOPIC), seed.completed(records), []
    with Threads(session) as threads:
        for run in range(runs + _COLD):
            os.killpg(session, signal.SIGSTOP)
            workload.fill(on.kafka, dagger.TOPIC, records, start=workload.START + run * _HOUR)
            before = threads.read()
            os.killpg(session, signal.SIGCONT)
            rows.wait_for((run + 1) * expected)
            found.append(threads.read() - before)
    on.daggers("delete", NAME, "--wait")
    return found[_COLD:]


def shown(used: Mapping[str, float], *scales: float) -> None:
    """Print a line for each kind of thread, in these scales, and its share; then for all together."""
    whole = sum(used.values())
    for what, cpu in (*sorted(used.items(), key=lambda item: -item[1]), ("all", whole)):
        if cpu >= _SMALL * whole:
            print(*(f"{cpu * scale:8.2f}" for scale in scales), f"{cpu / whole:5.0%}  {what}", flush=True)


class Threads:
    """CPU-seconds of every thread of some sessions, by what it does; of those that have ended, too, as far as
    they were seen. A context manager.
    """

    def __init__(self, *sessions: int) -> None:
        self._sessions = {*sessions}
        self._used: dict[tuple[str, str, int], tuple[str, float]] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def read(self) -> Counter[str]:
        """What was used so far; two of them may be subtracted."""
        self._look()
        sums = Counter[str]()
        for what, cpu in self._used.values():
            sums[what] += cpu
        return sums

    def follow(self, *sessions: int) -> None:
        """Count these from now on, too."""
        with self._lock:
            self._sessions |= {*sessions}

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        with self._lock:
            for entry in os.scandir("/proc"):
                with suppress(OSError):
                    if entry.name.isdigit() and os.getsid(int(entry.name)) in self._sessions:
                        self._look_at(Path(entry.path))

    def _look_at(self, process: Path) -> None:
        main = (process / "comm").read_text().strip()
        words = (process / "cmdline").read_bytes().decode().split("\0")
        for task in (process / "task").iterdir():
            with suppress(OSError):
                name = (task / "comm").read_text().strip()
                stat = (task / "stat").read_text().rpartition(") ")[2].split()
                cpu = int((task / "schedstat").read_text().split()[0]) / 1e9
                # Another thread of its number began at another time.
                self._used[process.name, task.name, int(stat[19])] = (_what(main, name, words), cpu)


def _what(process: str, thread: str, words: list[str]) -> str:
    """What a thread does, by its process and its name."""
    if process == "java":
        for begin, what in _JVM.items():
            if thread.startswith(begin):
                return what
        return f"JVM: {thread}"
    if thread.startswith("rdk:"):
        return "librdkafka"
    if "runtime.daemon" in words:
        return "Python: workers"
    return "Python: the driver's own" if process.startswith("python") else f"{process}"


if __name__ == "__main__":
    main()
