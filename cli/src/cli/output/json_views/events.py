"""A record of the control topic."""

from typing import Any

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from daggerclient.times import iso

EVENTS = events_pb2.DESCRIPTOR.message_types_by_name


def event(what: gateway_pb2.Event) -> dict[str, Any]:
    """A record of the control topic; `data` is null when this command does not know its message."""
    message = unpacked(what.data)
    return {
        "sequence": what.sequence,
        "id": what.id,
        "type": what.type,
        "source": what.source,
        "subject": what.subject,
        "time": iso(what.time),
        "data": json_format.MessageToDict(message, preserving_proto_field_name=True) if message else None,
        "refused": what.refused,
        "version": what.version,
    }


def unpacked(packed: AnyMessage) -> Message | None:
    """An event of the control topic; None when this command does not know its message."""
    name = packed.TypeName().rpartition(".")[2]
    if name not in EVENTS:
        return None
    message: Message = getattr(events_pb2, name)()
    try:
        packed.Unpack(message)
    except DecodeError:
        return None
    return message
