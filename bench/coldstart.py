"""Cold start: from the start of `daggers apply` to the time of the dagger's Running in the control log.

    .venv/bin/python bench/coldstart.py [--runs K]

The seed query over an empty topic, on a stack that runs; the page cache is warm after the first run, which is
not counted. CPU: of the driver's processes until then.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from contextlib import aclosing

import dagger
from daggers.v1.events_pb2 import Running
from machine import Meter, header
from stack import stack

from eventlog import topics
from eventlog.kafka import KafkaLog
from kafkaclient import Connection


def main() -> None:
    """Print one line: the median, and every run."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--runs", type=int, default=5, help="launches that are counted")
    runs = arguments.parse_args().runs
    print(header("pyspark"), flush=True)
    took, cpu = [], []
    with stack() as on:
        dagger.prepare(on)
        for number in range(runs + 1):
            name = f"cold-{number}"
            start = time.time()
            dagger.apply(on, name)
            cpu.append(Meter(on.driver_session(name)).read().cpu)
            took.append(asyncio.run(_running(on.kafka, name)) - start)
            on.daggers("delete", name, "--wait")
    each = ", ".join(f"{seconds:.1f}" for seconds in took[1:])
    print(
        f"cold start, apply -> Running: median {statistics.median(took[1:]):.1f} s of {each};"
        f" {statistics.median(cpu[1:]):.1f} CPU-s"
    )


async def _running(kafka: str, name: str) -> float:
    """The ce_time of the dagger's first Running, in seconds after the epoch."""
    async with KafkaLog(Connection(kafka), topics.CONTROL) as log, aclosing(log.replay()) as records:
        async for record in records:
            if isinstance(record.message, Running) and record.subject == name:
                return record.time.timestamp()
    raise SystemExit(f"{name} never ran")


if __name__ == "__main__":
    main()
