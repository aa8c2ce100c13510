"""The sink `mixpanel`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import aiohttp
import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec.sinks.mixpanel import CAPABILITIES
from sinkloops import DAGGER, TIME, Trial, apart, digest, key, seen, text, webserver
from sinkloops.webserver import Request

_AT_ONCE = CAPABILITIES.max_rows or 1
_SECRET = "BENCH_SECRET"


def _sink(url: str) -> spec_pb2.ResolvedSink:
    os.environ[_SECRET] = "secret"  # noqa: TID251 - the writer reads it by reference
    own = spec_pb2.MixpanelSink(project="1", user="u", url=url, event="counted", identity="order_number")
    own.secret.env = _SECRET
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(mixpanel=own))


def _send(url: str, batch: pa.RecordBatch) -> None:
    address, headers = f"{url}/import?strict=1&project_id=1", {"Content-Type": "application/json"}

    def requests() -> Iterator[Request]:
        told = batch.to_pylist()
        for start in range(0, len(told), _AT_ONCE):
            events = []
            for row in told[start : start + _AT_ONCE]:
                data = {name.removeprefix("tag_"): value for name, value in seen(row).items()}
                identity = data.pop("order_number")
                del data[TIME]
                time, own = int(row[TIME].timestamp() * 1_000), digest(f"{DAGGER}/mixpanel", key(row))
                properties = {"time": time, "distinct_id": identity, "$insert_id": own, **data}
                events.append({"event": "counted", "properties": properties})
            yield Request(address, text(events).encode(), headers)

    webserver.send(requests(), auth=aiohttp.BasicAuth("u", "secret"))


TRIALS = {"mixpanel": Trial(partial(apart, "webserver"), _sink, _send)}
