"""Descriptor sets: those that are brought, and the one that is given. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf import descriptor_pb2 as dp
from google.protobuf.message import DecodeError

from protofiles.problems import Problem

MAX_SET_FILES: Final = 5_000
"""Files that a descriptor set may have: each is looked at before it is known whether it is needed."""
MAX_SET: Final = 4_000_000
"""Bytes of the descriptor set that is given: a message to a gateway has room for it."""


def read_set(name: str, content: bytes) -> dp.FileDescriptorSet | Problem:
    """A serialised FileDescriptorSet; or what is wrong with it."""
    try:
        files = dp.FileDescriptorSet.FromString(content)
    except DecodeError as error:
        if "alloc failed" in str(error):
            raise MemoryError from error
        text = "is neither a .proto file, a zip of them, nor a descriptor set (protoc --include_imports)"
        return Problem(name, 0, 0, "INVALID_SCHEMA", text)
    if not files.file:
        return Problem(name, 0, 0, "INVALID_SCHEMA", "is an empty descriptor set")
    if len(files.file) > MAX_SET_FILES:
        text = f"has {len(files.file)} files, and may have at most {MAX_SET_FILES}"
        return Problem(name, 0, 0, "TOO_MANY_FILES", text)
    return files


def merged(sets: Iterable[dp.FileDescriptorSet]) -> dp.FileDescriptorSet:
    """All files once, the first of a name, with their comments and without other places."""
    files: dict[str, dp.FileDescriptorProto] = {}
    for one in sets:
        for file in one.file:
            files.setdefault(file.name, file)
    for file in files.values():
        _leave_comments(file)
    return dp.FileDescriptorSet(file=files.values())


def size_problem(files: dp.FileDescriptorSet) -> Problem | None:
    """What is wrong with the size of a set; None when nothing is."""
    size = files.ByteSize()
    if size <= MAX_SET:
        return None
    return Problem("", 0, 0, "TOO_LARGE", f"compile to {size} bytes of descriptors, and may to {MAX_SET}")


def _leave_comments(file: dp.FileDescriptorProto) -> None:
    commented = [
        dp.SourceCodeInfo.Location(
            path=location.path,
            leading_comments=location.leading_comments,
            trailing_comments=location.trailing_comments,
        )
        for location in file.source_code_info.location
        if location.leading_comments or location.trailing_comments
    ]
    file.ClearField("source_code_info")
    if commented:
        file.source_code_info.location.extend(commented)
