"""Read the fields of a broken record that stand before the damage."""

from __future__ import annotations

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

_END_GROUP = 4
_MAX_CHARS = 64 * 1024
_MAX_DEPTH = 100


def prefix(value: bytes, message: Descriptor) -> str:
    """Write the fields of `value` before its damage (all of them if there is none) as JSON text; "" for none.

    Fields are taken whole: a nested message with a defect inside is left out, with all that follows it.
    Shortened to about 64 Ki characters by leaving out fields from the end.
    """
    ends = _field_ends(value)
    kind = GetMessageClass(message)
    # Once a prefix is broken every longer one is: find the longest sound one by halving.
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if _parse(kind, value[: ends[middle - 1]]) is None:
            high = middle - 1
        else:
            low = middle
    while low:
        parsed = _parse(kind, value[: ends[low - 1]])
        text = "" if parsed is None else _json(parsed)
        if len(text) <= _MAX_CHARS:
            return "" if text == "{}" else text
        low //= 2
    return ""


def _parse(kind: type[Message], data: bytes) -> Message | None:
    message = kind()
    try:
        message.MergeFromString(data)
    except (DecodeError, UnicodeDecodeError):
        return None
    return message


def _json(message: Message) -> str:
    try:
        return json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None)
    except (json_format.Error, TypeError, ValueError, RecursionError):
        # A time out of range, an Any of an unknown type: what the text format shows is better than nothing.
        return str(message)


def _field_ends(value: bytes) -> list[int]:
    """Return the end of each top-level field of `value`, up to the first that has none."""
    ends: list[int] = []
    begin = 0
    while begin < len(value):
        end = _skip(value, begin, 0)
        if end is None:
            break
        ends.append(end)
        begin = end
    return ends


def _skip(value: bytes, position: int, depth: int) -> int | None:
    """Return the end of the field that begins at `position`, or None when it has none."""
    tag, position = _varint(value, position)
    wire = tag & 7
    if position < 0 or tag >> 3 == 0 or depth > _MAX_DEPTH:
        return None
    match wire:
        case 0:
            _, end = _varint(value, position)
        case 1:
            end = position + 8
        case 2:
            length, position = _varint(value, position)
            end = position + length if position >= 0 else -1
        case 3:
            return _skip_group(value, position, tag >> 3, depth)
        case 5:
            end = position + 4
        case _:
            return None
    return end if 0 <= end <= len(value) else None


def _skip_group(value: bytes, position: int, number: int, depth: int) -> int | None:
    """Return the end of the group whose tag ends at `position`, or None when it has none."""
    while position < len(value):
        tag, after = _varint(value, position)
        if after >= 0 and tag & 7 == _END_GROUP:
            return after if tag >> 3 == number else None
        end = _skip(value, position, depth + 1)
        if end is None:
            return None
        position = end
    return None


def _varint(value: bytes, position: int) -> tuple[int, int]:
    """Return the varint at `position` and its end; the end is -1 when it has none."""
    number = 0
    for shift in range(0, 70, 7):
        if not 0 <= position < len(value):
            return 0, -1
        byte = value[position]
        number |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return number, position
    return 0, -1
