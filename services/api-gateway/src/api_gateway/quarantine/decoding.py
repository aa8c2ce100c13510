"""Decode quarantined records to JSON, by the schema that is registered now. Pure."""

from __future__ import annotations

import json
from typing import Final

from daggers.v1 import telemetry_pb2
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from api_gateway.validate.schemas import descriptor
from fleet import Fleet

_SINK: Final = "sink"


def decode(record: telemetry_pb2.Quarantined, fleet: Fleet) -> tuple[str, str]:
    """Decode a record to JSON; return an empty text and the reason where that fails."""
    if record.stage == _SINK:
        return record.decoded_prefix or record.value.decode(errors="replace"), ""
    schema = fleet.messages.get(record.message)
    if schema is None:
        return "", f"message {record.message or '?'} is not registered"
    if record.truncated:
        return "", f"only {len(record.value)} bytes of it are kept"
    message = GetMessageClass(descriptor(schema.value, record.message))()
    try:
        message.ParseFromString(record.value)
        text = MessageToJson(message, indent=None)
    except (DecodeError, TypeError, ValueError):
        return "", f"it is no {record.message}, as that is registered now"
    return json.dumps(json.loads(text), ensure_ascii=False), ""
