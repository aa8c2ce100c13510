"""The sink `redis`: SET of JSON with a time to live, a thousand commands at once."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen

import pyarrow as pa
import redis
from daggers.v1 import spec_pb2

from cli.errors import RefusedError
from daggerspec.sinks.redis import CAPABILITIES
from sinkloops import Trial, instant, seen, text

_AT_ONCE = CAPABILITIES.max_rows or 1_000
_TTL_S = 3_600
_DEADLINE_S = 30


@contextmanager
def _serving() -> Iterator[str]:
    installed = Path(sys.prefix, "share", "daggers").glob("redis-*/redis-server")  # by `make redis`
    binary = shutil.which("redis-server") or next(installed, None)
    if binary is None:
        raise RefusedError("there is no Redis on this machine: make redis")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        said = ["--bind", "127.0.0.1", "--port", str(port), "--dir", home, "--save", ""]
        with Popen([binary, *said], stdout=DEVNULL) as server:
            try:
                _wait(port)
                yield f"127.0.0.1:{port}"
            finally:
                server.kill()


def _wait(port: int) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    with redis.Redis("127.0.0.1", port) as asking:
        while not _answers(asking):
            assert time.monotonic() < deadline, "Redis does not answer"
            time.sleep(0.05)


def _answers(asking: redis.Redis) -> bool:
    try:
        return bool(asking.ping())
    except redis.ConnectionError:
        return False


def _sink(address: str) -> spec_pb2.ResolvedSink:
    own = spec_pb2.RedisSink(address=address, key="ours:${window_timestamp}/${order_number}", plaintext=True)
    own.ttl.FromSeconds(_TTL_S)
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(redis=own))


def _send(address: str, batch: pa.RecordBatch) -> None:
    host, _, port = address.partition(":")
    told = batch.to_pylist()
    with redis.Redis(host, int(port)) as client:
        for start in range(0, len(told), _AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for row in told[start : start + _AT_ONCE]:
                key = f"theirs:{instant(row['window_timestamp'])}/{row['order_number']}"
                pipeline.set(key, text(seen(row)), px=1_000 * _TTL_S)
            pipeline.execute()


TRIALS = {"redis": Trial(_serving, _sink, _send)}
