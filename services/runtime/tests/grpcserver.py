"""A real gRPC server of a test, which keeps what it gets and answers as it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from runtime.clients import calls, sending
from runtime.clients.calls import HEALTH

METHOD = "shop.Orders/Put"
MESSAGE = "shop.Row"
_STRING, _INT64, _MESSAGE = 9, 3, 11


def _files() -> descriptor_pb2.FileDescriptorSet:
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    shop = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    row = shop.message_type.add(name="Row")
    row.field.add(name="tag_city", number=1, label=1, type=_STRING)
    row.field.add(name="n", number=2, label=1, type=_INT64, proto3_optional=True, oneof_index=0)
    time = ".google.protobuf.Timestamp"
    row.field.add(name="window_timestamp", number=3, label=1, type=_MESSAGE, type_name=time)
    row.oneof_decl.add(name="_n")
    return descriptor_pb2.FileDescriptorSet(file=[times, shop])


DESCRIPTORS = _files().SerializeToString()
"""The files of MESSAGE, which has the columns of the contract's rows."""


def _class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in _files().file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(MESSAGE))


Row = _class()


@dataclass(frozen=True)
class Received:
    """One call."""

    message: bytes
    metadata: Mapping[str, str | bytes]

    @property
    def row(self) -> Any:
        return Row.FromString(self.message)


@dataclass(frozen=True)
class Reply:
    """What is answered."""

    status: grpc.StatusCode = grpc.StatusCode.OK
    said: str = ""
    trailing: tuple[tuple[str, str | bytes], ...] = ()
    after_s: float = 0.0
    message: bytes = b""


class Server(grpc.GenericRpcHandler):
    """What was asked, and what is answered from now on."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Callable[[Received], Reply] = lambda _: Reply()
        self.health: Callable[[], Reply] | None = None
        """What HEALTH answers; None: there is no such method."""
        self.target = ""
        self.now = 0
        self.most_at_once = 0
        self._turn = threading.Lock()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method
        if method == f"/{HEALTH}" and self.health is not None:
            return grpc.unary_unary_rpc_method_handler(self._asked)
        return grpc.unary_unary_rpc_method_handler(self._called) if method == f"/{METHOD}" else None

    def _asked(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        assert self.health is not None
        return self._replied(self.health(), context)

    def _called(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        with self._turn:
            self.now += 1
            self.most_at_once = max(self.most_at_once, self.now)
            metadata = dict(context.invocation_metadata())
            got = Received(message, metadata)
            self.received.append(got)
            reply = self.answer(got)
        try:
            return self._replied(reply, context)
        finally:
            with self._turn:
                self.now -= 1

    def _replied(self, reply: Reply, context: grpc.ServicerContext) -> bytes:
        time.sleep(reply.after_s)  # a server that is slow
        if reply.status != grpc.StatusCode.OK:
            context.set_trailing_metadata(reply.trailing)
            context.abort(reply.status, reply.said)
        return reply.message


@contextmanager
def serving(port: int = 0, certificate: Path | None = None, threads: int = 64) -> Iterator[Server]:
    """A server on loopback, while the block runs; `certificate` is one with its key, of a server with TLS."""
    made = Server()
    options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 1024 * 1024)]
    server = grpc.server(futures.ThreadPoolExecutor(threads), handlers=[made], options=options)
    if certificate is None:
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
    else:
        pem = certificate.read_bytes()
        bound = server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(pem, pem)]))
    server.start()
    made.target = f"127.0.0.1:{bound}"
    try:
        yield made
    finally:
        server.stop(0.1).wait(10)


def at(sink: spec_pb2.ResolvedSink, port: int) -> spec_pb2.ResolvedSink:
    """A sink behind another port of this machine."""
    moved = spec_pb2.ResolvedSink()
    moved.CopyFrom(sink)
    moved.sink.grpc.target = f"127.0.0.1:{port}"
    return moved


@contextmanager
def silence(sink: spec_pb2.ResolvedSink, monkeypatch: pytest.MonkeyPatch) -> Iterator[spec_pb2.ResolvedSink]:
    """A sink where nobody listens, given up soon."""
    with monkeypatch.context() as soon:
        soon.setattr(sending, "PATIENCE_S", 0.2)
        yield at(sink, 1)


def forget() -> None:
    """Close every channel: a process that is forked beside an open one never begins."""
    calls.pool.clear()
