"""The sink `influx`: lines made by hand, a tenth of what the client's own `Point` costs."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from daggers.v1 import spec_pb2
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS

from daggerspec.sinks.influx import CAPABILITIES
from sinkloops import NAMES, TIME, Trial, apart

_AT_ONCE = CAPABILITIES.max_rows or 5_000
_TAG = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ "})
_TEXT = str.maketrans({'"': r"\"", "\\": r"\\"})


def _sink(url: str) -> spec_pb2.ResolvedSink:
    own = spec_pb2.InfluxSink(measurement="trips")
    own.address.url, own.address.org, own.address.bucket = url, "o", "b"
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(influx=own))


def _send(url: str, batch: pa.RecordBatch) -> None:
    with InfluxDBClient(url=url, token="", org="o") as client, client.write_api(SYNCHRONOUS) as api:
        told = batch.select(NAMES).to_pylist()
        for start in range(0, len(told), _AT_ONCE):
            lines = [
                f"trips,tag_city={row['tag_city'].translate(_TAG)}"
                f" fare={repr(row['fare']).removesuffix('.0')},n={row['n']}i,"
                f'order_number="{row["order_number"].translate(_TEXT)}",vehicle="{row["vehicle"].translate(_TEXT)}"'
                f" {int(row[TIME].timestamp()) * 1_000_000_000}"
                for row in told[start : start + _AT_ONCE]
            ]
            api.write(bucket="b", record="\n".join(lines).encode())


TRIALS = {"influx": Trial(partial(apart, "webserver"), _sink, _send)}
