"""What daggers cost that have little to do: memory, CPU, the overhead of a batch, how many fit.

    .venv/bin/python bench/idle.py [--daggers N] [--minutes M] [--warm W]
    .venv/bin/python bench/idle.py --partitions 1,4,16,64 [--minutes M] [--warm W]

N daggers of the seed query over one topic, 1 s trigger. First the topic is silent: CPU and proportional set
size of every process of each driver (pages they share are divided among them), and how many daggers fit into
this machine by memory, leaving 2 GiB to everything else. Then 10 records/s come, in event time as they are
written: W minutes in which the JVM compiles what a batch needs, 3 as a rule, and M that count: CPU, thread
by thread, and how long after the end of its window a row is in the sink, with the watermark's delay of 5 s.
Then 10,000 records/s come, as many as make a batch due: its duration is overhead, but for some hundredths of
a second, first of N daggers at once, then of one alone. Numbers of one dagger are medians. M is 2 as a rule;
the silent dagger is looked at for half of that (a minute after its last batch it has no worker), batches for
a sixth.

With --partitions it is freshness alone: a dagger for each of these numbers of partitions, all at once, each
with a topic of its own that gets 10 records/s in turn, so that one of 64 partitions has one in 6.4 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import dagger
import psutil
import workload
from confluent_kafka import Consumer, TopicPartition
from machine import Meter, header, proportional_set_size
from stack import Stack, stack
from threads import Threads, shown

from scheduler.leader.capacity import MIB, RESERVE_MIB

LIGHT = 10
SHARES = {"p50": 0.5, "p95": 0.95, "longest": 1.0}
DUE = 10_000
SETTLE_S = 15


def main() -> None:
    """Print one line for each number."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--daggers", type=int, default=2)
    arguments.add_argument("--minutes", type=float, default=2, help="how long the light dagger is looked at")
    arguments.add_argument("--warm", type=float, default=3, help="how long it runs before")
    arguments.add_argument("--partitions", type=_numbers, default=(), help="freshness by numbers of these")
    given = arguments.parse_args()
    if given.partitions:
        _by_partitions(given.partitions, given.warm * 60, given.minutes * 60)
        return
    half = given.minutes * 30
    print(header("pyspark", "pyarrow"), flush=True)
    names = [f"idle-{number}" for number in range(given.daggers)]
    with stack() as on:
        dagger.prepare(on)
        for name in names:
            dagger.apply(on, name)
        sessions = [on.driver_session(name) for name in names]
        workload.fill(on.kafka, dagger.TOPIC, 10_000, start=int(time.time()) - 3600)
        list(dagger.heartbeats(on.kafka, names[0], SETTLE_S))
        cores = _cores(on, names[0], sessions, half)
        size = statistics.median(proportional_set_size(session) for session in sessions) // MIB
        print(f"idle dagger, 1 s trigger: {size:.0f} MiB, {cores:.3f} cores", flush=True)
        room = psutil.virtual_memory().total // MIB - RESERVE_MIB
        print(
            f"daggers per machine: {room // size:.0f} idle ones by memory ({room} MiB),"
            f" {psutil.cpu_count() / cores:.0f} by CPU"
        )
        with fed(on, LIGHT):
            list(dagger.heartbeats(on.kafka, names[0], SETTLE_S))
            early = _cores(on, names[0], sessions, given.warm * 60)
            since = time.time()
            with Threads(*sessions) as threads:
                before, begun = threads.read(), _batch(on, names[0])
                cores = _cores(on, names[0], sessions, 2 * half)
                used, batches = threads.read() - before, _batch(on, names[0]) - begun
            late = sorted(_freshness(on, since))
        shares = ", ".join(f"{name} {_share(late, share):.1f} s" for name, share in SHARES.items())
        print(
            f"light dagger, {LIGHT} records/s, 1 s trigger: {cores:.3f} cores ({early:.3f} before);"
            f" end of window to row in the sink, {len(late)} rows: {shares}",
            flush=True,
        )
        print(f"thousandths of a core of a light dagger, and CPU-ms for each of {batches} batches:")
        shown(used, 1e3 / (2 * half * len(names)), 1e3 / (batches * len(names)))
        with fed(on, DUE):
            _batches(on, names, half / 3)
            for name in names[1:]:
                on.daggers("delete", name, "--wait")
            _batches(on, names[:1], half / 3)


