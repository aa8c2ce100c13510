"""Server reflection, v1 and v1alpha, from which grpcurl and other tools learn the API.

grpcio-reflection has v1alpha only. v1 is the same service, with the same bytes, in another package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import grpc
from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection, reflection_pb2

V1: Final = "grpc.reflection.v1.ServerReflection"


def enable(services: Sequence[str], server: grpc.aio.Server) -> None:
    """Describe the services, and both reflections. Call it before the server is started."""
    alpha = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
    described = text_format.MessageToString(alpha).replace("v1alpha", "v1")
    descriptor_pool.Default().AddSerializedFile(
        text_format.Parse(described, FileDescriptorProto()).SerializeToString()
    )
    names = (*services, V1, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    handler = grpc.stream_stream_rpc_method_handler(
        reflection.aio.ReflectionServicer(service_names=names).ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": handler}),)
    )
