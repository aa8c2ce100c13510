"""Format a registered message as .proto text, from which protoc makes the same descriptor. Pure.

It has the comments of fields, which are registered, and no services, which are not.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf import descriptor_pb2 as dp

from api_gateway.validate import comments, schemas
from api_gateway.validate.proto_options import ProtoOptions, bracket, quote
from daggerspec.protobuf import scalar

_INDENT: Final = "  "
_WIDTH: Final = 100
_Place = tuple[int, ...]
"""Path to an element of its file, as `google.protobuf.SourceCodeInfo` describes."""
_Type = dp.DescriptorProto | dp.EnumDescriptorProto
_FIELD: Final = dp.FieldDescriptorProto
_MOST_NUMBER: Final = 536_870_911
_MOST_INT: Final = 2**31 - 1
_FIRST_EDITION: Final = dp.EDITION_2023


def message(files: dp.FileDescriptorSet, name: str) -> str:
    """Format a message, and all that its fields refer to, by file. A nested message appears within its
    parent.
    """
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
            pending += [outermost[type_name] for type_name in _referred_types(declared)]
            own_extensions = (
                field for field in file.extension if field.extendee == f".{key}" and field.type_name
            )
            pending += [outermost[extension.type_name] for extension in own_extensions]
    parts = [(file, [declared for key, declared in _top(file) if key in wanted]) for file in files.file]
    options = ProtoOptions(files)
    symbols = frozenset(outermost) | {f".{package}" for file in files.file for package in _packages(file)}
    return "\n".join(
        "\n".join(_Text(file, files, options, symbols).lines(types)) for file, types in parts if types
    )


def _top(file: dp.FileDescriptorProto) -> Iterator[tuple[str, _Type]]:
    """Yield the top-level enums and messages of a file by full name."""
    for enum in file.enum_type:
        yield _full(file.package, enum.name), enum
    for message in file.message_type:
        yield _full(file.package, message.name), message


def _inside(file: dp.FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """Yield the full names of all types in a file, each with that of its top-level type."""
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


def _packages(file: dp.FileDescriptorProto) -> Iterator[str]:
    """Yield a file's package and its parents."""
    parts = file.package.split(".") if file.package else []
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _full(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _referred_types(message: dp.DescriptorProto) -> Iterator[str]:
    yield from (field.type_name for field in message.field if field.type_name)
    for extension in message.extension:
        yield extension.extendee
        yield from (extension.type_name,) if extension.type_name else ()
    for nested in message.nested_type:
        yield from _referred_types(nested)


@dataclass(frozen=True, slots=True)
class _Inline:
    """A nested message that is written in place of a field: the entry of a map, or a group."""

    nested: dp.DescriptorProto
    number: int
    is_map: bool


class _Text:
    """Formats one file, or some of its types."""

    def __init__(
        self,
        file: dp.FileDescriptorProto,
        files: dp.FileDescriptorSet,
        options: ProtoOptions,
        symbols: frozenset[str],
    ) -> None:
        self._file, self._files, self._options, self._symbols = file, files, options, symbols
        self._comments: Mapping[_Place, str] = dict(comments.of_fields(file))
        self._is_proto2 = not file.edition and file.syntax in ("", "proto2")

    def lines(self, types: Sequence[_Type]) -> Iterator[str]:
        """Yield the lines of the file."""
        file = self._file
        whole = len(types) == len(file.message_type) + len(file.enum_type)
        yield f"// {file.name}"
        yield f'edition = "{_edition(file)}";' if file.edition else f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        if imports := list(self._imports(types, whole=whole)):
            yield ""
            yield from imports
        if options := self._options.format(file.options):
            yield ""
            yield from (f"option {option};" for option in options)
        numbers = {id(declared): number for number, declared in enumerate(file.message_type)}
        groups = {extension.type_name for extension in file.extension if extension.type == _FIELD.TYPE_GROUP}
        for declared in types:
            if whole and f".{_full(file.package, declared.name)}" in groups:
                continue  # written within its extension
            yield ""
            if isinstance(declared, dp.EnumDescriptorProto):
                yield from self._enum(declared, "")
            else:
                place = (comments.MESSAGES, numbers[id(declared)])
                yield from self._message(declared, "", file.package, place)
        type_names = {f".{_full(file.package, declared.name)}" for declared in types}
        extensions = [field for field in file.extension if whole or field.extendee in type_names]
        yield from self._extensions(extensions, "", file.package, {})
        yield ""

    def _imports(self, types: Sequence[_Type], *, whole: bool) -> Iterator[str]:
        """Yield the imports of the file; of a part only those that its fields need, or that
        define options.
        """
        file = self._file
        files_by_name = {file.name: file for file in self._files.file}
        needed = {
            name
            for type_ in types
            if isinstance(type_, dp.DescriptorProto)
            for name in _referred_types(type_)
        }

        def gives(name: str) -> Iterator[str]:
            imported = files_by_name.get(name, dp.FileDescriptorProto())
            yield from (f".{full}" for full, _ in _inside(imported))
            for number in imported.public_dependency:
                yield from gives(imported.dependency[number])

        for number, name in enumerate(file.dependency):
            if whole or name in self._defining_options() or needed.intersection(gives(name)):
                public = "public " if number in file.public_dependency else ""
                weak = "weak " if number in file.weak_dependency else ""
                yield f'import {public}{weak}"{name}";'
        yield from (f'import option "{name}";' for name in file.option_dependency)

    def _defining_options(self) -> set[str]:
        """Return the files that define custom options, used or not."""
        return {
            file.name
            for file in self._files.file
            for extension in file.extension
            if extension.extendee.startswith(".google.protobuf.")
        }

    def _enum(self, enum: dp.EnumDescriptorProto, indent: str) -> Iterator[str]:
        inner = indent + _INDENT
        yield f"{indent}{_visibility(enum)}enum {enum.name} {{"
        yield from (f"{inner}option {option};" for option in self._options.format(enum.options))
        for value in enum.value:
            options = bracket(self._options.format(value.options))
            yield f"{inner}{value.name} = {value.number}{options};"
        for span in enum.reserved_range:
            yield f"{inner}reserved {_span(span.start, span.end, _MOST_INT)};"
        yield from self._reserved_names(enum.reserved_name, inner)
        yield f"{indent}}}"

    def _reserved_names(self, names: Sequence[str], indent: str) -> Iterator[str]:
        """Yield the reserved names: identifiers from edition 2023 on, strings before."""
        if names:
            written = names if self._file.edition >= _FIRST_EDITION else [quote(name) for name in names]
            yield f"{indent}reserved {', '.join(written)};"

    def _message(
        self, message: dp.DescriptorProto, indent: str, scope: str, place: _Place, opening: str = ""
    ) -> Iterator[str]:
        """Yield a message's lines; `opening` replaces the first line for a group."""
        yield opening or f"{indent}{_visibility(message)}message {message.name} {{"
        yield from self._body(message, indent + _INDENT, _full(scope, message.name), place)
        yield f"{indent}}}"

    def _body(self, message: dp.DescriptorProto, inner: str, scope: str, place: _Place) -> Iterator[str]:
        """Yield the body of a message.

        Nested messages keep the descriptor's order, among which entries of maps and groups stand where their
        fields are.
        """
        yield from (f"{inner}option {option};" for option in self._options.format(message.options))
        for enum in message.enum_type:
            yield from self._enum(enum, inner)
        inline = self._inline(message, scope)
        of_field = {type_name: number for number, type_name in enumerate(_types(message.field))}
        written = 0
        for number, nested in enumerate(message.nested_type):
            type_name = f".{_full(scope, nested.name)}"
            if type_name not in inline:
                yield from self._message(nested, inner, scope, (*place, comments.NESTED, number))
            elif type_name in of_field and of_field[type_name] >= written:
                until = _end_of_oneof(message, of_field[type_name])
                yield from self._fields(message, (written, until), inner, scope, place, inline)
                written = until
        yield from self._fields(message, (written, len(message.field)), inner, scope, place, inline)
        for span in message.extension_range:
            options = bracket(self._options.format(span.options))
            yield f"{inner}extensions {_span(span.start, span.end - 1, _MOST_NUMBER)}{options};"
        for reserved in message.reserved_range:
            yield f"{inner}reserved {_span(reserved.start, reserved.end - 1, _MOST_NUMBER)};"
        yield from self._reserved_names(message.reserved_name, inner)
        yield from self._extensions(message.extension, inner, scope, inline)

    def _inline(self, message: dp.DescriptorProto, scope: str) -> dict[str, _Inline]:
        """Return the nested messages that are written in place of fields, by type name."""
        groups = {
            field.type_name
            for field in (*message.field, *message.extension)
            if field.type == _FIELD.TYPE_GROUP and self._is_proto2
        }
        names = {
            f".{_full(scope, nested.name)}": (number, nested)
            for number, nested in enumerate(message.nested_type)
        }
        return {
            name: _Inline(nested, number, nested.options.map_entry)
            for name, (number, nested) in names.items()
            if nested.options.map_entry or name in groups
        }

    def _fields(
        self,
        message: dp.DescriptorProto,
        span: tuple[int, int],
        inner: str,
        scope: str,
        place: _Place,
        inline: Mapping[str, _Inline],
    ) -> Iterator[str]:
        """Yield the fields from one index up to another in the descriptor's order."""
        open_oneof: int | None = None
        for number in range(*span):
            field = message.field[number]
            oneof = field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None
            if oneof != open_oneof and open_oneof is not None:
                yield f"{inner}}}"
            if oneof != open_oneof and oneof is not None:
                declared = message.oneof_decl[oneof]
                yield f"{inner}oneof {declared.name} {{"
                margin = inner + _INDENT
                yield from (f"{margin}option {option};" for option in self._options.format(declared.options))
            open_oneof = oneof
            margin = inner if oneof is None else inner + _INDENT
            yield from _comment(self._comments.get((*place, comments.FIELDS, number), ""), margin)
            yield from self._field(field, margin, scope, place, inline)
        if open_oneof is not None:
            yield f"{inner}}}"

    def _field(
        self,
        field: dp.FieldDescriptorProto,
        margin: str,
        scope: str,
        place: _Place,
        inline: Mapping[str, _Inline],
    ) -> Iterator[str]:
        part = inline.get(field.type_name)
        label = "" if part is not None and part.is_map else self._label(field)
        options = bracket([*_pseudo_options(field), *self._options.format(field.options)])
        if part is not None and not part.is_map:
            opening = f"{margin}{label}group {part.nested.name} = {field.number}{options} {{"
            below = (*place, comments.NESTED, part.number)
            yield from self._message(part.nested, margin, scope, below, opening)
            return
        kind = self._type(field, scope, part)
        yield f"{margin}{label}{kind} {field.name} = {field.number}{options};"

    def _label(self, field: dp.FieldDescriptorProto) -> str:
        if field.label == _FIELD.LABEL_REPEATED:
            return "repeated "
        if field.label == _FIELD.LABEL_REQUIRED:
            return "required "
        in_oneof = field.HasField("oneof_index")
        return "optional " if field.proto3_optional or (self._is_proto2 and not in_oneof) else ""

    def _type(self, field: dp.FieldDescriptorProto, scope: str, part: _Inline | None) -> str:
        if part is not None:
            key, value = part.nested.field
            return f"map<{self._type(key, scope, None)}, {self._type(value, scope, None)}>"
        if not field.type_name:
            return scalar(field.type)
        package = f".{self._file.package}." if self._file.package else "."
        short = field.type_name.removeprefix(package)
        return short.removeprefix(".") if self._finds(short, scope, field.type_name) else field.type_name

    def _finds(self, short: str, scope: str, type_name: str) -> bool:
        """Return whether protoc resolves the name to this type: it searches the first part of the name from
        the innermost scope outwards.
        """
        first = short.removeprefix(".").split(".")[0]
        parts = scope.split(".") if scope else []
        for count in range(len(parts), -1, -1):
            around = "".join(f".{part}" for part in parts[:count])
            if f"{around}.{first}" in self._symbols:
                return f"{around}.{short.removeprefix('.')}" == type_name
        return False

    def _extensions(
        self,
        extensions: Sequence[dp.FieldDescriptorProto],
        indent: str,
        scope: str,
        inline: Mapping[str, _Inline],
    ) -> Iterator[str]:
        groups = dict(inline)
        if not indent and self._is_proto2:
            messages = {f".{_full(scope, message.name)}": message for message in self._file.message_type}
            groups |= {
                extension.type_name: _Inline(messages[extension.type_name], 0, is_map=False)
                for extension in extensions
                if extension.type == _FIELD.TYPE_GROUP and extension.type_name in messages
            }
        for extension in extensions:
            yield f"{indent}extend {extension.extendee} {{"
            yield from self._field(extension, indent + _INDENT, scope, (), groups)
            yield f"{indent}}}"


def _types(fields: Sequence[dp.FieldDescriptorProto]) -> Iterator[str]:
    return (field.type_name for field in fields)


def _end_of_oneof(message: dp.DescriptorProto, number: int) -> int:
    """Return the index behind the fields that must be written with one: all of its oneof."""
    field = message.field[number]
    if field.proto3_optional or not field.HasField("oneof_index"):
        return number + 1
    members = [
        index
        for index, other in enumerate(message.field)
        if other.HasField("oneof_index") and other.oneof_index == field.oneof_index
    ]
    return max(members) + 1


def _pseudo_options(field: dp.FieldDescriptorProto) -> Iterator[str]:
    """Yield what .proto text has among a field's options, and the descriptor elsewhere."""
    if field.HasField("default_value"):
        text = field.default_value
        if field.type == _FIELD.TYPE_STRING:
            text = quote(text)
        elif field.type == _FIELD.TYPE_BYTES:
            text = f'"{text}"'  # escaped in the descriptor already
        yield f"default = {text}"
    if field.json_name and field.json_name != _json_name(field.name):
        yield f"json_name = {quote(field.json_name)}"


def _json_name(name: str) -> str:
    """Return the JSON name that protoc gives a field."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _span(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == most else last}"


def _visibility(declared: _Type) -> str:
    """Return the visibility of a type in edition 2024, where it is declared."""
    words = {dp.VISIBILITY_EXPORT: "export ", dp.VISIBILITY_LOCAL: "local "}
    return words.get(declared.visibility, "")


def _edition(file: dp.FileDescriptorProto) -> str:
    return dp.Edition.Name(file.edition).removeprefix("EDITION_")


def _comment(text: str, margin: str) -> Iterator[str]:
    begin = f"{margin}// "
    yield from textwrap.wrap(text, _WIDTH, initial_indent=begin, subsequent_indent=begin)
