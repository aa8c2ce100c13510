"""A record that was set aside."""

import base64
import json
from typing import Any

from daggers.v1 import telemetry_pb2

from daggerclient.times import iso


def quarantined(what: telemetry_pb2.Quarantined) -> dict[str, Any]:
    """A record that was set aside; its bytes in base64, and what could be read of them."""
    try:
        prefix = json.loads(what.decoded_prefix) if what.decoded_prefix else None
    except ValueError:
        prefix = what.decoded_prefix
    return {
        "id": what.id,
        "topic": what.topic,
        "sink": what.sink,
        "partition": what.partition,
        "offset": what.offset,
        "stage": what.stage,
        "reason": what.reason,
        "detail": what.detail,
        "message": what.message,
        "decoded_prefix": prefix,
        "generation": what.generation,
        "record_time": iso(what.record_time) if what.HasField("record_time") else None,
        "time": iso(what.time),
        "key": base64.b64encode(what.key).decode(),
        "value": base64.b64encode(what.value).decode(),
        "truncated": what.truncated,
    }
