from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import Descriptor

from daggerspec.columns import Column, Role
from daggerspec.fit import Type, mismatches, parse_type

F = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def message() -> Descriptor:
    """A message with a field of each kind."""
    file = descriptor_pb2.FileDescriptorProto(
        name="out.proto",
        package="out",
        syntax="proto3",
        dependency=[timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name],
    )
    file.enum_type.add(name="Kind").value.add(name="NONE", number=0)
    row = file.message_type.add(name="Row")
    place = row.nested_type.add(name="Place")
    place.field.add(name="lat", number=1, type=F.TYPE_DOUBLE, label=F.LABEL_OPTIONAL)
    place.field.add(name="name", number=2, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    entry = row.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)
    scalars = {"count": F.TYPE_INT32, "total": F.TYPE_UINT64, "mean": F.TYPE_FLOAT, "ok": F.TYPE_BOOL,
               "name": F.TYPE_STRING, "raw": F.TYPE_BYTES}  # fmt: skip
    messages = {"at": ".google.protobuf.Timestamp", "maybe": ".google.protobuf.Int64Value",
                "place": ".out.Row.Place"}  # fmt: skip
    number = 1
    for name, kind in scalars.items():
        row.field.add(name=name, number=number, type=kind, label=F.LABEL_OPTIONAL)
        number += 1
    for name, type_name in messages.items():
        row.field.add(
            name=name, number=number, type=F.TYPE_MESSAGE, type_name=type_name, label=F.LABEL_OPTIONAL
        )
        number += 1
    row.field.add(name="kind", number=20, type=F.TYPE_ENUM, type_name=".out.Kind", label=F.LABEL_OPTIONAL)
    row.field.add(name="names", number=21, type=F.TYPE_STRING, label=F.LABEL_REPEATED)
    many = {"places": ".out.Row.Place", "counts": ".out.Row.CountsEntry"}
    for number, (name, type_name) in enumerate(many.items(), start=22):
        row.field.add(
            name=name, number=number, type=F.TYPE_MESSAGE, type_name=type_name, label=F.LABEL_REPEATED
        )
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2, struct_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName("out.Row")


def judged(message: Descriptor, name: str, kind: str) -> list[str]:
    return [
        violation.reason for violation in mismatches("at", [Column(name, Role.FIELD, name, kind)], message)
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("count", "bigint"),
        ("count", "decimal(20,0)"),
        ("total", "int"),
        ("mean", "double"),
        ("mean", "bigint"),
        ("mean", "decimal(10,2)"),
        ("ok", "boolean"),
        ("name", "string"),
        ("raw", "binary"),
        ("at", "timestamp"),
        ("maybe", "bigint"),
        ("place", "struct<lat:double,name:string>"),
        ("place.lat", "float"),
        ("kind", "string"),
        ("kind", "int"),
        ("names", "array<string>"),
        ("places", "array<struct<lat:double>>"),
        ("counts", "map<string,bigint>"),
    ],
)
def test_a_column_that_fits_its_field_is_fine(message: Descriptor, name: str, kind: str) -> None:
    assert judged(message, name, kind) == []


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("cnt", "bigint", "UNKNOWN_FIELD"),
        ("place.long", "double", "UNKNOWN_FIELD"),
        ("name.first", "string", "UNKNOWN_FIELD"),
        ("places.lat", "double", "UNKNOWN_FIELD"),
        ("at.seconds.x", "bigint", "UNKNOWN_FIELD"),
        ("place", "struct<lat:double,long:double>", "UNKNOWN_FIELD"),
        ("count", "double", "TYPE_MISMATCH"),
        ("count", "decimal(10,2)", "TYPE_MISMATCH"),
        ("count", "string", "TYPE_MISMATCH"),
        ("ok", "string", "TYPE_MISMATCH"),
        ("name", "bigint", "TYPE_MISMATCH"),
        ("raw", "string", "TYPE_MISMATCH"),
        ("at", "bigint", "TYPE_MISMATCH"),
        ("maybe", "string", "TYPE_MISMATCH"),
        ("place", "string", "TYPE_MISMATCH"),
        ("place", "struct<lat:string>", "TYPE_MISMATCH"),
        ("kind", "double", "TYPE_MISMATCH"),
        ("names", "string", "TYPE_MISMATCH"),
        ("name", "array<string>", "TYPE_MISMATCH"),
        ("names", "array<bigint>", "TYPE_MISMATCH"),
        ("counts", "array<string>", "TYPE_MISMATCH"),
        ("counts", "map<string,string>", "TYPE_MISMATCH"),
    ],
)
def test_a_column_without_a_field_or_of_another_type_is_refused(
    message: Descriptor, name: str, kind: str, reason: str
) -> None:
    assert judged(message, name, kind) == [reason]


def test_a_near_miss_is_suggested(message: Descriptor) -> None:
    (violation,) = mismatches("at", [Column("cuont", Role.FIELD, "cuont", "bigint")], message)

    assert violation.description == "column cuont: out.Row has no field cuont: did you mean count?"


def test_every_mismatch_is_said_at_once(message: Descriptor) -> None:
    columns = [Column(name, Role.FIELD, name, "boolean") for name in ("count", "ok", "nope", "raw")]

    assert [
        violation.description.split(" ")[1].rstrip(":") for violation in mismatches("at", columns, message)
    ] == [
        "count",
        "nope",
        "raw",
    ]


def test_a_nested_type_is_taken_apart() -> None:
    tree = parse_type("map<string,array<struct<a:decimal(20,2),b c:int>>>")

    assert tree == Type(
        "map",
        parts=(
            ("key", Type("string")),
            (
                "value",
                Type(
                    "array",
                    parts=(
                        (
                            "element",
                            Type("struct", parts=(("a", Type("decimal", 2)), ("b c", Type("int")))),
                        ),
                    ),
                ),
            ),
        ),
    )


@pytest.mark.parametrize("text", ["int>", "array<int>>", "struct<a:int>x"])
def test_a_text_that_is_no_type_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Spark SQL type"):
        parse_type(text)
