"""Descriptor sets: reads uploaded ones, merges them, keeps only comments of their source info. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf import descriptor_pb2 as dp
from google.protobuf.message import DecodeError

from protofiles.problems import Problem

MAX_SET_FILES: Final = 5_000
"""Files of an uploaded set: all are parsed before it is clear which of them are needed."""
NO_MEMORY: Final = "alloc failed"
"""Part of a DecodeError's text: Protobuf has no error class for too little memory."""
MAX_SET: Final = 4_000_000
"""Serialised size of the merged set, in bytes: it must fit into a message to a gateway."""


def read_set(name: str, content: bytes) -> dp.FileDescriptorSet | Problem:
    """Parse a serialised FileDescriptorSet, or return its problem.

    Raises: MemoryError when the parser has reached the limit of the process.
    """
    try:
        files = dp.FileDescriptorSet.FromString(content)
    except DecodeError as error:
        if NO_MEMORY in str(error):
            raise MemoryError from error
        text = "is neither a .proto file, a zip of them, nor a descriptor set (protoc --include_imports)"
        return Problem(name, 0, 0, "INVALID_SCHEMA", text)
    if not files.file:
        return Problem(name, 0, 0, "INVALID_SCHEMA", "is an empty descriptor set")
    if len(files.file) > MAX_SET_FILES:
        text = f"has {len(files.file)} files, and may have at most {MAX_SET_FILES}"
        return Problem(name, 0, 0, "TOO_MANY_FILES", text)
    return files


def merge_sets(sets: Iterable[dp.FileDescriptorSet]) -> dp.FileDescriptorSet:
    """Merge sets into one: of several files with a name the first, with comments and no other source info.

    Changes the files of the given sets.
    """
    files: dict[str, dp.FileDescriptorProto] = {}
    for descriptor_set in sets:
        for file in descriptor_set.file:
            files.setdefault(file.name, file)
    for file in files.values():
        _strip_all_but_comments(file)
    return dp.FileDescriptorSet(file=files.values())


def find_size_problem(files: dp.FileDescriptorSet) -> Problem | None:
    """Compare the serialised size of a set with MAX_SET; return None when it fits."""
    size = files.ByteSize()
    if size <= MAX_SET:
        return None
    return Problem("", 0, 0, "TOO_LARGE", f"compile to {size} bytes of descriptors, and may to {MAX_SET}")


def _strip_all_but_comments(file: dp.FileDescriptorProto) -> None:
    comments = [
        dp.SourceCodeInfo.Location(
            path=location.path,
            leading_comments=location.leading_comments,
            trailing_comments=location.trailing_comments,
        )
        for location in file.source_code_info.location
        if location.leading_comments or location.trailing_comments
    ]
    file.ClearField("source_code_info")
    if comments:
        file.source_code_info.location.extend(comments)
