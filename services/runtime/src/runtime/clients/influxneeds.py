"""What keeps every point out of InfluxDB 1.8, found before the first one: its retention policy is not there.

A write without points does not look at it, and is the only one that leaves nothing behind.
"""

from __future__ import annotations

import json
from typing import Any

from daggers.v1 import spec_pb2
from influxdb_client._sync.api_client import ApiClient
from influxdb_client.rest import ApiException

from runtime.errors import JobError, external


def lacks_policy(api: ApiClient, bucket: str) -> bool:
    """Whether a bucket DATABASE/POLICY names a policy that its database has not; False where nobody tells.

    Raises: urllib3.exceptions.HTTPError, OSError.
    """
    database, _, policy = bucket.partition("/")
    if not policy:
        return False
    asked = [("db", database), ("q", f"SHOW RETENTION POLICIES ON {_quoted(database)}")]
    try:
        answer, _, _ = api.call_api(  # type: ignore[no-untyped-call]  # the library's
            "/query", "GET", {}, asked, {}, response_type=str, _return_http_data_only=False
        )
        [result] = json.loads(answer)["results"]
        known: list[list[Any]] = result["series"][0].get("values", [])
    except (ApiException, ValueError, KeyError, IndexError, TypeError):
        return False  # who may write need not be told
    return policy not in {row[0] for row in known}


def missing_policy(address: spec_pb2.InfluxAddress) -> JobError:
    """What is wrong, with the statement that helps."""
    database, _, policy = address.bucket.partition("/")
    made = f"CREATE RETENTION POLICY {_quoted(policy)} ON {_quoted(database)} DURATION INF REPLICATION 1"
    what = f"InfluxDB at {address.url} has no retention policy for {address.bucket!r}"
    return external("SINK_MISSING", f"{what}: {made}", retryable=True)


def _quoted(name: str) -> str:
    """An identifier of InfluxQL."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
