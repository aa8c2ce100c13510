"""Reduce a user's Protobuf files to those that are registered, and look fields up in them. Pure.

Registered are the files that define the user's messages and all their imports, in dependency order, without
services; of source information only comments of fields are stored. Well-known types are the gateway's own,
whatever the user sends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from daggers.v1 import spec_pb2
from google.protobuf import (
    any_pb2,
    api_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf import descriptor_pb2 as dp
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from api_gateway.validate import comments, request_fields
from daggerspec.nearest import hint, nearest
from daggerspec.protobuf import TIMESTAMP
from daggerspec.violation import Violation
from fleet.fold.catalogue import closure, defining_file
from protofiles.descriptors import MAX_SET_FILES

MAX_COMMENTS: Final = 128 * 1024
"""Most bytes of comments in a schema; those of a schema with more are dropped."""
_AT: Final = "schema.files"
_POOL_SAYS: Final = "Couldn't build proto file into descriptor pool: "
_WELL_KNOWN: Final = {
    module.DESCRIPTOR.name: dp.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for module in (
        any_pb2,
        api_pb2,
        dp,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )
}


class Unusable(Exception):  # noqa: N818 - reads as what is wrong
    """The files cannot be registered; `violations` has every reason that was found."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__(f"{len(violations)} problems")
        self.violations = tuple(violations)


def prune(files: dp.FileDescriptorSet) -> spec_pb2.Schema:
    """Reduce files to what is registered of them. Raises: Unusable."""
    if len(files.file) > MAX_SET_FILES:
        text = f"must not be more than {MAX_SET_FILES}, and are {len(files.file)}"
        raise Unusable([Violation(_AT, text, "TOO_MANY")])
    own = {file.name: _strip(file) for file in files.file if file.name not in _WELL_KNOWN}
    if sum(file.source_code_info.ByteSize() for file in own.values()) > MAX_COMMENTS:
        for file in own.values():
            file.ClearField("source_code_info")
    violations = list(_problems(files, own))
    if violations:
        raise Unusable(violations)
    with_messages = [name for name, file in own.items() if file.message_type]
    everything = dp.FileDescriptorSet(file=[*own.values(), *_WELL_KNOWN.values()])
    ordered = closure(everything, with_messages)
    # before the pool, which takes a hundred times the memory
    too_large = list(request_fields.event_size(_AT, sum(file.ByteSize() for file in ordered)))
    if too_large:
        raise Unusable(too_large)
    pool = DescriptorPool()
    for file in ordered:
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as error:  # the pool's text explains any kind of error
            why = " ".join(str(error).split()).removeprefix(_POOL_SAYS)
            raise Unusable([Violation(_AT, f"{file.name}: {why}", "INVALID_FILE")]) from error
    messages = sorted(name for file in ordered if file.name in own for name, _ in messages_of(file))
    return spec_pb2.Schema(files=dp.FileDescriptorSet(file=ordered), messages=messages)


def messages_of(file: dp.FileDescriptorProto) -> Iterator[tuple[str, dp.DescriptorProto]]:
    """Yield a file's messages, also nested ones, by full name; no entries of maps."""
    pending = [(file.package, message) for message in file.message_type]
    while pending:
        scope, message = pending.pop()
        if message.options.map_entry:
            continue
        full_name = f"{scope}.{message.name}" if scope else message.name
        yield full_name, message
        pending.extend((full_name, nested) for nested in message.nested_type)


def _problems(files: dp.FileDescriptorSet, own: dict[str, dp.FileDescriptorProto]) -> Iterator[Violation]:
    names = [file.name for file in files.file]
    for name in sorted(name for name, times in Counter(names).items() if times > 1):
        yield Violation(_AT, f"{name} is there twice", "DUPLICATE")
    for name, file in own.items():
        if not name:
            yield Violation(_AT, "a file has no name", "INVALID_FILE")
        for missing in file.FindInitializationErrors():  # type: ignore[attr-defined] # not in the stubs
            yield Violation(_AT, f"{name} has no {missing}, which is required", "INVALID_FILE")
        for needed in file.dependency:
            if needed not in own and needed not in _WELL_KNOWN:
                yield Violation(
                    _AT, f"{name} imports {needed}, which is not among the files", "MISSING_IMPORT"
                )
    if not any(file.message_type for file in own.values()):
        yield Violation(_AT, "define no message", "REQUIRED")
    yield from _cycles(own)


