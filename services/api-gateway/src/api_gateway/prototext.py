"""A registered message as .proto text, for people. Pure.

Of comments those of fields are in it, as they are registered. Options are not: nobody here goes by them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from google.protobuf import descriptor_pb2 as dp

from api_gateway import comments, schemas
from daggerspec.protobuf import scalar

_INDENT: Final = "  "
_WIDTH: Final = 100
_Place = tuple[int, ...]
"""The way down to something in its file, as `google.protobuf.SourceCodeInfo` has it."""
_Type = dp.DescriptorProto | dp.EnumDescriptorProto
_FIELD: Final = dp.FieldDescriptorProto


def message(files: dp.FileDescriptorSet, name: str) -> str:
    """The message and all that its fields refer to, by file. A nested one is shown in the one around it."""
    outermost = {f".{full}": key for file in files.file for full, key in _inside(file)}
    own = {key: (file, declared) for file in files.file for key, declared in _top(file)}
    wanted, pending = set[str](), [outermost[f".{name}"]]
    while pending:
        key = pending.pop()
        file, declared = own[key]
        if key in wanted or schemas.is_well_known(file.name):
            continue
        wanted.add(key)
        if isinstance(declared, dp.DescriptorProto):
            pending += [outermost[type_name] for type_name in _referred(declared)]
    shown = [(file, [declared for key, declared in _top(file) if key in wanted]) for file in files.file]
    return "\n".join("\n".join(_file(file, types, files)) for file, types in shown if types)


def _top(file: dp.FileDescriptorProto) -> Iterator[tuple[str, _Type]]:
    """Enums and messages that stand in no other, by full name."""
    for enum in file.enum_type:
        yield _full(file.package, enum.name), enum
    for message in file.message_type:
        yield _full(file.package, message.name), message


def _inside(file: dp.FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """The full name of everything that a file defines, and of what stands in no other around it."""
    for key, declared in _top(file):
        yield key, key
        pending = [(key, declared)] if isinstance(declared, dp.DescriptorProto) else []
        while pending:
            scope, around = pending.pop()
            for enum in around.enum_type:
                yield _full(scope, enum.name), key
            for nested in around.nested_type:
                yield _full(scope, nested.name), key
                pending.append((_full(scope, nested.name), nested))


def _full(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _referred(message: dp.DescriptorProto) -> Iterator[str]:
    yield from (field.type_name for field in message.field if field.type_name)
    for nested in message.nested_type:
        yield from _referred(nested)


def _file(file: dp.FileDescriptorProto, types: Sequence[_Type], files: dp.FileDescriptorSet) -> Iterator[str]:
    yield f"// {file.name}"
    yield f'edition = "{_edition(file)}";' if file.edition else f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    if imports := _imports(file, types, files):
        yield ""
        yield from imports
    said = dict(comments.of_fields(file))
    numbers = {id(declared): number for number, declared in enumerate(file.message_type)}
    for declared in types:
        yield ""
        if isinstance(declared, dp.EnumDescriptorProto):
            yield from _enum(declared, "")
        else:
            yield from _message(declared, "", file, said, (comments.MESSAGES, numbers[id(declared)]))
    yield ""


def _imports(
    file: dp.FileDescriptorProto, types: Sequence[_Type], files: dp.FileDescriptorSet
) -> Sequence[str]:
    """The imports of a file that these types of it need."""
    known = {file.name: file for file in files.file}
    needed = {name for type_ in types if isinstance(type_, dp.DescriptorProto) for name in _referred(type_)}

    def gives(name: str) -> Iterator[str]:
        imported = known.get(name, dp.FileDescriptorProto())
        yield from (f".{full}" for full, _ in _inside(imported))
        for number in imported.public_dependency:
            yield from gives(imported.dependency[number])

    return [f'import "{name}";' for name in file.dependency if needed.intersection(gives(name))]


def _edition(file: dp.FileDescriptorProto) -> str:
    return dp.Edition.Name(file.edition).removeprefix("EDITION_")


def _enum(enum: dp.EnumDescriptorProto, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    for value in enum.value:
        yield f"{indent}{_INDENT}{value.name} = {value.number};"
    yield f"{indent}}}"


def _message(
    message: dp.DescriptorProto,
    indent: str,
    file: dp.FileDescriptorProto,
    said: Mapping[_Place, str],
    place: _Place,
) -> Iterator[str]:
    inner, scope = indent + _INDENT, file.package
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    yield f"{indent}message {message.name} {{"
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    for number, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from _message(nested, inner, file, said, (*place, comments.NESTED, number))
    open_oneof: int | None = None
    for number, field in enumerate(message.field):
        oneof = field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None
        if oneof != open_oneof and open_oneof is not None:
            yield f"{inner}}}"
        if oneof != open_oneof and oneof is not None:
            yield f"{inner}oneof {message.oneof_decl[oneof].name} {{"
        open_oneof = oneof
        entry = (
            entries.get(field.type_name.rpartition(".")[2]) if field.label == _FIELD.LABEL_REPEATED else None
        )
        margin = inner if oneof is None else inner + _INDENT
        label = _label(field, file, oneof, entry)
        yield from _comment(said.get((*place, comments.FIELDS, number), ""), margin)
        yield f"{margin}{label}{_type(field, scope, entry)} {field.name} = {field.number};"
    if open_oneof is not None:
        yield f"{inner}}}"
    yield f"{indent}}}"


def _comment(text: str, margin: str) -> Iterator[str]:
    begin = f"{margin}// "
    yield from textwrap.wrap(text, _WIDTH, initial_indent=begin, subsequent_indent=begin)


def _label(
    field: dp.FieldDescriptorProto,
    file: dp.FileDescriptorProto,
    oneof: int | None,
    entry: dp.DescriptorProto | None,
) -> str:
    if field.label == _FIELD.LABEL_REPEATED:
        return "" if entry is not None else "repeated "
    if field.label == _FIELD.LABEL_REQUIRED:
        return "required "
    says = field.proto3_optional or (oneof is None and file.syntax in ("", "proto2"))
    return "optional " if says else ""


def _type(field: dp.FieldDescriptorProto, scope: str, entry: dp.DescriptorProto | None) -> str:
    if entry is not None:
        key, value = entry.field
        return f"map<{_type(key, scope, None)}, {_type(value, scope, None)}>"
    if field.type_name:
        return field.type_name.removeprefix(".").removeprefix(f"{scope}.")
    return scalar(field.type)
