"""Check before the first point whether a retention policy of InfluxDB 1.8 exists.

A write without points would not show it: InfluxDB does not look at the policy then.
"""

from __future__ import annotations

import json
from typing import Any

from daggers.v1 import spec_pb2
from influxdb_client._sync.api_client import ApiClient
from influxdb_client.rest import ApiException

from runtime.errors import JobError, external


def lacks_policy(api: ApiClient, bucket: str) -> bool:
    """Tell whether a bucket DATABASE/POLICY names a missing policy; False where the server does not tell.

    Raises: urllib3.exceptions.HTTPError, OSError.
    """
    database, _, policy = bucket.partition("/")
    if not policy:
        return False
    query = [("db", database), ("q", f"SHOW RETENTION POLICIES ON {_quote(database)}")]
    try:
        answer, _, _ = api.call_api(  # type: ignore[no-untyped-call]  # the library's
            "/query", "GET", {}, query, {}, response_type=str, _return_http_data_only=False
        )
        [result] = json.loads(answer)["results"]
        policies: list[list[Any]] = result["series"][0].get("values", [])
    except (ApiException, ValueError, KeyError, IndexError, TypeError):
        return False  # a writer may lack the right to read policies
    return policy not in {row[0] for row in policies}


def missing_policy_error(address: spec_pb2.InfluxAddress) -> JobError:
    """Build the error of a missing policy, with the statement that creates it."""
    database, _, policy = address.bucket.partition("/")
    statement = f"CREATE RETENTION POLICY {_quote(policy)} ON {_quote(database)} DURATION INF REPLICATION 1"
    problem = f"InfluxDB at {address.url} has no retention policy for {address.bucket!r}"
    return external("SINK_MISSING", f"{problem}: {statement}", retryable=True)


def _quote(name: str) -> str:
    """Quote an identifier of InfluxQL."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