def _cycles(own: dict[str, dp.FileDescriptorProto]) -> Iterator[Violation]:
    """Yield a violation for files that import each other in a circle, which have no order."""
    left = {name: {needed for needed in file.dependency if needed in own} for name, file in own.items()}
    while free := [name for name, needed in left.items() if not needed]:
        for name in free:
            del left[name]
        for needed in left.values():
            needed.difference_update(free)
    if left:
        yield Violation(_AT, f"{', '.join(sorted(left))} import each other in a circle", "IMPORT_CYCLE")


def _strip(file: dp.FileDescriptorProto) -> dp.FileDescriptorProto:
    copy = dp.FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("service")
    copy.ClearField("source_code_info")
    for path, comment in comments.of_fields(file):
        copy.source_code_info.location.add(path=path, leading_comments=comment)
    return copy


def descriptor(schema: spec_pb2.Schema, message: str) -> Descriptor:
    """Return the descriptor of a registered schema's message, from a pool of its own."""
    pool = DescriptorPool()
    for file in schema.files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName(message)


def of_message(schema: spec_pb2.Schema, message: str) -> spec_pb2.Schema:
    """Return the part of a registered schema that one message needs: its file and all imports."""
    root = defining_file(schema.files, message)
    files = closure(schema.files, [root] if root else [])
    defined = sorted(name for file in files if file.name not in _WELL_KNOWN for name, _ in messages_of(file))
    return spec_pb2.Schema(files=dp.FileDescriptorSet(file=files), messages=defined)


def is_well_known(file: str) -> bool:
    """Return whether a file is one of Google's, which every installation has."""
    return file in _WELL_KNOWN


def time_field(path: str, value: str, message: Descriptor) -> Iterator[Violation]:
    """Yield a violation unless `value` leads to a single google.protobuf.Timestamp of the message."""
    owner: Descriptor = message
    *parents, leaf = value.split(".")
    for number, part in enumerate([*parents, leaf]):
        field = owner.fields_by_name.get(part)
        if field is None:
            near = nearest(part, [field_.name for field_ in owner.fields if _may_lead_on(field_)])
            text = f"is not there: {owner.full_name} has no field {part}{hint(near, '')}"
            suggestion = (
                ".".join([*parents[:number], near, *[*parents, leaf][number + 1 :]]) if near else None
            )
            yield Violation(path, text, "UNKNOWN_FIELD", suggestion=suggestion)
            return
        if field.message_type is None or field.is_repeated:
            break
        if number == len(parents) and field.message_type.full_name == TIMESTAMP:
            return
        owner = field.message_type
    yield Violation(path, f"must lead to a single {TIMESTAMP}", "NOT_A_TIMESTAMP")


def field(path: str, value: str, message: Descriptor) -> Iterator[Violation]:
    """Yield a violation unless `value` leads to a field of the message, through messages, and through lists
    of them.
    """
    owner: Descriptor | None = message
    parts = value.split(".")
    for number, part in enumerate(parts):
        step = owner.fields_by_name.get(part) if owner is not None else None
        if step is None or owner is None:
            names = [field_.name for field_ in owner.fields] if owner is not None else []
            near = nearest(part, names)
            where = owner.full_name if owner is not None else ".".join(parts[:number])
            suggestion = ".".join([*parts[:number], near, *parts[number + 1 :]]) if near else None
            text = f"is not there: {where} has no field {part}{hint(near, '')}"
            yield Violation(path, text, "UNKNOWN_FIELD", suggestion=suggestion)
            return
        owner = step.message_type
        if owner is not None and owner.GetOptions().map_entry:
            owner = None  # a map is sensitive as a whole


def _may_lead_on(field: FieldDescriptor) -> bool:
    """Return whether the path of a time field may lead through this field."""
    return field.message_type is not None and not field.is_repeated
