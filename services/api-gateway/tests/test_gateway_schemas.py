from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf import descriptor_pb2 as dp
from google.protobuf import timestamp_pb2

from api_gateway.validate import schema_compatibility, schemas
from chassis.messages import MAX_CARRIER
from eventlog.testing import given
from fleet import Fleet

F = dp.FieldDescriptorProto


def reasons(files: dp.FileDescriptorSet) -> list[str]:
    with pytest.raises(schemas.Unusable) as caught:
        schemas.prune(files)
    return [violation.reason for violation in caught.value.violations]


def test_files_without_messages_services_and_source_are_left_out(samples: Any) -> None:
    files = samples.files()
    files.file.add(name="shop/api.proto", package="shop", syntax="proto3").service.add(name="Api")
    files.file[0].service.add(name="Api2")

    schema = schemas.prune(files)

    kept = schema.files.file
    assert (
        [file.name for file in kept],
        list(schema.messages),
        any(file.service or file.HasField("source_code_info") for file in kept),
    ) == (
        ["google/protobuf/timestamp.proto", "shop/booking.proto"],
        ["shop.Booking", "shop.Booking.Place", "shop.Summary"],
        False,
    )


def test_files_are_put_in_the_order_of_their_imports(samples: Any) -> None:
    files = dp.FileDescriptorSet()
    last = files.file.add(name="a.proto", package="a", syntax="proto3", dependency=["b.proto"])
    last.message_type.add(name="A").field.add(
        name="b", number=1, type=F.TYPE_MESSAGE, type_name=".b.B", label=F.LABEL_OPTIONAL
    )
    files.file.add(name="b.proto", package="b", syntax="proto3").message_type.add(name="B")

    assert [file.name for file in schemas.prune(files).files.file] == ["b.proto", "a.proto"]


def test_the_well_known_types_are_ours_whatever_the_user_brings(samples: Any) -> None:
    files = samples.files()
    forged = files.file.add(
        name="google/protobuf/timestamp.proto", package="google.protobuf", syntax="proto3"
    )
    forged.message_type.add(name="Timestamp")

    schema = schemas.prune(files)

    assert schema.files.file[0].SerializeToString() == timestamp_pb2.DESCRIPTOR.serialized_pb


def test_a_missing_import_is_named(samples: Any) -> None:
    files = samples.files()
    files.file[0].dependency.append("shop/common.proto")
    with pytest.raises(schemas.Unusable) as caught:
        schemas.prune(files)

    assert [violation.description for violation in caught.value.violations] == [
        "shop/booking.proto imports shop/common.proto, which is not among the files"
    ]


def twice(files: dp.FileDescriptorSet) -> None:
    files.file.append(files.file[0])


def circle(files: dp.FileDescriptorSet) -> None:
    files.file[0].dependency.append("other.proto")
    files.file.add(name="other.proto", syntax="proto3", dependency=["shop/booking.proto"])


def empty(files: dp.FileDescriptorSet) -> None:
    del files.file[:]


def nameless(files: dp.FileDescriptorSet) -> None:
    files.file[0].name = ""


def dangling(files: dp.FileDescriptorSet) -> None:
    files.file[0].message_type[0].field[2].type_name = ".shop.Nothing"


def doubled(files: dp.FileDescriptorSet) -> None:
    files.file[0].message_type[0].field[2].number = 1


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (twice, "DUPLICATE"),
        (circle, "IMPORT_CYCLE"),
        (empty, "REQUIRED"),
        (nameless, "INVALID_FILE"),
        (dangling, "INVALID_FILE"),
        (doubled, "INVALID_FILE"),
    ],
)
def test_files_that_cannot_be_registered_are_refused(
    samples: Any, damage: Callable[[dp.FileDescriptorSet], None], reason: str
) -> None:
    files = samples.files()
    damage(files)

    assert reasons(files) == [reason]


def breaks(samples: Any, change: Callable[[dp.FileDescriptorProto], None]) -> list[str]:
    """What is said when the registered file is changed so."""
    old = schemas.prune(samples.files())
    fleet = Fleet()
    for record in given(events_pb2.SchemaRegistered(schema=old)):
        fleet.apply(record)
    new = spec_pb2.Schema()
    new.CopyFrom(old)
    change(new.files.file[1])
    return [violation.reason for violation in schema_compatibility.breaks(new, fleet)]


def add_field(file: dp.FileDescriptorProto, **fields: Any) -> None:
    given_fields = {"name": "extra", "number": 20, "type": F.TYPE_STRING, "label": F.LABEL_OPTIONAL, **fields}
    file.message_type[0].field.add(**given_fields)


def removed_and_reserved(file: dp.FileDescriptorProto) -> None:
    del file.message_type[0].field[1]
    file.message_type[0].reserved_range.add(start=2, end=3)


