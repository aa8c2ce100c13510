"""Build Protobuf descriptors that have only the selected fields, so that a decoder skips all others.

Field numbers and wire types stay, names of messages do not. Recursive messages are unrolled: every place a
message is selected at has a message of its own. Required fields and closed enums of proto2 are read
leniently: a number an enum does not know is a value, not an unknown field. There are two such descriptors.

* `prune`, for the decoder in bulk, is proto3 with explicit presence where the original has presence. Struct,
  Value, ListValue and Any are declared as bytes, which they are on the wire; names of fields stay but where
  two differ only in case or underscores, which proto2 allows and proto3 does not.
* `prune_for_reference`, for Protobuf's own parser, is of edition 2023: it has groups (DELIMITED), enums are
  numbers, and a oneof has all its members, selected or not, for the last on the wire clears the others. A
  field is called by its number (`field_name`).
"""

from __future__ import annotations

from google.protobuf import (
    any_pb2,
    descriptor_pool,
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import (
    EDITION_2023,
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FeatureSet,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from runtime.decode.columns import ColumnKind, FieldColumn, message_of

_PACKAGE = "daggers.pruned"
_KNOWN = tuple(
    module.DESCRIPTOR for module in (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
)


def prune(columns: tuple[FieldColumn, ...]) -> Descriptor:
    """Build a message that has the fields of `columns` and no other, in a descriptor pool of its own."""
    file = _file()
    file.syntax = "proto3"
    return _build(file, _Pruner(file).message(columns))


def prune_for_reference(columns: tuple[FieldColumn, ...]) -> Descriptor:
    """Build such a message for Protobuf's own parser, of edition 2023."""
    file = _file()
    file.syntax, file.edition = "editions", EDITION_2023
    return _build(file, _ReferencePruner(file).message(columns))


def field_name(field: FieldDescriptor) -> str:
    """Name a field in the message of `prune_for_reference`."""
    return f"f{field.number}"


def real_oneof(field: FieldDescriptor) -> OneofDescriptor | None:
    """Return the oneof the schema's author wrote; None for the one that `optional` of proto3 makes."""
    oneof = field.containing_oneof
    if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
        return None
    return oneof


def verifies_text(field: FieldDescriptor) -> bool:
    """Tell whether Protobuf's parser refuses a text of a field that is no UTF-8: not in proto2."""
    file = FileDescriptorProto()
    assert field.containing_type is not None
    field.containing_type.file.CopyToProto(file)
    if not file.edition:
        return file.syntax == "proto3"
    own, whole = field.GetOptions(), file.options
    for options in (own, whole):
        if options.features.HasField("utf8_validation"):
            return options.features.utf8_validation != FeatureSet.NONE
    return True


def unselected_members(columns: tuple[FieldColumn, ...]) -> list[FieldDescriptor]:
    """Return the fields that share a oneof with one of these of a message, and are not among them."""
    selected = {column.field.number for column in columns}
    oneofs = {oneof.name: oneof for column in columns if (oneof := real_oneof(column.field)) is not None}
    return [field for oneof in oneofs.values() for field in oneof.fields if field.number not in selected]


def _file() -> FileDescriptorProto:
    return FileDescriptorProto(
        name="daggers/pruned.proto", package=_PACKAGE, dependency=[file.name for file in _KNOWN]
    )


def _build(file: FileDescriptorProto, root: str) -> Descriptor:
    pool = descriptor_pool.DescriptorPool()
    for dependency in _KNOWN:
        pool.AddSerializedFile(dependency.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName(root.removeprefix("."))


class _Pruner:
    """Writes messages and enums into one file, each under a new name."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._enums: dict[str, str] = {}

    def message(self, columns: tuple[FieldColumn, ...]) -> str:
        """Add a message of these fields; returns its name."""
        proto = self._file.message_type.add(name=f"M{len(self._file.message_type)}")
        name = f".{_PACKAGE}.{proto.name}"
        oneofs: dict[str, int] = {}
        for column, unique in zip(columns, _unique(columns), strict=True):
            self._field(proto, name, column, unique, oneofs)
        # Oneofs that only say "optional" must come after the others.
        for field in proto.field:
            if field.proto3_optional:
                field.oneof_index = len(proto.oneof_decl)
                proto.oneof_decl.add(name=f"_{field.name}")
        return name

    def _field(
        self, proto: DescriptorProto, owner: str, column: FieldColumn, name: str, oneofs: dict[str, int]
    ) -> None:
        original = column.field
        field = proto.field.add(name=name, number=original.number)
        field.label = (
            FieldDescriptorProto.LABEL_REPEATED
            if original.is_repeated
            else FieldDescriptorProto.LABEL_OPTIONAL
        )
        if column.is_map:
            field.type = FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = self._map_entry(proto, owner, name, column)
        else:
            self._set_type(field, column)
        oneof = real_oneof(original)
        if oneof is not None:
            if oneof.name not in oneofs:
                oneofs[oneof.name] = len(proto.oneof_decl)
                proto.oneof_decl.add(name=oneof.name)
            field.oneof_index = oneofs[oneof.name]
        elif original.has_presence and (field.type != FieldDescriptorProto.TYPE_MESSAGE):
            field.proto3_optional = True

    def _set_type(self, field: FieldDescriptorProto, column: FieldColumn) -> None:
        original = column.field
        match column.kind:
            case ColumnKind.JSON:
                field.type = FieldDescriptorProto.TYPE_BYTES
            case ColumnKind.STRUCT:
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = self.message(column.children)
            case ColumnKind.SCALAR if original.enum_type is not None:
                field.type = FieldDescriptorProto.TYPE_ENUM
                field.type_name = self._enum(original.enum_type)
            case ColumnKind.SCALAR:
                field.type = FieldDescriptorProto.Type.ValueType(original.type)
            case _:
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = f".{message_of(original).full_name}"

    def _map_entry(self, proto: DescriptorProto, owner: str, name: str, column: FieldColumn) -> str:
        """Add the nested message that is a map's entry, named as protoc would name it; returns its name."""
        camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
        entry = proto.nested_type.add(name=f"{camel}Entry")
        entry.options.map_entry = True
        for child in column.children:
            field = entry.field.add(
                name=child.name, number=child.field.number, label=FieldDescriptorProto.LABEL_OPTIONAL
            )
            self._set_type(field, child)
        return f"{owner}.{entry.name}"

    def _enum(self, original: EnumDescriptor) -> str:
        """Add an enum, in a message of its own because values share their enum's scope; returns its name."""
        if original.full_name not in self._enums:
            proto = EnumDescriptorProto()
            original.CopyToProto(proto)
            proto.name = "E"
            values = list(proto.value)
            if not any(value.number == 0 for value in values):
                # proto3 wants one. Records that have the number are read by Protobuf's own parser.
                values.append(type(values[0])(name=_unused_name(values), number=0))
            # proto3 wants zero first; the order of values with one number decides which name is shown.
            values.sort(key=lambda value: value.number != 0)
            del proto.value[:]
            proto.value.extend(values)
            proto.ClearField("reserved_range")
            proto.ClearField("reserved_name")
            proto.options.ClearField("features")
            scope = self._file.message_type.add(name=f"M{len(self._file.message_type)}")
            scope.enum_type.append(proto)
            self._enums[original.full_name] = f".{_PACKAGE}.{scope.name}.E"
        return self._enums[original.full_name]


class _ReferencePruner:
    """Writes messages into one file, each under a new name."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file

    def message(self, columns: tuple[FieldColumn, ...]) -> str:
        """Add a message of these fields and of what shares a oneof with them; returns its name."""
        proto = self._file.message_type.add(name=f"M{len(self._file.message_type)}")
        name = f".{_PACKAGE}.{proto.name}"
        oneofs: dict[str, int] = {}
        for column in columns:
            self._field(proto, name, column.field, column, oneofs)
        for field in unselected_members(columns):
            self._field(proto, name, field, None, oneofs)
        return name

    def _field(
        self,
        proto: DescriptorProto,
        owner: str,
        original: FieldDescriptor,
        column: FieldColumn | None,
        oneofs: dict[str, int],
    ) -> None:
        """Add one field; without a column, as a field whose value nobody reads."""
        repeated = FieldDescriptorProto.LABEL_REPEATED
        field = proto.field.add(
            name=field_name(original),
            number=original.number,
            label=repeated if original.is_repeated else FieldDescriptorProto.LABEL_OPTIONAL,
        )
        if column is not None and column.is_map:
            field.type = FieldDescriptorProto.TYPE_MESSAGE
            entry = proto.nested_type.add(name=f"F{original.number}Entry")
            entry.options.map_entry = True
            field.type_name = f"{owner}.{entry.name}"
            for child in column.children:
                self._field(entry, field.type_name, child.field, child, {})
                entry.field[-1].name = str(child.field.name)
        elif original.message_type is not None:
            field.type = FieldDescriptorProto.TYPE_MESSAGE
            if original.type == FieldDescriptor.TYPE_GROUP:
                field.options.features.message_encoding = FeatureSet.DELIMITED
            field.type_name = self._message_name(original, column)
        elif original.enum_type is not None:
            field.type = FieldDescriptorProto.TYPE_INT32
        elif column is None and original.type == FieldDescriptor.TYPE_STRING:
            field.type = FieldDescriptorProto.TYPE_BYTES
        else:
            field.type = FieldDescriptorProto.Type.ValueType(original.type)
            if original.type == FieldDescriptor.TYPE_STRING and not verifies_text(original):
                field.options.features.utf8_validation = FeatureSet.NONE
        oneof = real_oneof(original)
        if oneof is not None:
            if oneof.name not in oneofs:
                oneofs[oneof.name] = len(proto.oneof_decl)
                proto.oneof_decl.add(name=f"o{oneof.index}")
            field.oneof_index = oneofs[oneof.name]

    def _message_name(self, original: FieldDescriptor, column: FieldColumn | None) -> str:
        if column is None:
            return self.message(())
        if column.kind is ColumnKind.STRUCT:
            return self.message(column.children)
        return f".{message_of(original).full_name}"


def _unused_name(values: list[EnumValueDescriptorProto]) -> str:
    names = {value.name for value in values}
    name = "ZERO_OF_PROTO3"
    while name in names:
        name += "_"
    return name


def _unique(columns: tuple[FieldColumn, ...]) -> list[str]:
    """Name the fields, each by its own name if it can be: no two are one in camel case."""
    used: set[str] = set()
    names = []
    for column in columns:
        name = column.name
        while (camel := name.replace("_", "").lower()) in used:
            name += "x"
        used.add(camel)
        names.append(name)
    return names
