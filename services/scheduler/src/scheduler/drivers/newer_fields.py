"""Finds what a message says that this version does not know: whoever wrote it is newer. Pure."""

from __future__ import annotations

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet


def unknown_field(message: Message) -> str:
    """Return the full name of a message, somewhere in this one, that has a field of a newer version.

    Empty where there is none.
    """
    if len(UnknownFieldSet(message)):
        return message.DESCRIPTOR.full_name
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            of_values = field.message_type.fields_by_name["value"].message_type
            parts = list(value.values()) if of_values is not None else []
        else:
            parts = [value] if isinstance(value, Message) else list(value)
        for part in parts:
            if name := unknown_field(part):
                return name
    return ""
