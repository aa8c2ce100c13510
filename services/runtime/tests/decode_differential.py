"""Helpers of test_decode_differential.py and of its neighbours."""

from pathlib import Path
from typing import Any

import grpc_tools
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from runtime.decode.decoder import find_message, message_pool

PROTOS = Path(__file__).with_name("protos")
KNOWN = Path(grpc_tools.__file__).with_name("_proto")
EXAMPLES = settings(
    max_examples=3 * settings.default.max_examples // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
BY_CPP_TYPE = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> Descriptor:
    """The message that has a field of every type, compiled from its source."""
    out = tmp_path_factory.mktemp("protos") / "every_type.bin"
    status = protoc.main(
        [
            "",
            f"-I{PROTOS}",
            f"-I{KNOWN}",
            "--include_imports",
            f"--descriptor_set_out={out}",
            "every_type.proto",
        ]
    )
    assert status == 0
    return find_message(
        message_pool(FileDescriptorSet.FromString(out.read_bytes())), "runtime.test.EveryType"
    )


def single(draw: st.DrawFn, field: FieldDescriptor, depth: int) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw(st.binary(max_size=8))
    if field.enum_type is not None:
        known = [value.number for value in field.enum_type.values]
        return draw(st.sampled_from(known) if field.enum_type.is_closed else st.integers(-3, 5))
    if field.message_type is None:
        return draw(BY_CPP_TYPE.get(field.cpp_type, st.text(max_size=8)))
    return filled(draw, field.message_type, depth + 1)


def filled(draw: st.DrawFn, descriptor: Descriptor, depth: int = 0) -> Message:
    """A random message. Recursion stays above the depth where columns are cut."""
    message = GetMessageClass(descriptor)()
    match descriptor.full_name:
        case "google.protobuf.Timestamp":
            message.seconds = draw(st.integers(-62_135_596_800, 253_402_300_799))
            message.nanos = draw(st.integers(0, 999_999_999))
            return message
        case "google.protobuf.Duration":
            message.seconds = draw(st.integers(-315_576_000_000, 315_576_000_000))
            sign = -1 if message.seconds < 0 else 1
            message.nanos = sign * draw(st.integers(0, 999_999_999))
            return message
        case "google.protobuf.Any":
            message.type_url = "type.googleapis.com/runtime.test.Unknown"
            message.value = draw(st.binary(max_size=8))
            return message
    for field in descriptor.fields:
        if (depth > 2 and field.message_type is not None) or not draw(st.booleans()):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            entries = getattr(message, field.name)
            for _ in range(draw(st.integers(0, 2))):
                at, item = single(draw, key, depth), single(draw, value, depth)
                if value.message_type is None:
                    entries[at] = item
                else:
                    entries[at].CopyFrom(item)
        elif field.is_repeated:
            getattr(message, field.name).extend(
                single(draw, field, depth) for _ in range(draw(st.integers(0, 2)))
            )
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(single(draw, field, depth))
        else:
            setattr(message, field.name, single(draw, field, depth))
    return message