def _by_partitions(numbers: tuple[int, ...], warm: float, seconds: float) -> None:
    """Print how fresh the rows of daggers are whose topics have so many partitions; both times in seconds."""
    print(header("pyspark"), flush=True)
    with stack() as on, ExitStack() as feeders:
        for number in numbers:
            name, sink = f"of-{number}", {"kafka": {"topic": f"rows-{number}", "format": "json"}}
            dagger.prepare(on, name, number)
            dagger.apply(on, name, {**dagger.SEED, "sinks": [sink]}, reads=name)
            feeders.enter_context(fed(on, LIGHT, name, number))
        time.sleep(warm)
        since = time.time()
        time.sleep(seconds)
        for number in numbers:
            late = sorted(_freshness(on, since, f"rows-{number}"))
            shares = ", ".join(f"{name} {_share(late, share):.1f} s" for name, share in SHARES.items())
            print(
                f"{number} partitions, {LIGHT} records/s, 1 s trigger:"
                f" end of window to row in the sink, {len(late)} rows: {shares}",
                flush=True,
            )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


@contextmanager
def fed(
    on: Stack, rate: int, topic: str = dagger.TOPIC, partitions: int = workload.PARTITIONS
) -> Iterator[None]:
    """So many records come a second."""
    words = [topic, on.kafka, str(partitions)]
    command = [sys.executable, Path(workload.__file__), "--live", str(rate), *words]
    feeder = subprocess.Popen(command)
    try:
        yield
    finally:
        feeder.terminate()
        feeder.wait()


def _freshness(on: Stack, since: float, topic: str = dagger.ROWS_TOPIC) -> Iterator[float]:
    """Seconds from the end of its window to the row in the sink, of rows written from `since` on."""
    consumer = Consumer({"bootstrap.servers": on.kafka, "group.id": "fresh", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    asked = [TopicPartition(topic, number, int(since * 1000)) for number in partitions]
    consumer.assign([place for place in consumer.offsets_for_times(asked, 30) if place.offset >= 0])
    while (message := consumer.poll(5.0)) is not None:
        if message.error() is None:
            ended = datetime.fromisoformat(json.loads(message.value() or b"")["window_timestamp"])
            yield message.timestamp()[1] / 1000 - ended.timestamp()
    consumer.close()


def _share(numbers: list[float], share: float) -> float:
    """The number below which this share of sorted ones is."""
    return numbers[min(int(len(numbers) * share), len(numbers) - 1)]


def _batches(on: Stack, names: list[str], seconds: float) -> None:
    """Print how long the batches of the first dagger take while all of these run."""
    list(dagger.heartbeats(on.kafka, names[0], SETTLE_S))
    beats = list(dagger.heartbeats(on.kafka, names[0], seconds))
    took = sorted({beat.batch_id: beat.batch_duration_ms for beat in beats}.values())
    print(
        f"batch of about {DUE:,} records, 1 s trigger, {len(names)} at once:"
        f" p50 {statistics.median(took):.0f} ms, longest {took[-1]} ms of {len(took)}",
        flush=True,
    )


def _batch(on: Stack, name: str) -> int:
    """The number of the last batch that was committed."""
    commits = on.state_dir.glob(f"checkpoints/{name}-*/checkpoints/*/commits/[0-9]*")
    return max(int(commit.name) for commit in commits)


def _cores(on: Stack, name: str, sessions: list[int], seconds: float) -> float:
    """Cores of one dagger during the next `seconds`."""
    with Meter(*sessions) as meter:
        before = meter.read()
        list(dagger.heartbeats(on.kafka, name, seconds))
        cost = meter.read() - before
    return cost.cpu / cost.wall / len(sessions)


if __name__ == "__main__":
    main()
