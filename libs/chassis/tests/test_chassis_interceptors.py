from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from daggers.v1 import gateway_pb2 as pb
from daggers.v1 import gateway_pb2_grpc as rpc
from google.protobuf import descriptor_pb2, descriptor_pool

from chassis import interceptors
from chassis.errors import ApiError, from_rpc_error, invalid
from chassis.interceptors import actor, authentication, interceptor
from chassis.logging import configure, note
from chassis.messages import MAX_MESSAGE
from chassis.tokenfile import Tokens, read_tokens
from daggerspec.violation import Violation

TOKEN = "a-token-of-good-length"


class Daggers(rpc.DaggerServiceServicer):
    """Behaves as the name in the request says."""

    async def GetDagger(self, request: pb.GetDaggerRequest, context: Any) -> pb.GetDaggerResponse:  # noqa: N802 - gRPC's
        note(dagger=request.name)
        match request.name:
            case "invalid":
                raise invalid([Violation("name", "is odd"), Violation("min_sequence", "is odd too")])
            case "broken":
                raise RuntimeError("the password is hunter2")
        return pb.GetDaggerResponse(dagger=pb.Dagger(name=actor()), sequence=7)

    async def WatchEvents(  # noqa: N802 - gRPC's
        self, request: pb.WatchEventsRequest, context: Any
    ) -> AsyncIterator[pb.WatchEventsResponse]:
        yield pb.WatchEventsResponse(sequence=1)
        if request.name == "invalid":
            raise ApiError(grpc.StatusCode.UNAVAILABLE, "DRAINING", "later", {})
        if request.name == "endless":
            await asyncio.Event().wait()
        yield pb.WatchEventsResponse(sequence=2)


class Lines(io.StringIO):
    """Where the log goes; tells when it grows."""

    def __init__(self) -> None:
        super().__init__()
        self.grown = asyncio.Event()

    def write(self, text: str) -> int:
        self.grown.set()
        return super().write(text)

    async def of(self, call_id: str, count: int = 1) -> list[dict[str, Any]]:
        """The lines of one call, once there are so many: an answer may come before its line."""
        async with asyncio.timeout(10):
            while True:
                self.grown.clear()
                lines = [json.loads(line) for line in self.getvalue().splitlines()]
                mine = [line for line in lines if line.get("call_id") == call_id]
                if len(mine) >= count:
                    return mine
                await self.grown.wait()


@pytest.fixture
def log() -> Iterator[Lines]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    out = Lines()
    configure("test", stream=out)
    yield out
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


