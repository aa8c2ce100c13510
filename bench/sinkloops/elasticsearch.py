"""The sink `elasticsearch`: `_bulk` requests of a thousand documents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from daggers.v1 import spec_pb2

from sinkloops import DAGGER, Trial, apart, digest, key, seen, text, webserver
from sinkloops.webserver import Request

_AT_ONCE = 1_000
_PATH = "/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason"


def _sink(url: str) -> spec_pb2.ResolvedSink:
    own = spec_pb2.ElasticsearchSink(url=url, index="trips")
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(elasticsearch=own))


def _send(url: str, batch: pa.RecordBatch) -> None:
    def requests() -> Iterator[Request]:
        told = batch.to_pylist()
        for start in range(0, len(told), _AT_ONCE):
            lines = []
            for row in told[start : start + _AT_ONCE]:
                head = {"index": {"_index": "trips", "_id": digest(DAGGER, key(row))}}
                lines.append(f"{text(head)}\n{text(seen(row))}\n")
            yield Request(f"{url}{_PATH}", "".join(lines).encode(), {"Content-Type": "application/x-ndjson"})

    webserver.send(requests())


TRIALS = {"elasticsearch": Trial(partial(apart, "webserver"), _sink, _send)}
