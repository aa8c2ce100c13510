"""Whatever a request says, the answer is a refusal with a reason: never INTERNAL."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2
from daggers.v1 import gateway_pb2 as pb
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from chassis.interceptors import methods, path

_AT_ONCE = 16
# Reads of a sequence that has not come wait as long as they may.
_DEADLINE_S = 1.0
_WATCHED_S = 0.2
_DEPTH = 6
_TEXTS = [
    "", "bookings", "local", "shop.Booking", "data_stream", "pricing", "event_time", "a", "../../etc/passwd",
    "\x00", "é😀‮\x9b[2J", "x" * 300, "SELECT 1", "SELECT count(1) AS n FROM data_stream", "local[2]",
    "http://127.0.0.1:1", "user:ada", "name", "city desc", "{", "127.0.0.1:9092", "google.protobuf.Timestamp",
    "shop/booking.proto", ".shop.Booking", "daggers.control", "2024-02-30", "proto3", "-1", "state = RUNNING",
]  # fmt: skip
_NUMBERS = [0, 1, 2, 7, 59, 100, 999_999_999, 1_000_000_000, 2**31 - 1]
_SIGNED = [*_NUMBERS, -1, -(2**31), 2**40]
_WIDE = [*_SIGNED, 253_402_300_800, -62_135_596_801, 2**63 - 1, -(2**63)]


def message(chosen: random.Random, kind: Descriptor, depth: int = 0) -> Message:
    """A message with some of its fields, and values of all sorts in them."""
    made = GetMessageClass(kind)()
    for field in kind.fields:
        if chosen.random() < 0.5 and depth < _DEPTH:
            _fill(chosen, made, field, depth)
    return made


def _fill(chosen: random.Random, made: Any, field: FieldDescriptor, depth: int) -> None:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        values = kind.fields_by_name["value"]
        if values.message_type is None:
            getattr(made, field.name)[_value(chosen, kind.fields_by_name["key"])] = _value(chosen, values)
    elif kind is not None and field.is_repeated:
        getattr(made, field.name).extend(
            message(chosen, kind, depth + 1) for _ in range(chosen.randint(1, 2))
        )
    elif kind is not None:
        getattr(made, field.name).CopyFrom(message(chosen, kind, depth + 1))
    elif field.is_repeated:
        getattr(made, field.name).extend(_value(chosen, field) for _ in range(chosen.randint(1, 2)))
    else:
        setattr(made, field.name, _value(chosen, field))


def _value(chosen: random.Random, field: FieldDescriptor) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = chosen.choice(_TEXTS)
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_BOOL:
            return chosen.random() < 0.5
        case FieldDescriptor.CPPTYPE_ENUM:
            closed = field.enum_type.is_closed
            numbers = [value.number for value in field.enum_type.values]
            return chosen.choice(numbers if closed else [*numbers, 99])
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return chosen.choice([0.0, -1.0, 1e300 if field.type == FieldDescriptor.TYPE_DOUBLE else 1e30])
        case FieldDescriptor.CPPTYPE_INT64:
            return chosen.choice(_WIDE)
        case FieldDescriptor.CPPTYPE_INT32:
            return chosen.choice([each for each in _SIGNED if abs(each) <= 2**31 - 1])
    return chosen.choice(_NUMBERS)


async def answer(channel: Any, method: MethodDescriptor, request: Message) -> grpc.StatusCode:
    """How a call ends. What goes on after its first steps is cut off."""
    made = channel.unary_stream if method.server_streaming else channel.unary_unary
    call = made(path(method), request_serializer=type(request).SerializePartialToString)(
        request, timeout=_WATCHED_S if method.server_streaming else _DEADLINE_S
    )
    try:
        if method.server_streaming:
            async for _ in call:
                pass
        else:
            await call
    except grpc.aio.AioRpcError:
        pass
    return await call.code()


@pytest.mark.parametrize(
    "requests", [3, pytest.param(5_000, marks=[pytest.mark.long, pytest.mark.timeout(14_400)])]
)
async def test_no_request_is_answered_internal(client: Any, requests: int) -> None:
    chosen = random.Random(1)
    room, internal = asyncio.Semaphore(_AT_ONCE), dict[str, Message]()

    async def asked(method: MethodDescriptor, codes: Counter[str]) -> None:
        async with room:
            request = message(chosen, method.input_type)
            code = await answer(client.channel, method, request)
        codes[code.name] += 1
        if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
            internal[method.name] = request

    for method in methods(gateway_pb2.DESCRIPTOR):
        codes = Counter[str]()
        await asyncio.gather(*(asked(method, codes) for _ in range(requests)))
        print(f"fuzzed {method.full_name}: {dict(codes)}")  # noqa: T201 - for who asks how much was tried

    assert internal == {}


async def test_an_instant_has_less_than_a_second_of_nanoseconds(client: Any, samples: Any) -> None:
    spec = samples.spec()
    spec.streams[0].start.at.seconds, spec.streams[0].start.at.nanos = 1_700_000_000, 1_000_000_000
    answered = await client.daggers.Validate(pb.ValidateRequest(name="a_dagger", spec=spec), timeout=10)

    assert "spec.streams[0].start.at" in [finding.field for finding in answered.findings]


async def test_an_option_without_what_it_requires_is_a_finding(client: Any, samples: Any) -> None:
    files = samples.files()
    files.file[0].options.uninterpreted_option.add().name.add()
    asked = client.channel.unary_unary(
        "/daggers.v1.CatalogService/RegisterSchema",
        request_serializer=pb.RegisterSchemaRequest.SerializePartialToString,
    )
    call = asked(pb.RegisterSchemaRequest(schema=spec_pb2.Schema(files=files)), timeout=10)

    assert await call.code() == grpc.StatusCode.INVALID_ARGUMENT
