"""Options of .proto elements as .proto text: those of Protobuf, features of editions, custom ones. Pure."""

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


class Options:
    """Writes options, custom ones by the files that define them."""

    def __init__(self, files: dp.FileDescriptorSet) -> None:
        """`files` in dependency order."""
        self._pool = DescriptorPool()
        if all(file.name != dp.DESCRIPTOR.name for file in files.file):
            self._pool.AddSerializedFile(dp.DESCRIPTOR.serialized_pb)
        for file in files.file:
            self._pool.AddSerializedFile(file.SerializeToString())

    def written(self, options: Message) -> list[str]:
        """Each as `name = value`; a map's mark is none, for the map itself is written."""
        if not options.ByteSize():
            return []
        described: Any = options.DESCRIPTOR
        known = self._pool.FindMessageTypeByName(described.full_name)
        # Read again by the files at hand, where custom options are known as extensions.
        read = GetMessageClass(known).FromString(options.SerializeToString())
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
            return quoted(value)
        case bytes():
            return '"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'
    return str(value)


def bracketed(options: list[str]) -> str:
    """Options behind a field or a value of an enum."""
    return f" [{', '.join(options)}]" if options else ""


def quoted(text: str) -> str:
    """A string of a .proto file."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _QUOTED:
        return _QUOTED[character]
    return character if character.isprintable() else "".join(f"\\x{byte:02x}" for byte in character.encode())
