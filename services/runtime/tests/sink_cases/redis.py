"""The sink `redis` against a server of the run's own, as hashes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import Case, Counts
from tests import redis as server

from daggerspec.sinks import redis as kind

SERVES_APART = True
"""Its server is a process of its own, which can be made to stand still."""
POISON = "held", 1
"""A city whose keys hold something else."""
_POISONED = ("2026-01-01T12:01:00Z", *(f"2026-01-02T00:0{number}:00Z" for number in range(3)))


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, printed
    address, password = request.getfixturevalue("redis")
    own = sink(address, password, request.getfixturevalue("tmp_path"), type="TYPE_HASH")
    prefix = own.sink.redis.key.partition("$")[0]
    looking = server.client(address, password)
    request.addfinalizer(looking.close)
    for time in _POISONED:
        looking.rpush(f"{prefix}{time}/{POISON[0]}", "another value")

    def read() -> Counts:
        rows: list[dict[str, Any]] = [
            looking.hgetall(key) for key in looking.scan_iter(f"{prefix}*", 1000, "hash")
        ]
        return {(row["window_timestamp"], row["tag_city"]): int(row["n"]) for row in rows}

    return own, read


def sink(address: str, password: str, folder: Path, **said: Any) -> spec_pb2.ResolvedSink:
    """A sink with its defaults said, and keys of its own."""
    secret = folder / "redis-password"
    secret.write_text(f"{password}\n")
    own = {"plaintext": True, "key": f"{uuid4().hex}:${{window_timestamp}}/${{tag_city}}"} | said
    made = spec_pb2.ResolvedSink()
    made.sink.redis.CopyFrom(spec_pb2.RedisSink(address=address, **own))
    made.sink.redis.password.file = str(secret)
    kind.fill(made.sink.redis, "d", spec_pb2.DaggerSpec())
    return made


def at(sink: spec_pb2.ResolvedSink, port: int) -> spec_pb2.ResolvedSink:
    """The sink behind another port of this machine."""
    moved = spec_pb2.ResolvedSink()
    moved.CopyFrom(sink)
    moved.sink.redis.address = f"127.0.0.1:{port}"
    return moved


@contextmanager
def silence(sink: spec_pb2.ResolvedSink, _: pytest.MonkeyPatch) -> Iterator[spec_pb2.ResolvedSink]:
    """The sink where nobody listens."""
    yield at(sink, 1)


def strings(address: str, password: str, own: spec_pb2.ResolvedSink) -> dict[str, dict[str, Any]]:
    """The rows behind the keys of a sink of strings, by what tells their keys apart."""
    prefix = own.sink.redis.key.partition("$")[0]
    with server.client(address, password) as looking:
        keys: list[str] = list(looking.scan_iter(f"{prefix}*", 1000))
        return {key.removeprefix(prefix): json.loads(str(looking.get(key))) for key in keys}
