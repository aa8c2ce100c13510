"""A launch whose reads are planned, and its secrets."""

from __future__ import annotations

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf import descriptor_pb2, timestamp_pb2

from daggerspec.defaults import fill_defaults

CANARY = "canary-77c1f2aa"
META = events_pb2.RequestMeta(actor="test")
KAFKA = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1")
KAFKA.secret_properties["sasl.password"].env = "UNSET"
KAFKA.secret_properties["ssl.key.password"].env = "TOKEN"
FIELD = descriptor_pb2.FieldDescriptorProto
CLUSTER = spec_pb2.Cluster(name="local", kafka=KAFKA, spark_master="local[1]")
SCHEMA = descriptor_pb2.FileDescriptorSet()
timestamp_pb2.DESCRIPTOR.CopyToProto(SCHEMA.file.add())
MESSAGE = SCHEMA.file.add(name="m.proto", package="m", syntax="proto3").message_type.add(name="M")
SCHEMA.file[1].dependency.append(SCHEMA.file[0].name)
MESSAGE.field.add(
    name="at",
    number=1,
    label=FIELD.LABEL_OPTIONAL,
    type=FIELD.TYPE_MESSAGE,
    type_name=".google.protobuf.Timestamp",
)
SQL = (
    "SELECT COUNT(1) AS n, TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp FROM data_stream"
    " GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)"
)
SPEC = fill_defaults(
    "counts",
    spec_pb2.DaggerSpec(
        team="t",
        cluster="local",
        sql=SQL,
        streams=[spec_pb2.StreamInput(table="data_stream", stream="s")],
        sinks=[spec_pb2.Sink(log=spec_pb2.LogSink())],
    ),
)
CREATED = 3
