"""Convert messages to JSON documents, by their descriptors and a table of layouts.

MessageToDict of protobuf does not fit: it writes 64-bit numbers as text, leaves out what is null here, and
puts fields without a value behind all others, so nearly each of its values would have to be converted again.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from daggerspec.protobuf import map_entry

PACKAGE = "daggers.v1."
_UNSPECIFIED = "UNSPECIFIED"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a document, and the field that it shows.

    empty_is_null: "", 0 and the first value of an enum are null.
    always:        a field that is not set shows its default, not null.
    custom:        makes the value of the whole message, in place of the field.
    """

    name: str
    field: str
    empty_is_null: bool = False
    always: bool = False
    custom: Callable[[Any], Any] | None = None


class Layout:
    """The keys of a document in their order.

    keys:   separated by spaces: `key`, or `key=field` where the field has another name; behind it `?` for
            "empty is null", or `!` for "shown though it is not set".
    custom: the keys whose values are made of the whole message.
    """

    def __init__(self, keys: str, **custom: Callable[[Any], Any]) -> None:
        self.keys = [_key(word, custom) for word in keys.split()]


@dataclass(frozen=True, slots=True)
class Conversion:
    """Table of conversions from messages to documents.

    layouts:   of each message, by its name in the package.
    leaves:    what becomes of messages that are a value and no document, by full name.
    lowercase: enums whose values are written in lower case, by name in the package.
    unstripped: enums whose values have no prefix to take off.
    """

    layouts: Mapping[str, Layout]
    leaves: Mapping[str, Callable[[Any], Any]]
    lowercase: frozenset[str]
    unstripped: frozenset[str]

    def convert(self, message: Message) -> dict[str, Any]:
        """Convert a message; fields that are not set are null. Raises: KeyError for one without a layout."""
        return dict(self._items(message))

    def enum_name(self, enum: EnumDescriptor, number: int) -> str:
        """Write a value of an enum without the prefix that all have; one of a newer gateway as its number."""
        value = enum.values_by_number.get(number)
        if value is None:
            return str(number)
        name: str = value.name
        if enum.full_name.removeprefix(PACKAGE) not in self.unstripped:
            name = name.removeprefix(enum.values_by_number[0].name.removesuffix(_UNSPECIFIED))
        return name.lower() if enum.full_name.removeprefix(PACKAGE) in self.lowercase else name

    def _items(self, message: Message) -> Iterator[tuple[str, Any]]:
        for key in self.layouts[message.DESCRIPTOR.full_name.removeprefix(PACKAGE)].keys:
            yield key.name, key.custom(message) if key.custom else self._value(message, key)

    def _value(self, message: Message, key: Key) -> Any:
        field: Any = message.DESCRIPTOR.fields_by_name[key.field]
        if field.has_presence and not key.always and not message.HasField(key.field):
            return None
        value = getattr(message, key.field)
        if entry := map_entry(field):
            inside: Any = entry.fields_by_name["value"]
            return {name: self._one(inside, one) for name, one in value.items()}
        if field.is_repeated:
            return [self._one(field, one) for one in value]
        return None if key.empty_is_null and not value else self._one(field, value)

    def _one(self, field: FieldDescriptor, value: Any) -> Any:
        if field.enum_type is not None:
            return self.enum_name(field.enum_type, value)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return base64.b64encode(value).decode()
        if field.message_type is None:
            return value
        leaf = self.leaves.get(field.message_type.full_name)
        return leaf(value) if leaf else self.convert(value)


def _key(word: str, custom: Mapping[str, Callable[[Any], Any]]) -> Key:
    name, _, field = word.rstrip("?!").partition("=")
    return Key(name, field or name, word.endswith("?"), word.endswith("!"), custom.get(name))
