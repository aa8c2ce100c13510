"""Schemas for tests that compare decoders: of every syntax, with what Protobuf's reference has a rule for.

A schema and all that is drawn of it come from a `random.Random`, so a seed is the whole case.
"""

from __future__ import annotations

from random import Random
from typing import Final

from google.protobuf import descriptor_pb2 as dp
from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2

PACKAGE: Final = "wire"
SYNTAXES: Final = ("proto2", "proto3", "2023", "2024")
KNOWN: Final = tuple(
    dp.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for module in (duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
)
_F = dp.FieldDescriptorProto
_SCALARS: Final = [
    kind for name, kind in _F.Type.items() if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
]
_KEYS: Final = [kind for kind in _SCALARS if kind not in (_F.TYPE_DOUBLE, _F.TYPE_FLOAT, _F.TYPE_BYTES)]
_VALUES: Final = (
    *("Timestamp", "Duration", "Struct", "Value", "ListValue"),
    *("Int64Value", "StringValue", "DoubleValue", "BoolValue", "UInt32Value", "BytesValue"),
)
_TOP: Final = 536_870_911
_EMPTY: Final = dp.FieldOptions(features=dp.FeatureSet())


def schema(rng: Random) -> dp.FileDescriptorSet:
    """A file that defines `wire.Root`, whose field `at` is a Timestamp, and the files that it imports."""
    return dp.FileDescriptorSet(file=[*KNOWN, _Schema(rng).file])


class _Schema:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.syntax = rng.choice(SYNTAXES)
        self.file = dp.FileDescriptorProto(
            name="wire.proto", package=PACKAGE, dependency=[known.name for known in KNOWN]
        )
        if self.editions:
            self.file.syntax = "editions"
            self.file.edition = dp.Edition.Value(f"EDITION_{self.syntax}")
            if rng.random() < 0.15:
                self.file.options.features.message_encoding = dp.FeatureSet.DELIMITED
            if rng.random() < 0.2:
                self.file.options.features.repeated_field_encoding = dp.FeatureSet.EXPANDED
        elif self.syntax != "proto2":
            self.file.syntax = self.syntax
        # Most schemas are ordinary: a group anywhere, or a great number, is read by the reference alone.
        self.groups = rng.random() < 0.3
        self.great = rng.random() < 0.2
        self.names = ["Root", *(f"M{number}" for number in range(rng.randrange(4)))]
        self.enums = [self._enum(f"E{number}") for number in range(2)]
        for name in self.names:
            self._message(name)
        if self.syntax != "proto3" and rng.random() < 0.3:
            self._extension()
        for message in self.file.message_type:
            for field in message.field:
                if not field.options.ByteSize() or field.options == _EMPTY:
                    field.ClearField("options")

    @property
    def editions(self) -> bool:
        return self.syntax in ("2023", "2024")

    def _enum(self, name: str) -> tuple[str, list[int]]:
        """Of each its name and numbers, the first one first."""
        rng = self.rng
        closed = self.syntax == "proto2" or (self.editions and rng.random() < 0.3)
        numbers = rng.sample([0, 1, 2, 3, -1, 7, 2**31 - 1, -(2**31)], rng.randrange(1, 5))
        if not closed:
            numbers = [0, *(number for number in numbers if number)]
        enum = self.file.enum_type.add(name=name)
        if closed and self.editions:
            enum.options.features.enum_type = dp.FeatureSet.CLOSED
        if rng.random() < 0.3:
            enum.options.allow_alias = True
            numbers.append(rng.choice(numbers))
        for index, number in enumerate(numbers):
            enum.value.add(name=f"{name}_V{index}", number=number)
        return name, numbers

    def _number(self, taken: set[int]) -> int:
        rng = self.rng
        while True:
            number = rng.randrange(1, 40)
            if self.great and rng.random() < 0.2:
                number = rng.choice([_TOP, rng.randrange(20_000, _TOP)])
            if number not in taken and not 100 <= number <= 200 and not 19_000 <= number < 20_000:
                taken.add(number)
                return number

    def _message(self, name: str) -> None:
        rng, message = self.rng, self.file.message_type.add(name=name)
        taken: set[int] = {1} if name == "Root" else set()
        if name == "Root":
            at = message.field.add(name="at", number=1, type=_F.TYPE_MESSAGE, label=_F.LABEL_OPTIONAL)
            at.type_name = ".google.protobuf.Timestamp"
        for index in range(rng.randrange(1, 8)):
            self._field(message, f"f{index}", self._number(taken))
        if rng.random() < 0.5:
            oneof = len(message.oneof_decl)
            message.oneof_decl.add(name="choice")
            for index in range(rng.randrange(1, 4)):
                field = self._single(message, f"o{index}", self._number(taken))
                field.ClearField("proto3_optional")
                field.options.features.ClearField("field_presence")
                field.oneof_index = oneof
        if self.syntax == "proto3":
            for field in message.field:
                if field.proto3_optional:
                    field.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{field.name}")
        if self.syntax != "proto3" and name == "Root":
            message.extension_range.add(start=100, end=201)

    def _field(self, message: dp.DescriptorProto, name: str, number: int) -> None:
        kind = self.rng.random()
        if kind < 0.15:
            self._map(message, name, number)
            return
        field = self._single(message, name, number)
        if kind < 0.4:
            field.label = _F.LABEL_REPEATED
            field.ClearField("proto3_optional")
            field.ClearField("default_value")
            if field.type not in (_F.TYPE_STRING, _F.TYPE_BYTES, _F.TYPE_MESSAGE, _F.TYPE_GROUP):
                packed = self.rng.random() < 0.5
                if self.editions:
                    field.options.features.ClearField("field_presence")
                    kinds = dp.FeatureSet.PACKED, dp.FeatureSet.EXPANDED
                    field.options.features.repeated_field_encoding = kinds[packed]
                else:
                    field.options.packed = packed
            elif self.editions:
                field.options.features.ClearField("field_presence")
        elif kind < 0.5 and self.syntax == "proto2":
            field.label = _F.LABEL_REQUIRED

    def _single(self, message: dp.DescriptorProto, name: str, number: int) -> dp.FieldDescriptorProto:
        rng = self.rng
        field = message.field.add(name=name, number=number, label=_F.LABEL_OPTIONAL)
        kind = rng.random()
        if kind < 0.2:
            field.type = _F.TYPE_MESSAGE
            field.type_name = f".google.protobuf.{rng.choice(_VALUES)}"
            self._encoding(field)
        elif kind < 0.4:
            field.type, field.type_name = _F.TYPE_MESSAGE, f".{PACKAGE}.{rng.choice(self.names)}"
            if self.syntax == "proto2" and self.groups and rng.random() < 0.5:
                group = f"G{name}"
                nested = message.nested_type.add(name=group)
                nested.field.add(name="in", number=1, type=_F.TYPE_INT32, label=_F.LABEL_OPTIONAL)
                field.type, field.name = _F.TYPE_GROUP, group.lower()
                field.type_name = f".{PACKAGE}.{message.name}.{group}"
            self._encoding(field)
        elif kind < 0.5:
            enum, _ = rng.choice(self.enums)
            field.type, field.type_name = _F.TYPE_ENUM, f".{PACKAGE}.{enum}"
            if self.syntax != "proto3" and rng.random() < 0.3:
                field.default_value = f"{enum}_V0"
        else:
            field.type = rng.choice(_SCALARS)
            if self.syntax != "proto3" and rng.random() < 0.4:
                field.default_value = self._default(field.type)
        if self.syntax == "proto3":
            if rng.random() < 0.3:
                field.proto3_optional = True
        elif self.editions and field.type != _F.TYPE_MESSAGE and not field.default_value:
            closed = field.type == _F.TYPE_ENUM and self._is_closed(field.type_name)
            if rng.random() < 0.3 and not closed:
                field.options.features.field_presence = dp.FeatureSet.IMPLICIT
        return field

    def _is_closed(self, type_name: str) -> bool:
        enum = next(enum for enum in self.file.enum_type if type_name.endswith(f".{enum.name}"))
        return enum.options.features.enum_type == dp.FeatureSet.CLOSED

    def _encoding(self, field: dp.FieldDescriptorProto) -> None:
        if self.editions and self.groups and self.rng.random() < 0.4:
            field.options.features.message_encoding = dp.FeatureSet.DELIMITED

    def _default(self, kind: int) -> str:
        rng = self.rng
        match kind:
            case _F.TYPE_BOOL:
                return rng.choice(["true", "false"])
            case _F.TYPE_STRING:
                return rng.choice(["piece", 'a "b" \\ ü\n'])
            case _F.TYPE_BYTES:
                return rng.choice(["abc", '\\000\\377\\"x'])
            case _F.TYPE_DOUBLE | _F.TYPE_FLOAT:
                return rng.choice(["1.5", "inf", "-inf", "nan", "-0", "1e+20"])
            case _F.TYPE_UINT32 | _F.TYPE_FIXED32:
                return rng.choice(["7", str(2**32 - 1)])
            case _F.TYPE_UINT64 | _F.TYPE_FIXED64:
                return rng.choice(["7", str(2**64 - 1)])
            case _F.TYPE_INT32 | _F.TYPE_SINT32 | _F.TYPE_SFIXED32:
                return rng.choice(["-7", str(2**31 - 1)])
        return rng.choice(["-7", str(-(2**63))])

    def _map(self, message: dp.DescriptorProto, name: str, number: int) -> None:
        rng = self.rng
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=rng.choice(_KEYS), label=_F.LABEL_OPTIONAL)
        value = entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL)
        kind = rng.random()
        if kind < 0.3:
            value.type, value.type_name = _F.TYPE_MESSAGE, f".{PACKAGE}.{rng.choice(self.names)}"
        elif kind < 0.5:
            value.type, value.type_name = _F.TYPE_MESSAGE, f".google.protobuf.{rng.choice(_VALUES)}"
        elif kind < 0.65 and (zero := [enum for enum, numbers in self.enums if numbers[0] == 0]):
            value.type, value.type_name = _F.TYPE_ENUM, f".{PACKAGE}.{rng.choice(zero)}"
        else:
            value.type = rng.choice(_SCALARS)
        field = message.field.add(name=name, number=number, type=_F.TYPE_MESSAGE, label=_F.LABEL_REPEATED)
        field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"

    def _extension(self) -> None:
        extension = self.file.extension.add(
            name="ext", number=150, type=_F.TYPE_INT32, label=_F.LABEL_OPTIONAL
        )
        extension.extendee = f".{PACKAGE}.Root"
