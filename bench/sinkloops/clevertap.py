"""The sink `clevertap`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec.sinks.clevertap import CAPABILITIES, MOST_IN_FLIGHT
from sinkloops import NAMES, TIME, Trial, apart, seen, text, webserver
from sinkloops.webserver import Request

_AT_ONCE = CAPABILITIES.max_rows or 1
_SECRET = "BENCH_SECRET"


def _sink(url: str) -> spec_pb2.ResolvedSink:
    os.environ[_SECRET] = "passcode"  # noqa: TID251 - the writer reads it by reference
    own = spec_pb2.CleverTapSink(
        account="ACC", region="in1", url=url, event="counted", identity="order_number"
    )
    own.passcode.env = _SECRET
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(clevertap=own))


def _send(url: str, batch: pa.RecordBatch) -> None:
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "X-CleverTap-Account-Id": "ACC",
        "X-CleverTap-Passcode": "passcode",
    }

    def requests() -> Iterator[Request]:
        told = batch.select(NAMES).to_pylist()
        for start in range(0, len(told), _AT_ONCE):
            events = []
            for row in told[start : start + _AT_ONCE]:
                data = {name.removeprefix("tag_"): value for name, value in seen(row).items()}
                identity = data.pop("order_number")
                del data[TIME]
                event = {"type": "event", "identity": identity, "ts": int(row[TIME].timestamp())}
                events.append({**event, "evtName": "counted", "evtData": data})
            yield Request(f"{url}/1/upload", text({"d": events}).encode(), headers)

    webserver.send(requests(), MOST_IN_FLIGHT)


TRIALS = {"clevertap": Trial(partial(apart, "webserver"), _sink, _send)}