def new_enum_value(file: dp.FileDescriptorProto) -> None:
    file.enum_type[0].value.add(name="CANCELLED", number=2)


def wider_reservation(file: dp.FileDescriptorProto) -> None:
    del file.message_type[0].reserved_range[:]
    file.message_type[0].reserved_range.add(start=10, end=11)
    file.message_type[0].reserved_range.add(start=11, end=20)


def made_optional(file: dp.FileDescriptorProto) -> None:
    city = file.message_type[0].field[1]
    file.message_type[0].oneof_decl.add(name="_city")
    city.oneof_index, city.proto3_optional = 0, True


@pytest.mark.parametrize(
    "change",
    [
        lambda file: None,
        lambda file: add_field(file),
        removed_and_reserved,
        new_enum_value,
        wider_reservation,
        made_optional,
        lambda file: file.message_type.add(name="Another"),
    ],
)
def test_a_change_that_readers_can_take_is_fine(
    samples: Any, change: Callable[[dp.FileDescriptorProto], None]
) -> None:
    assert breaks(samples, change) == []


def removed(file: dp.FileDescriptorProto) -> None:
    del file.message_type[0].field[1]


def renamed(file: dp.FileDescriptorProto) -> None:
    file.message_type[0].field[1].name = "town"


def retyped(file: dp.FileDescriptorProto) -> None:
    file.message_type[0].field[1].type = F.TYPE_BYTES


def another_message(file: dp.FileDescriptorProto) -> None:
    file.message_type[0].field[3].type_name = ".shop.Summary"


def repeated(file: dp.FileDescriptorProto) -> None:
    file.message_type[0].field[1].label = F.LABEL_REPEATED


def required(file: dp.FileDescriptorProto) -> None:
    file.message_type[0].field[1].label = F.LABEL_REQUIRED


def into_a_oneof(file: dp.FileDescriptorProto) -> None:
    file.message_type[0].oneof_decl.add(name="which")
    file.message_type[0].field[1].oneof_index = 0


def swapped_names(file: dp.FileDescriptorProto) -> None:
    city, status = file.message_type[0].field[1:3]
    city.name, status.name = status.name, city.name


def enum_value_renamed(file: dp.FileDescriptorProto) -> None:
    file.enum_type[0].value[1].name = "DONE"


def enum_value_removed(file: dp.FileDescriptorProto) -> None:
    del file.enum_type[0].value[1]


def nested_removed(file: dp.FileDescriptorProto) -> None:
    del file.message_type[0].nested_type[0].field[0]


def no_longer_reserved(file: dp.FileDescriptorProto) -> None:
    del file.message_type[0].reserved_range[:]
    file.message_type[0].reserved_range.add(start=10, end=11)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (removed, ["REMOVED"]),
        (renamed, ["RENAMED"]),
        (retyped, ["TYPE_CHANGED"]),
        (another_message, ["TYPE_CHANGED"]),
        (repeated, ["CARDINALITY_CHANGED"]),
        (required, ["NEW_REQUIRED"]),
        (into_a_oneof, ["ONEOF_CHANGED"]),
        (swapped_names, ["RENAMED", "RENAMED"]),
        (enum_value_renamed, ["RENAMED"]),
        (enum_value_removed, ["REMOVED"]),
        (nested_removed, ["REMOVED"]),
        (no_longer_reserved, ["UNRESERVED"]),
        (lambda file: add_field(file, number=10), ["REUSED"]),
        (lambda file: add_field(file, name="old_city"), ["REUSED"]),
        (lambda file: add_field(file, label=F.LABEL_REQUIRED), ["NEW_REQUIRED"]),
    ],
)
def test_a_change_that_breaks_readers_is_refused(
    samples: Any, change: Callable[[dp.FileDescriptorProto], None], found: list[str]
) -> None:
    assert breaks(samples, change) == found


def delimited(tag: int, content: bytes) -> bytes:
    """A field of bytes, as it stands in a message."""
    length, size = bytearray(), len(content)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([tag, *length, size]) + content


def named_messages() -> bytes:
    messages = b"".join(delimited(0x22, delimited(0x0A, b"M%d" % number)) for number in range(300_000))
    return delimited(0x0A, delimited(0x0A, b"x.proto") + messages)


def nameless_files() -> bytes:
    return b"\x0a\x00" * (MAX_CARRIER // 2)


@pytest.mark.parametrize(("bomb", "reason"), [(nameless_files, "TOO_MANY"), (named_messages, "TOO_LARGE")])
def test_a_descriptor_bomb_is_refused_before_it_is_built(bomb: Callable[[], bytes], reason: str) -> None:
    files = dp.FileDescriptorSet.FromString(bomb())
    with pytest.raises(schemas.Unusable) as refused:
        schemas.prune(files)

    assert [violation.reason for violation in refused.value.violations] == [reason]