async def serve(tokens: Tokens | None) -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server(interceptors=[interceptor(pb.DESCRIPTOR, authentication(tokens))])
    rpc.add_DaggerServiceServicer_to_server(Daggers(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(grace=None)


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    async for opened in serve(None):
        yield opened


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[grpc.aio.Channel]:
    path = tmp_path / "tokens"
    path.write_text(f"# bots\n\nbot: {TOKEN}\n")
    async for opened in serve(partial(read_tokens, path)):
        yield opened


async def get(channel: grpc.aio.Channel, name: str, **options: Any) -> pb.GetDaggerResponse:
    return await rpc.DaggerServiceStub(channel).GetDagger(
        pb.GetDaggerRequest(name=name), **{"timeout": 10, **options}
    )


async def refusal(channel: grpc.aio.Channel, name: str, **options: Any) -> ApiError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await get(channel, name, **options)
    return from_rpc_error(caught.value)


async def test_a_request_that_does_not_come_is_not_waited_for(
    channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptors, "RECEIVE_S", 0.2)
    call: Any = channel.stream_unary("/daggers.v1.DaggerService/GetDagger")(timeout=60)

    async with asyncio.timeout(60):
        assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert await call.details() == "the request did not come within 0.2 s of its call"


async def test_a_request_has_the_size_of_its_method(channel: grpc.aio.Channel) -> None:
    call: Any = channel.unary_unary("/daggers.v1.DaggerService/GetDagger")(bytes(MAX_MESSAGE + 1), timeout=60)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    refused = from_rpc_error(caught.value)

    assert (refused.code, refused.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE")
    assert refused.metadata["limit"] == str(MAX_MESSAGE)


async def test_an_answer_passes_through_and_the_call_is_one_line(
    channel: grpc.aio.Channel, log: Lines
) -> None:
    answer = await get(channel, "fine", metadata=(("x-request-id", "mine"),))
    (line,) = await log.of("mine")

    said = (line["method"], line["dagger"], line["code"], line["call_id"], "error" in line)

    assert (answer.sequence, said) == (
        7,
        ("/daggers.v1.DaggerService/GetDagger", "fine", "OK", "mine", False),
    )


async def test_the_calls_id_comes_back_and_an_unreadable_one_is_replaced(channel: grpc.aio.Channel) -> None:
    ids = []
    for sent in ("mine", "two words", "x" * 200):
        call = rpc.DaggerServiceStub(channel).GetDagger(
            pb.GetDaggerRequest(), timeout=10, metadata=(("x-request-id", sent),)
        )
        await call
        ids.append(dict(await call.trailing_metadata())["x-request-id"])

    assert (ids[0], len(ids[1]), len(ids[2])) == ("mine", 32, 32)


async def test_an_api_error_arrives_with_all_its_details(channel: grpc.aio.Channel, log: Lines) -> None:
    error = await refusal(channel, "invalid", metadata=(("x-request-id", "mine"),))
    (line,) = await log.of("mine")

    assert (
        error.code,
        error.reason,
        [v.field for v in error.violations],
        error.request_id,
        line["error"],
    ) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_FIELDS",
        ["name", "min_sequence"],
        "mine",
        "INVALID_FIELDS",
    )


async def test_an_unhandled_exception_is_internal_with_the_calls_id_and_nothing_else(
    channel: grpc.aio.Channel, log: Lines
) -> None:
    error = await refusal(channel, "broken", metadata=(("x-request-id", "mine"),))
    trace, line = await log.of("mine", count=2)

    assert (error.code, error.message, "hunter2" in str(trace["exception"]), line["code"]) == (
        grpc.StatusCode.INTERNAL,
        "internal error; the server's log has it under call mine",
        True,
        "INTERNAL",
    )


async def test_a_unary_call_without_a_deadline_is_refused(channel: grpc.aio.Channel) -> None:
    error = await refusal(channel, "fine", timeout=None)

    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "DEADLINE_REQUIRED")


async def test_bytes_that_are_no_protobuf_are_invalid(channel: grpc.aio.Channel) -> None:
    raw = channel.unary_unary("/daggers.v1.DaggerService/GetDagger")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await raw(b"\xff\xff\xff", timeout=10)

    error = from_rpc_error(caught.value)

    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")


async def test_a_stream_needs_no_deadline_and_is_one_line(channel: grpc.aio.Channel, log: Lines) -> None:
    stub, metadata = rpc.DaggerServiceStub(channel), (("x-request-id", "mine"),)
    steps = [step.sequence async for step in stub.WatchEvents(pb.WatchEventsRequest(), metadata=metadata)]

    assert (steps, [line["code"] for line in await log.of("mine")]) == ([1, 2], ["OK"])


async def test_a_stream_that_the_caller_leaves_is_one_cancelled_line(
    channel: grpc.aio.Channel, log: Lines
) -> None:
    watching = rpc.DaggerServiceStub(channel).WatchEvents(
        pb.WatchEventsRequest(name="endless"), metadata=(("x-request-id", "mine"),)
    )
    await watching.read()
    watching.cancel()

    (line,) = await log.of("mine")

    assert line["code"] == "CANCELLED"


async def test_a_stream_ends_with_the_status_of_what_it_raised(channel: grpc.aio.Channel) -> None:
    watching = rpc.DaggerServiceStub(channel).WatchEvents(pb.WatchEventsRequest(name="invalid"))
    first = await watching.read()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watching.read()

    assert (first.sequence, from_rpc_error(caught.value).reason) == (1, "DRAINING")


@pytest.mark.parametrize(
    "metadata",
    [(), (("authorization", "Bearer wrong-token-of-good-length"),), (("authorization", f"Basic {TOKEN}"),)],
)
async def test_a_call_without_a_valid_token_is_refused(
    guarded: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...]
) -> None:
    error = await refusal(guarded, "fine", metadata=metadata)

    assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_REQUIRED")


async def test_a_token_says_who_calls(guarded: grpc.aio.Channel, log: Lines) -> None:
    metadata = (("authorization", f"bearer {TOKEN}"), ("x-request-id", "mine"))
    answer = await get(guarded, "fine", metadata=metadata)
    (line,) = await log.of("mine")

    assert (answer.dagger.name, line["actor"], TOKEN in log.getvalue()) == ("bot", "bot", False)


async def test_without_tokens_everybody_is_anonymous(channel: grpc.aio.Channel) -> None:
    answer = await get(channel, "fine")

    assert answer.dagger.name == "anonymous"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no token"),
        ("# nobody\n", "holds no token"),
        ("bot: short", "line 1 .* at least 16 characters"),
        (f"ok:{TOKEN}\n{TOKEN}", "line 2 "),
    ],
)
def test_a_bad_token_file_is_refused_by_line_and_no_token_is_shown(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(ValueError, match=said) as caught:
        read_tokens(path)

    assert TOKEN not in str(caught.value)


def test_a_method_that_takes_a_stream_of_requests_is_refused_before_anything_is_served() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="streams.proto", package="t", syntax="proto3")
    file.message_type.add(name="Said")
    talks = file.service.add(name="Talks").method.add(name="Talk", client_streaming=True)
    talks.input_type = talks.output_type = ".t.Said"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    all_ = descriptor_pb2.FileDescriptorProto(name="all.proto", dependency=["streams.proto"])
    all_.public_dependency.append(0)
    pool.Add(all_)

    for name in ("streams.proto", "all.proto"):
        with pytest.raises(TypeError, match=r"t\.Talks\.Talk would pass without"):
            interceptor(pool.FindFileByName(name))


async def test_a_stream_of_requests_of_another_proto_does_not_pass_unseen() -> None:
    async def talk(_: Any, __: Any) -> AsyncIterator[bytes]:
        yield b"unseen"

    server = grpc.aio.server(interceptors=[interceptor(pb.DESCRIPTOR)])
    handlers = {"Talk": grpc.stream_stream_rpc_method_handler(talk)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Talks", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                async for _ in channel.stream_stream("/t.Talks/Talk")(iter([b"1"]), timeout=10):
                    pass
    finally:
        await server.stop(None)
