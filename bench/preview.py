"""Previews: from the call to the columns and to the first row, warm and cold.

    .venv/bin/python bench/preview.py [--runs K] [--cold K] [--seconds S]

The seed query over 300,000 records in 4 partitions, six minutes of event time, on a stack that runs. A warm
preview finds its process started; before a cold one that is killed, and the next starts with the call. On a
machine that is too slow for all of them it stops after S seconds, and says how many it has counted.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import dagger
import grpc
import workload
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, spec_pb2
from machine import header
from stack import Stack, stack

from chassis import processes

RECORDS, SECONDS = 300_000, 360
DEADLINE_S = 300.0
_WORKS = "previews"

Run: TypeAlias = tuple[float, float, float, float]
"""Seconds to the columns, the first row and the end, and CPU-seconds."""


def main() -> None:
    """Print a line for each kind, and both in the last."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--runs", type=int, default=50, help="warm previews that are counted")
    arguments.add_argument("--cold", type=int, default=5, help="cold previews that are counted")
    arguments.add_argument("--seconds", type=float, default=900, help="no preview begins later")
    told = arguments.parse_args()
    end = time.monotonic() + told.seconds
    print(header("pyspark"), flush=True)
    with stack() as on:
        dagger.prepare(on)
        workload.fill(on.kafka, dagger.TOPIC, RECORDS, rate=RECORDS // SECONDS)
        _preview(on)  # the page cache, and the code of the gateway
        cold = _counted(lambda: _cold(on), told.cold, end - told.seconds / 2)
        for _ in range(3):
            _preview(on)
        warm = _counted(lambda: _preview(on), told.runs, end)
    for what, runs in (("cold", cold), ("warm", warm)):
        columns, first, whole, cpu = zip(*runs, strict=True)
        print(
            f"{len(runs)} {what}: columns p50 {_p(columns, 50):.2f} s, p95 {_p(columns, 95):.2f} s;"
            f" first row p50 {_p(first, 50):.2f} s, p95 {_p(first, 95):.2f} s;"
            f" end p50 {_p(whole, 50):.2f} s, p95 {_p(whole, 95):.2f} s; {statistics.median(cpu):.1f} CPU-s"
        )
    firsts = [_p([run[1] for run in runs], 95) for runs in (warm, cold)]
    print(f"preview: first row p95 {firsts[0]:.2f} s warm, {firsts[1]:.2f} s cold")


def _counted(preview: Callable[[], Run], most: int, end: float) -> list[Run]:
    """So many previews, fewer where there is no time for more; one at least."""
    runs = [preview()]
    while len(runs) < most and time.monotonic() < end:
        runs.append(preview())
    return runs


def _cold(on: Stack) -> Run:
    """A preview whose process is not there."""
    for process in processes.everybody():
        where = processes.working_directory(process.pid)
        if where.startswith(str(on.state_dir)) and f"/{_WORKS}/" in where:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    time.sleep(0.2)  # its end is noticed; the scheduler replaces it within two seconds
    return _preview(on)


def _preview(on: Stack) -> Run:
    """Seconds to the columns, the first row and the end, and CPU-seconds of one preview."""
    spec = spec_pb2.DaggerSpec(cluster="local", team="bench", sql=dagger.SQL)
    spec.streams.add(stream=dagger.TOPIC, table="data_stream")
    request = gateway_pb2.PreviewDaggerRequest(spec=spec)
    request.range.last_records = RECORDS
    begin, at = time.monotonic(), dict[str, float]()
    with grpc.insecure_channel(on.gateway) as channel:
        stub = gateway_pb2_grpc.DaggerServiceStub(channel)
        for step in stub.PreviewDagger(request, timeout=DEADLINE_S, metadata=on.bearer):
            at.setdefault(step.WhichOneof("step") or "", time.monotonic() - begin)
    if step.done.records != RECORDS:
        said = str(step).replace("\n", " ")
        raise SystemExit(f"it read {step.done.records} records of {RECORDS}: {said}")
    return at["columns"], at["rows"], at["done"], step.done.cpu_seconds


def _p(values: list[float] | tuple[float, ...], percent: int) -> float:
    """A percentile: of few values the next greater one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-len(ordered) * percent // 100) - 1)]


if __name__ == "__main__":
    main()
