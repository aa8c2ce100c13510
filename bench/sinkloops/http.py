"""The sink `http`, one row a request and a hundred."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from daggers.v1 import spec_pb2

from sinkloops import AT_ONCE, DAGGER, Trial, apart, digest, key, seen, text, webserver
from sinkloops.webserver import Request


def _sink(url: str, at_once: int) -> spec_pb2.ResolvedSink:
    sink = spec_pb2.Sink(http=spec_pb2.HttpSink(url=url, rows_per_request=at_once))
    return spec_pb2.ResolvedSink(sink=sink)


def one(url: str, batch: pa.RecordBatch, lanes: int = AT_ONCE) -> None:
    """A request for each row, so many at once."""

    def requests() -> Iterator[Request]:
        for row in batch.to_pylist():
            told = digest(f"{DAGGER}/http", key(row))
            headers = {"Content-Type": "application/json", "Idempotency-Key": told, "ce-id": told}
            yield Request(url, text(seen(row)).encode(), headers)

    webserver.send(requests(), lanes)


def _many(url: str, batch: pa.RecordBatch, at_once: int) -> None:
    def requests() -> Iterator[Request]:
        keyed = sorted(((key(row), row) for row in batch.to_pylist()), key=lambda pair: pair[0])
        for start in range(0, len(keyed), at_once):
            part = keyed[start : start + at_once]
            told = digest(f"{DAGGER}/http", "\n".join(each for each, _ in part))
            headers = {"Content-Type": "application/json", "Idempotency-Key": told}
            yield Request(url, text([seen(row) for _, row in part]).encode(), headers)

    webserver.send(requests())


_serving = partial(apart, "webserver")
TRIALS = {
    "http, 1 row a request": Trial(_serving, partial(_sink, at_once=1), one, 0.05),
    "http, 100 rows a request": Trial(_serving, partial(_sink, at_once=100), partial(_many, at_once=100)),
}
