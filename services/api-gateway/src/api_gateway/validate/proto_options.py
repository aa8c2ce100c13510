"""Format options of .proto elements: Protobuf's own, features of editions, and custom ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2 as dp
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

_MAP_ENTRY: Final = "map_entry"
_FEATURES: Final = "features"
_QUOTED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class ProtoOptions:
    """Formats options; custom ones by the files that define them."""

    def __init__(self, files: dp.FileDescriptorSet) -> None:
        """Load the files, which are in dependency order."""
        self._pool = DescriptorPool()
        if all(file.name != dp.DESCRIPTOR.name for file in files.file):
            self._pool.AddSerializedFile(dp.DESCRIPTOR.serialized_pb)
        for file in files.file:
            self._pool.AddSerializedFile(file.SerializeToString())

    def format(self, options: Message) -> list[str]:
        """Return each option as `name = value`, but for the mark of a map's entry, which the map implies."""
        if not options.ByteSize():
            return []
        own_descriptor: Any = options.DESCRIPTOR
        known_descriptor = self._pool.FindMessageTypeByName(own_descriptor.full_name)
        # parsed again by these files' descriptors, which know custom options as extensions
        read = GetMessageClass(known_descriptor).FromString(options.SerializeToString())
        return list(_entries(read, ""))


def _entries(options: Any, prefix: str) -> Iterator[str]:
    for field, value in options.ListFields():
        name = prefix + (f"({field.full_name})" if field.is_extension else field.name)
        if field.name == _MAP_ENTRY and not prefix:
            continue
        if field.name == _FEATURES or (prefix and field.message_type is not None):
            yield from _entries(value, f"{name}.")
            continue
        for item in value if field.is_repeated else (value,):
            yield f"{name} = {_value(field, item)}"


def _value(field: FieldDescriptor, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quote(value)
        case bytes():
            return '"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'
    return str(value)


def bracket(options: list[str]) -> str:
    """Format the options behind a field or a value of an enum."""
    return f" [{', '.join(options)}]" if options else ""


def quote(text: str) -> str:
    """Quote a string for a .proto file."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _QUOTED:
        return _QUOTED[character]
    return character if character.isprintable() else "".join(f"\\x{byte:02x}" for byte in character.encode())
