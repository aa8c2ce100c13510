"""Rows from InfluxDB, 1.8 or 2.x, by Flux."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import urllib3
from daggers.v1 import spec_pb2
from influxdb_client.client.flux_table import FluxTable
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.rest import ApiException

from cli.errors import RefusedError, UnreachableError
from cli.secret import resolve
from cli.sinks.row import Row, newest

TIMEOUT_MS = 60_000
# window_timestamp may lie ahead of now, and records of any age may be replayed
RANGE = "start: 1677-09-22T00:00:00Z, stop: 2262-04-11T00:00:00Z"
NOT_TAGS = {"result", "table", "_start", "_stop", "_time", "_measurement"}


def read(address: spec_pb2.InfluxAddress, measurement: str, limit: int) -> list[Row]:
    """The newest rows of a measurement. Raises UnreachableError or RefusedError."""
    query = (
        f"from(bucket: {_quoted(address.bucket)}) |> range({RANGE})"
        f" |> filter(fn: (r) => r._measurement == {_quoted(measurement)})"
        ' |> drop(columns: ["_start", "_stop"])'
        ' |> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
        f' |> sort(columns: ["_time"], desc: true) |> limit(n: {limit})'
    )
    token = resolve(address.token)
    try:
        with InfluxDBClient(
            url=address.url, token=token or "", org=address.org, timeout=TIMEOUT_MS
        ) as client:
            tables = client.query_api().query(query)
    except ApiException as error:
        raise _refusal(address, error) from error
    except urllib3.exceptions.HTTPError as error:
        raise UnreachableError(
            f"InfluxDB at {address.url} does not answer", reason="INFLUX_UNREACHABLE"
        ) from error
    return newest((row for table in tables for row in _rows(table)), limit)


def _rows(table: FluxTable) -> list[Row]:
    tags = {column.label for column in table.columns if column.group} - NOT_TAGS
    rows = []
    for record in table.records:
        values: dict[str, Any] = record.values
        fields = {
            name: value
            for name, value in values.items()
            if name not in tags and name not in NOT_TAGS and value is not None
        }
        time = values["_time"]
        utc = time.astimezone(UTC) if isinstance(time, datetime) else None
        rows.append(Row(utc, {tag: values[tag] for tag in sorted(tags)}, fields))
    return rows


def _refusal(address: spec_pb2.InfluxAddress, error: ApiException) -> RefusedError:
    if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return RefusedError(f"InfluxDB at {address.url} does not accept the token", reason="INFLUX_FORBIDDEN")
    said = str(error.message or error.reason or "").strip().splitlines()
    why = said[0] if said else f"HTTP {error.status}"
    return RefusedError(f"InfluxDB at {address.url} refuses the query: {why}", reason="INFLUX_REFUSED")


def _quoted(text: str) -> str:
    """A Flux string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${").replace("\n", "\\n")
    return f'"{escaped}"'
