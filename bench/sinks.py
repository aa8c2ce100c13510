"""What sinks cost beside a bare loop with the same library: rows per CPU-second, and the ratio of the two.

    .venv/bin/python bench/sinks.py [--rows N] [--runs K] [--most X] [NAME ...]

A sink's writer gets the rows of one partition, encodes and sends them. The bare loop sends the same bytes,
which are made before, by the client's own calls, as many at once as the writer may. Both run in turn in one
process, their server in another; the median of K runs counts. CPU: user and system time of the process. It
ends with 1 where a ratio is above X.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiohttp
import grpc
import pyarrow as pa
from aiohttp import web
from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2
from machine import header
from yarl import URL

from daggerspec import sinks as kinds
from daggersql import Column, Role
from runtime import sinks
from runtime.clients import calls, eventloop
from runtime.clients.http import client
from runtime.encode.rows import Layout
from runtime.sinks import BatchRef, Part, Target
from runtime.sinks import grpc as grpc_sink
from runtime.sinks import http as http_sink

BAR: Final = 1.25
AT_ONCE: Final = 64
METHOD: Final = "bench.Rows/Put"
MESSAGE: Final = "bench.Row"
COLUMNS: Final = (
    ("tag_city", Role.TAG, "string", pa.string()),
    ("vehicle", Role.FIELD, "string", pa.string()),
    ("n", Role.FIELD, "bigint", pa.int64()),
    ("fare", Role.FIELD, "double", pa.float64()),
    ("order_number", Role.FIELD, "string", pa.string()),
)
LAYOUT: Final = Layout(
    tuple(Column(name, role, name, spark) for name, role, spark, _ in COLUMNS),
    hidden=("__window_start", "__window_end", "__key_0"),
)
_TIME: Final = pa.timestamp("us", "UTC")
SCHEMA: Final = pa.schema(
    [*((name, kind) for name, _, _, kind in COLUMNS),
     ("__window_start", _TIME), ("__window_end", _TIME), ("__key_0", pa.string())]
)  # fmt: skip


def rows(count: int) -> pa.RecordBatch:
    """So many rows of one window."""
    start = datetime(2026, 1, 1, 12, tzinfo=UTC)
    end = start + timedelta(minutes=1)
    numbers = range(count)
    return pa.RecordBatch.from_pydict(
        {
            "tag_city": [f"city {each % 500}" for each in numbers],
            "vehicle": ["bike" if each % 3 else "car" for each in numbers],
            "n": list(numbers),
            "fare": [each * 0.25 for each in numbers],
            "order_number": [f"O-{each:012d}" for each in numbers],
            "__window_start": [start] * count,
            "__window_end": [end] * count,
            "__key_0": [f"{each}" for each in numbers],
        },
        schema=SCHEMA,
    )


def descriptors() -> bytes:
    """The files of MESSAGE."""
    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    row = file.message_type.add(name="Row")
    types = {"string": "TYPE_STRING", "bigint": "TYPE_INT64", "double": "TYPE_DOUBLE"}
    for number, (name, _, spark, _) in enumerate(COLUMNS, 1):
        row.field.add(name=name, number=number, type=types[spark], label="LABEL_OPTIONAL")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@dataclass(frozen=True)
class Trial:
    """One sink: its address at a port, and the bare loop that sends what its writer sends."""

    server: Callable[[], Awaitable[int]]
    """Serves in a process of its own; gives the port."""
    sink: Callable[[int], spec_pb2.Sink]
    bare: Callable[[Target, pa.RecordBatch, Callable[[], Any]], None]
    """Sends a batch; `began` is called when what is sent is made."""
    share: float = 1.0
    """Of the rows that are asked for."""


async def _serve_http() -> int:
    async def taken(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    runner = web.ServerRunner(web.Server(taken))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return int(runner.addresses[0][1])


class _Taking(grpc.GenericRpcHandler):
    def service(self, _: grpc.HandlerCallDetails) -> Any:
        async def taken(_request: bytes, _context: Any) -> bytes:
            return b""

        return grpc.unary_unary_rpc_method_handler(taken)


_kept: list[Any] = []


async def _serve_grpc() -> int:
    server = grpc.aio.server(handlers=[_Taking()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    _kept.append(server)
    return int(port)


async def _lanes(send: Callable[[Any], Awaitable[None]], requests: list[Any]) -> None:
    left = deque(requests)

    async def lane() -> None:
        while left:
            await send(left.popleft())

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))


def _bare_http(target: Target, batch: pa.RecordBatch, began: Callable[[], Any]) -> None:
    server = http_sink.server_of(target.resolved)
    made = http_sink.HttpRows(target, server, batch)
    requests = [made.request(each) for each in made.parts]

    async def all_of_them() -> None:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
        ) as session:

            async def send(each: client.Request) -> None:
                url = URL(each.url, encoded=True)
                async with session.request(each.method, url, data=each.body, headers=each.headers) as answer:
                    await answer.read()

            await _lanes(send, requests)

    began()
    eventloop.run(all_of_them())


def _bare_grpc(target: Target, batch: pa.RecordBatch, began: Callable[[], Any]) -> None:
    server = grpc_sink.server_of(target.resolved)
    made = grpc_sink.CalledRows(target, server, batch)
    requests = [made.request(each) for each in made.parts]

    async def all_of_them() -> None:
        async with grpc.aio.insecure_channel(server.target) as channel:
            call: Any = channel.unary_unary(f"/{METHOD}")

            async def send(each: calls.Request) -> None:
                await call(each.message, metadata=each.metadata, timeout=10)

            await _lanes(send, requests)

    began()
    eventloop.run(all_of_them())


def _http(port: int, at_once: int) -> spec_pb2.Sink:
    url = f"http://127.0.0.1:{port}"
    return spec_pb2.Sink(http=spec_pb2.HttpSink(url=url, rows_per_request=at_once))


def _grpc(port: int) -> spec_pb2.Sink:
    own = spec_pb2.GrpcSink(target=f"127.0.0.1:{port}", method=METHOD, message=MESSAGE, plaintext=True)
    return spec_pb2.Sink(grpc=own)


TRIALS: Final = {
    "http, 1 row a request": Trial(_serve_http, lambda port: _http(port, 1), _bare_http, 0.05),
    "http, 100 rows a request": Trial(_serve_http, lambda port: _http(port, 100), _bare_http),
    "grpc": Trial(_serve_grpc, _grpc, _bare_grpc, 0.05),
}


@contextmanager
def serving(name: str) -> Iterator[int]:
    """The server of a trial, in a process of its own; its port."""
    command = [sys.executable, __file__, "--serve", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def _serve(name: str) -> None:
    print(await TRIALS[name].server(), flush=True)
    await asyncio.Event().wait()


def aimed(sink: spec_pb2.Sink) -> Target:
    """What a worker is told of a sink."""
    kinds.fill(sink, "bench", spec_pb2.DaggerSpec())
    share = spec_pb2.RateLimit(max_in_flight=AT_ONCE)
    whole = spec_pb2.ResolvedSink(sink=sink, share=share).SerializeToString()
    part = Part(BatchRef("bench", 0, 1), 0)
    return Target("bench", whole, LAYOUT, SCHEMA, descriptors(), updates=False, part=part)


def ours(target: Target, batch: pa.RecordBatch) -> float:
    """CPU-seconds of the writer."""
    began = time.process_time()
    writer = sinks.open_writer(target)
    refused = [*writer.write(batch, 0).refused, *writer.finish().refused]
    assert not refused, refused[0]
    return time.process_time() - began


def bare(trial: Trial, target: Target, batch: pa.RecordBatch) -> float:
    """CPU-seconds of the bare loop."""
    began: list[float] = []
    trial.bare(target, batch, lambda: began.append(time.process_time()))
    return time.process_time() - began[0]


def main() -> int:
    """Print a line for each sink; 1 where one costs too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {'; '.join(TRIALS)}")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--most", type=float, default=BAR)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.serve:
        asyncio.run(_serve(told.serve))
    print(header("aiohttp", "grpcio", "pyarrow"))
    is_dear = False
    for name, trial in TRIALS.items():
        if told.names and name not in told.names:
            continue
        batch = rows(int(told.rows * trial.share))
        with serving(name) as port:
            target = aimed(trial.sink(port))
            ours(target, batch)  # connections, and the limit that is found
            runs = [(ours(target, batch), bare(trial, target, batch)) for _ in range(told.runs)]
        rate = batch.num_rows / statistics.median(own for own, _ in runs) / 1_000
        ratio = statistics.median(own / other for own, other in runs)
        is_dear = is_dear or ratio > told.most
        print(f"{name}: {rate:,.1f} k rows/CPU-s, ratio {ratio:.2f}", flush=True)
    return int(is_dear)


if __name__ == "__main__":
    sys.exit(main())
