"""The sink `grpc`: a call for each row."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import grpc
import pyarrow as pa
from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sinkloops import AT_ONCE, COLUMNS, DAGGER, TIME, Trial, apart, digest, key

METHOD: Final = "bench.Rows/Put"
MESSAGE: Final = "bench.Row"
_TYPES: Final = {"string": "TYPE_STRING", "bigint": "TYPE_INT64", "double": "TYPE_DOUBLE"}


def descriptors() -> bytes:
    """The files of MESSAGE."""
    time = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName("google/protobuf/timestamp.proto").CopyToProto(time)
    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    file.dependency.append(time.name)
    row = file.message_type.add(name="Row")
    for number, (name, _, spark, _) in enumerate(COLUMNS, 1):
        field = row.field.add(name=name, number=number, label="LABEL_OPTIONAL")
        if name == TIME:
            field.type, field.type_name = "TYPE_MESSAGE", ".google.protobuf.Timestamp"
        else:
            field.type = _TYPES[spark]
    return descriptor_pb2.FileDescriptorSet(file=[time, file]).SerializeToString()


class _Taking(grpc.GenericRpcHandler):
    def service(self, _: grpc.HandlerCallDetails) -> Any:
        async def taken(_request: bytes, _context: Any) -> bytes:
            return b""

        return grpc.unary_unary_rpc_method_handler(taken)


@asynccontextmanager
async def serve() -> AsyncIterator[str]:
    """A server of the method."""
    server = grpc.aio.server(handlers=[_Taking()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def _sink(target: str) -> spec_pb2.ResolvedSink:
    own = spec_pb2.GrpcSink(target=target, method=METHOD, message=MESSAGE, plaintext=True)
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(grpc=own))


def _send(target: str, batch: pa.RecordBatch) -> None:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(MESSAGE))

    async def all_of_them() -> None:
        left = deque(batch.to_pylist())
        async with grpc.aio.insecure_channel(target) as channel:
            call = channel.unary_unary(f"/{METHOD}", request_serializer=kind.SerializeToString)

            async def lane() -> None:
                while left:
                    row = left.popleft()
                    told = digest(f"{DAGGER}/grpc", key(row))
                    message = kind(**{name: row[name] for name, *_ in COLUMNS})
                    await call(message, metadata=(("idempotency-key", told), ("ce-id", told)), timeout=10)

            await asyncio.gather(*(lane() for _ in range(AT_ONCE)))

    asyncio.run(all_of_them())


TRIALS = {"grpc": Trial(partial(apart, "grpc"), _sink, _send, 0.05)}
