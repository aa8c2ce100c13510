"""Write Protobuf messages that stand for JSON as JSON text: Struct, Value, ListValue, and Any."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias

from google.protobuf import any_pb2, json_format, struct_pb2
from google.protobuf.descriptor_pool import DescriptorPool

Render: TypeAlias = Callable[[bytes], str]


def renderer(message: str, pool: DescriptorPool) -> Render:
    """Return a function from the bytes of a message named `message` to JSON text, keys sorted.

    `pool` knows the types an Any may hold. The function raises `google.protobuf.message.DecodeError`, which
    callers make a ValueError, for bytes that are no such message.
    """
    match message:
        case "google.protobuf.Struct":
            return lambda data: _text(_struct(struct_pb2.Struct.FromString(data)))
        case "google.protobuf.ListValue":
            return lambda data: _text([_value(one) for one in struct_pb2.ListValue.FromString(data).values])
        case "google.protobuf.Value":
            return lambda data: _text(_value(struct_pb2.Value.FromString(data)))
        case _:
            return lambda data: _text(_any(any_pb2.Any.FromString(data), pool))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _struct(message: struct_pb2.Struct) -> dict[str, Any]:
    return {key: _value(value) for key, value in message.fields.items()}


def _value(message: struct_pb2.Value) -> Any:
    match message.WhichOneof("kind"):
        case "number_value":
            number = message.number_value
            # JSON has no NaN and no infinity: they become text.
            if not math.isfinite(number):
                return str(number)
            return int(number) if number.is_integer() and abs(number) < 2**53 else number
        case "string_value":
            return message.string_value
        case "bool_value":
            return message.bool_value
        case "struct_value":
            return _struct(message.struct_value)
        case "list_value":
            return [_value(one) for one in message.list_value.values]
        case _:
            return None


def _any(message: any_pb2.Any, pool: DescriptorPool) -> Any:
    """Convert an Any of a registered type to its fields, any other to its type and its bytes in base64."""
    try:
        return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
    except (TypeError, json_format.Error):
        return {"@type": message.type_url, "value": base64.b64encode(message.value).decode("ascii")}
