"""Definitions shared by all readers of Protobuf messages: value types of google.protobuf, fields of maps,
words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages that hold one scalar, which may be missing."""
JSON_LIKE: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any"))
"""Messages that are read as the JSON text of their value."""
INTEGER_FIELDS: Final = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)
"""Of `cpp_type`: whole numbers."""
REAL_FIELDS: Final = frozenset({FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE})
"""Of `cpp_type`: numbers with a fraction."""
RECURSION_LIMIT: Final = 2
"""A message that contains itself is followed this often below its first occurrence; there its columns end."""
TIME_PART: Final = ":"
"""In a path to be decoded it stands between a single Timestamp or Duration and one of its fields
(`seen:seconds`), where that is wanted as it was sent, in a column of its own."""
_END_OF_TIME_S: Final = 253_402_300_800
_NANOS: Final = 1_000_000_000


def map_entry(field: FieldDescriptor) -> Descriptor | None:
    """Return the message of key and value that a map repeats; None for a field that is no map."""
    below = field.message_type
    return below if below is not None and below.GetOptions().map_entry else None


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    return map_entry(field) is not None


def children(message: Message) -> Iterator[Message]:
    """Yield the messages that stand in a message itself: of each field that is set, those of maps too."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            values = value.values() if is_map(field) else value if field.is_repeated else (value,)
            yield from (message for message in values if isinstance(message, Message))


@lru_cache(1024)  # a dagger says the same few instants again and again, and to make one takes 2 µs
def timestamp(time: datetime) -> Timestamp:
    """Convert an instant to a Timestamp. The result is shared: copy it into a message, never change it."""
    result = Timestamp()
    result.FromDatetime(time)
    return result


def is_instant(time: Timestamp) -> bool:
    """Return whether an instant is from 1970 to 9999, as event times and positions of streams are."""
    return 0 <= time.seconds < _END_OF_TIME_S and 0 <= time.nanos < _NANOS


def scalar(number: int) -> str:
    """Return the word of a .proto file for the type of a field: int32, string, group.

    number: of `FieldDescriptorProto.Type`, as descriptors have it.
    """
    word = FieldDescriptorProto.Type.Name(number)  # type: ignore[arg-type] # a descriptor has that enum
    return word.removeprefix("TYPE_").lower()
