"""Extract comments of fields and messages from .proto files' descriptors. Pure.

protoc stores a comment with the path to its element: numbers of lists and indexes in them, as
`google.protobuf.SourceCodeInfo` describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf import descriptor_pb2 as dp

LONGEST: Final = 1_000
"""Longest comment that is stored, in characters."""
MESSAGES: Final = dp.FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER
NESTED: Final = dp.DescriptorProto.NESTED_TYPE_FIELD_NUMBER
FIELDS: Final = dp.DescriptorProto.FIELD_FIELD_NUMBER
_SHORTEST: Final = 4
"""Length of the path to a field of a top-level message."""


def of_fields(file: dp.FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the path and the comment, on one line, of each field that has one."""
    for location in file.source_code_info.location:
        text = " ".join((location.leading_comments or location.trailing_comments).split())[:LONGEST]
        path = tuple(location.path)
        if text and len(path) >= _SHORTEST and path[-2] == FIELDS:
            yield path, text


def by_field(files: Iterable[dp.FileDescriptorProto]) -> dict[str, str]:
    """Map the full names of fields in these files to their comments."""
    return {
        name: text
        for file in files
        for path, text in of_fields(file)
        if (name := _name(file, path)) is not None
    }


def by_message(files: Iterable[dp.FileDescriptorProto]) -> dict[str, str]:
    """Map the full names of messages in these files to their comments, each on one line."""
    names: dict[str, str] = {}
    for file in files:
        text = {
            tuple(location.path): " ".join((location.leading_comments or location.trailing_comments).split())
            for location in file.source_code_info.location
        }
        pending: list[tuple[tuple[int, ...], str, dp.DescriptorProto]] = [
            ((MESSAGES, number), file.package, message) for number, message in enumerate(file.message_type)
        ]
        while pending:
            path, scope, message = pending.pop()
            full_name = f"{scope}.{message.name}" if scope else message.name
            if text.get(path):
                names[full_name] = text[path][:LONGEST]
            pending += [
                ((*path, NESTED, number), full_name, nested)
                for number, nested in enumerate(message.nested_type)
            ]
    return names


def _name(file: dp.FileDescriptorProto, path: tuple[int, ...]) -> str | None:
    """Return the full name of the field at a path; None where the path leads to none."""
    names = [file.package] if file.package else []
    try:
        if path[0] != MESSAGES or set(path[2:-2:2]) - {NESTED}:
            return None
        message = file.message_type[path[1]]
        names.append(message.name)
        for place in path[3:-2:2]:
            message = message.nested_type[place]
            names.append(message.name)
        return ".".join([*names, message.field[path[-1]].name])
    except IndexError:
        return None
