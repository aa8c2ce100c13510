"""What all who read Protobuf messages agree on: which messages of google.protobuf are values, and words."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages that hold one scalar, which may be missing."""
JSON_LIKE: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any"))
"""Messages that are read as the JSON text of their value."""
RECURSION_LIMIT: Final = 2
"""A message that contains itself is followed this often below its first occurrence; there its columns end."""


def scalar(number: int) -> str:
    """The word of a .proto file for the type of a field: int32, string, group.

    number: of `FieldDescriptorProto.Type`, as descriptors have it.
    """
    word = FieldDescriptorProto.Type.Name(number)  # type: ignore[arg-type] # a descriptor has that enum
    return word.removeprefix("TYPE_").lower()
