"""What sinks cost beside a bare loop with the same library: rows per CPU-second, and the ratio of the two.

    .venv/bin/python bench/sinks.py [--rows N] [--runs K] [--most X] [NAME ...]

A sink's writer gets the rows of one partition, encodes and sends them. The bare loop (`sinkloops`) gets the
same Arrow batch: it makes the same bytes of it by the plainest correct code of that library, `to_pylist` and
`json.dumps` where those are JSON, as somebody would who writes it by hand for these columns, and sends them,
as many at once as the writer. It is not given bytes that are ready. Where the server is one of HTTP, both are
held to the same bodies by a checksum.

Both run in turn in one process, their server in another; the median of the ratios of K runs counts. CPU: user
and system time of the process; of PostgreSQL's upserts there is a line with the server's, too. It ends with 1
where a ratio is above X.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
import urllib.request
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import sinkloops
from chosen import chosen
from daggers.v1 import spec_pb2
from machine import header
from sinkloops import AT_ONCE, DAGGER, LAYOUT, SCHEMA, Trial, grpc

from cli.errors import RefusedError
from daggerspec import sinks as kinds
from runtime import sinks
from runtime.encode.rows import Refusal
from runtime.sinks import BatchRef, Part, Target

BAR = 1.25


async def _serve(name: str) -> None:
    async with sinkloops.module(name).serve() as place:
        print(place, flush=True)
        await asyncio.Event().wait()


def aimed(resolved: spec_pb2.ResolvedSink, at_once: int = AT_ONCE) -> Target:
    """What a driver is told of a sink, and what it needs is made; 0 at once: as many as are found."""
    kinds.fill(resolved.sink, DAGGER, spec_pb2.DaggerSpec())
    resolved.share.max_in_flight = at_once
    whole = resolved.SerializeToString()
    target = Target(DAGGER, whole, LAYOUT, SCHEMA, grpc.descriptors(), updates=False)
    sinks.check(target)
    return target


def written(target: Target, batch: pa.RecordBatch, number: int) -> list[Refusal]:
    """Write a batch as a worker does; the rows that are refused."""
    writer = sinks.open_writer(replace(target, part=Part(BatchRef(DAGGER, number, 1), 0)))
    return [*writer.write(batch, number).refused, *writer.finish().refused]


def ours(target: Target, batch: pa.RecordBatch, number: int) -> float:
    """CPU-seconds of the writer."""
    began = time.process_time()
    refused = written(target, batch, number)
    spent = time.process_time() - began
    assert not refused, refused[0]
    return spent


def bare(trial: Trial, place: str, batch: pa.RecordBatch) -> float:
    """CPU-seconds of the bare loop."""
    began = time.process_time()
    trial.send(place, batch)
    return time.process_time() - began


def received(place: str) -> str:
    """A checksum of what a server was sent, where it is one of HTTP."""
    if not place.startswith("http://"):
        return ""
    with urllib.request.urlopen(f"{place}/sum") as answer:
        return str(answer.read())


class Measured(NamedTuple):
    """What was found of a sink."""

    rate: float
    """Rows per CPU-second of the writer."""
    ratio: float
    """Of its CPU-seconds to those of the loop."""
    whole: float | None
    """Rows per CPU-second of writer and server; None where the server does not count."""


def measured(trial: Trial, count: int, runs: int) -> Measured:
    """The medians of so many runs."""
    batch = sinkloops.rows(int(count * trial.share))
    server = trial.server or (lambda _: 0.0)
    with trial.serving() as place:
        target = aimed(trial.sink(place))
        received(place)
        ours(target, batch, 0)  # connections, and the limit that is found
        wrote = received(place)
        trial.send(place, batch)
        assert received(place) == wrote, "the loop sends other bytes"
        spent, whole = [], []
        for number in range(1, runs + 1):
            before = server(place)
            own = ours(target, batch, number)
            whole.append(own + server(place) - before)
            spent.append((own, bare(trial, place, batch)))
    return Measured(
        batch.num_rows / statistics.median(own for own, _ in spent),
        statistics.median(own / other for own, other in spent),
        batch.num_rows / statistics.median(whole) if trial.server else None,
    )


def main() -> int:
    """Print a line for each sink; 1 where one costs too much."""
    trials = sinkloops.trials()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {'; '.join(trials)}")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--most", type=float, default=BAR)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.serve:
        asyncio.run(_serve(told.serve))
    names = chosen(parser, told.names, trials)
    print(header("aiohttp", "grpcio", "pyarrow", "psycopg", "confluent-kafka", "influxdb-client", "redis"))
    is_dear = False
    for name in names:
        try:
            found = measured(trials[name], told.rows, told.runs)
        except RefusedError as why:
            print(f"{name}: not measured, {why.message}", flush=True)
            continue
        is_dear = is_dear or found.ratio > told.most
        print(f"{name}: {found.rate / 1_000:,.1f} k rows/CPU-s, ratio {found.ratio:.2f}", flush=True)
        if found.whole is not None:
            print(f"  with the server's: {found.whole / 1_000:,.1f} k rows/CPU-s", flush=True)
    return int(is_dear)


if __name__ == "__main__":
    sys.exit(main())
