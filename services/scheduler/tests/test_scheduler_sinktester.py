"""Tests of sinks at a host: by a process of the runtime, with the secrets that the sink names alone."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, host_pb2_grpc, spec_pb2
from services.scheduler.tests.operation_host import operating

from chassis.errors import ApiError, from_rpc_error
from scheduler.host import reader_process

DEADLINE_S = 120
CANARY = "canary-5b2e77d0"
META = events_pb2.RequestMeta(actor="test")


class Server:
    """Answers every request that nothing takes it, and keeps them."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        except asyncio.IncompleteReadError:
            pass  # who only looks whether anybody listens
        finally:
            writer.close()


def host(
    folder: Path, port: int, **changed: Any
) -> AbstractAsyncContextManager[host_pb2_grpc.HostServiceStub]:
    """A host that knows the registered sinks `crm`, `lost` and `own`."""
    url, events = f"http://127.0.0.1:{port}", []
    for name, variable in (("crm", "TOKEN"), ("lost", "UNSET"), ("own", "TOKEN")):
        http = spec_pb2.HttpSink(url=url)
        http.auth.bearer.env = variable
        sink = spec_pb2.RegisteredSink(
            name=name, teams=["pricing"], sink=spec_pb2.Sink(http=http), exempt=name != "own"
        )
        events.append((name, events_pb2.SinkRegistered(meta=META, sink=sink)))
    knowledge = {"egress": spec_pb2.Egress(enforce=True)}
    return operating(folder, events, {"TOKEN": CANARY}, knowledge=knowledge, **changed)


async def tried(stub: host_pb2_grpc.HostServiceStub, sink: str, **fields: Any) -> list[gateway_pb2.SinkStep]:
    asked = gateway_pb2.TestSinkRequest(sink=sink)
    request = host_pb2.TestHostSinkRequest(**{"request": asked, "min_sequence": 2, **fields})
    return [each.step async for each in stub.TestHostSink(request, timeout=DEADLINE_S)]


async def refused(stub: host_pb2_grpc.HostServiceStub, sink: str, **fields: Any) -> ApiError:
    with pytest.raises(grpc.RpcError) as caught:
        await tried(stub, sink, **fields)
    return from_rpc_error(caught.value)


async def test_a_registered_sink_is_tried_with_its_secret_which_nobody_is_told(tmp_path: Path) -> None:
    server = Server()
    async with (
        await asyncio.start_server(server.answer, "127.0.0.1", 0) as listening,
        host(tmp_path, listening.sockets[0].getsockname()[1]) as stub,
    ):
        steps = await tried(stub, "crm")
        lost = await tried(stub, "lost")
        inward = await tried(stub, "own")

    assert [(step.what, step.reason) for step in steps] == [
        ("secrets", ""),
        ("address", ""),
        ("connect", ""),
        ("ask", ""),
    ]
    [request] = server.requests
    assert (request.startswith(b"HEAD / "), CANARY.encode() in request) == (True, True)
    assert CANARY not in str([*steps, *lost, *inward])
    assert [(each.sink, each.what, each.reason) for each in lost] == [("lost", "secrets", "SECRET_MISSING")]
    assert [(each.what, each.reason) for each in inward] == [
        ("secrets", ""),
        ("address", "SINK_ADDRESS_REFUSED"),
    ]


async def test_a_sink_that_is_not_there_a_host_that_is_behind_busy_or_another_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_process, "BEHIND_S", 0.1)
    async with host(tmp_path, 1) as stub:
        nothing = await refused(stub, "crn")
        other = await refused(stub, "crm", host="there")
        behind = await refused(stub, "crm", min_sequence=99)
    async with host(tmp_path, 1, most=0) as stub:
        busy = await refused(stub, "crm")

    assert [each.reason for each in (nothing, other, behind, busy)] == [
        "NOT_FOUND",
        "WRONG_HOST",
        "HOST_BEHIND",
        "HOST_BUSY",
    ]
