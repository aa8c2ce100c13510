"""The data of a record of the control topic."""

from typing import Any

from daggers.v1 import events_pb2
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

EVENTS = events_pb2.DESCRIPTOR.message_types_by_name


def data(packed: AnyMessage) -> dict[str, Any] | None:
    """Convert an event into its JSON document; None when this command does not know its message."""
    from google.protobuf import json_format  # takes long to load, and only events need it

    message = unpack(packed)
    return json_format.MessageToDict(message, preserving_proto_field_name=True) if message else None


def unpack(packed: AnyMessage) -> Message | None:
    """Unpack an event; None when this command does not know its message."""
    name = packed.TypeName().rpartition(".")[2]
    if name not in EVENTS:
        return None
    message: Message = getattr(events_pb2, name)()
    try:
        packed.Unpack(message)
    except DecodeError:
        return None
    return message
