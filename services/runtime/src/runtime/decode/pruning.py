"""A Protobuf descriptor that has only the selected fields, so that a decoder skips all others.

Field numbers and wire types stay, names of messages do not. Names of fields stay but where two differ only in
case or underscores, which proto2 allows and proto3 does not. Recursive messages are unrolled: every place a
message is selected at has a message of its own. Two declarations differ from the original, on purpose:

* everything is proto3 with explicit presence where the original has presence. Required fields and closed
  enums of proto2 are thereby read leniently: a number an enum does not know is a value, not an unknown field;
* Struct, Value, ListValue and Any are declared as bytes, which they are on the wire.
"""

from __future__ import annotations

from google.protobuf import descriptor_pool, duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from runtime.decode.columns import Column, Kind, message_of

_PACKAGE = "daggers.pruned"
_KNOWN = (timestamp_pb2.DESCRIPTOR, duration_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR)


def prune(columns: tuple[Column, ...]) -> Descriptor:
    """A message that has the fields of `columns` and no other, in a descriptor pool of its own."""
    file = FileDescriptorProto(
        name="daggers/pruned.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[known.name for known in _KNOWN],
    )
    root = _Pruner(file).message(columns)
    pool = descriptor_pool.DescriptorPool()
    for known in _KNOWN:
        pool.AddSerializedFile(known.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName(root.removeprefix("."))


class _Pruner:
    """Writes messages and enums into one file, each under a new name."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._enums: dict[str, str] = {}

    def message(self, columns: tuple[Column, ...]) -> str:
        """Adds a message of these fields; returns its name."""
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
        self, proto: DescriptorProto, owner: str, column: Column, name: str, oneofs: dict[str, int]
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
        oneof = _real_oneof(original)
        if oneof is not None:
            if oneof.name not in oneofs:
                oneofs[oneof.name] = len(proto.oneof_decl)
                proto.oneof_decl.add(name=oneof.name)
            field.oneof_index = oneofs[oneof.name]
        elif original.has_presence and (field.type != FieldDescriptorProto.TYPE_MESSAGE):
            field.proto3_optional = True

    def _set_type(self, field: FieldDescriptorProto, column: Column) -> None:
        original = column.field
        match column.kind:
            case Kind.JSON:
                field.type = FieldDescriptorProto.TYPE_BYTES
            case Kind.STRUCT:
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = self.message(column.children)
            case Kind.SCALAR if original.enum_type is not None:
                field.type = FieldDescriptorProto.TYPE_ENUM
                field.type_name = self._enum(original.enum_type)
            case Kind.SCALAR:
                field.type = FieldDescriptorProto.Type.ValueType(original.type)
            case _:
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = f".{message_of(original).full_name}"

    def _map_entry(self, proto: DescriptorProto, owner: str, name: str, column: Column) -> str:
        """Adds the nested message that is a map's entry, named as protoc would name it; returns its name."""
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
        """Adds an enum, in a message of its own because values share their enum's scope; returns its name."""
        if original.full_name not in self._enums:
            proto = EnumDescriptorProto()
            original.CopyToProto(proto)
            proto.name = "E"
            values = list(proto.value)
            if not any(value.number == 0 for value in values):
                values.append(type(values[0])(name=f"E{len(self._enums)}_ZERO_OF_PROTO3", number=0))
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


def _unique(columns: tuple[Column, ...]) -> list[str]:
    """A name for each field, its own if it can be: no two are one in camel case."""
    taken: set[str] = set()
    names = []
    for column in columns:
        name = column.name
        while (camel := name.replace("_", "").lower()) in taken:
            name += "x"
        taken.add(camel)
        names.append(name)
    return names


def _real_oneof(field: FieldDescriptor) -> OneofDescriptor | None:
    """The oneof the schema's author wrote; `optional` of proto3 is one only on paper."""
    oneof = field.containing_oneof
    if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
        return None
    return oneof
