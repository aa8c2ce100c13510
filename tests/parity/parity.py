"""Helpers of test_parity.py and of its neighbours."""

from __future__ import annotations

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf import descriptor_pb2, timestamp_pb2

from eventlog.testing import given
from fleet import Fleet

NAME = "a_dagger"
PLATFORM = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:9092")
F = descriptor_pb2.FieldDescriptorProto
TIMESTAMP = ".google.protobuf.Timestamp"


def fleet() -> Fleet:
    """Knows the cluster local, one without Spark, Kafka and bucket, streams of both, secrets and sinks."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    booking, summary = file.message_type.add(name="Booking"), file.message_type.add(name="Summary")
    for message, name, number, kind in (
        (booking, "event_time", 1, TIMESTAMP), (booking, "city", 2, F.TYPE_STRING),
        (summary, "tag_city", 1, F.TYPE_STRING), (summary, "orders", 2, F.TYPE_INT64),
        (summary, "window_timestamp", 3, TIMESTAMP),
    ):  # fmt: skip
        field = message.field.add(name=name, number=number, label=F.LABEL_OPTIONAL)
        if isinstance(kind, str):
            field.type, field.type_name = F.TYPE_MESSAGE, kind
        else:
            field.type = kind
    service = file.service.add(name="Summaries")
    service.method.add(name="Put", input_type=".shop.Summary", output_type=".shop.Summary")
    service.method.add(name="Book", input_type=".shop.Booking", output_type=".shop.Summary")
    service.method.add(
        name="Follow", input_type=".shop.Summary", output_type=".shop.Summary", server_streaming=True
    )
    timestamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    schema = spec_pb2.Schema(messages=["shop.Booking", "shop.Summary"])
    schema.files.file.extend([timestamp, file])
    local = spec_pb2.Cluster(name="local", kafka=PLATFORM, spark_master="local[2]")
    local.influx.MergeFrom(spec_pb2.InfluxAddress(url="http://127.0.0.1:8086", org="-", bucket="daggers"))
    local.influx.token.env = "INFLUX_TOKEN"
    bare = spec_pb2.Cluster(name="bare", influx=spec_pb2.InfluxAddress(url="http://x:1", org="-"))
    stream = spec_pb2.Stream(name="bookings", cluster="local", topics=["bookings-1"])
    lost = spec_pb2.Stream(name="lost", cluster="bare", topics=["t"])
    for each in (stream, lost):
        each.message, each.time_field = "shop.Booking", "event_time"
    secrets = [
        spec_pb2.Secret(name=f"{team}-token", team=team, place=place, addresses=["http://warehouse:8086"])
        for team, place in (("pricing", {"file": "/etc/daggers/token"}), ("others", {"env": "OTHERS"}))
    ]
    address = {"url": "http://warehouse:8086", "bucket": "rows", "token": {"name": "pricing-token"}}
    sinks = [
        spec_pb2.RegisteredSink(name="warehouse", teams=["pricing"], sink={"influx": {"address": address}}),
        spec_pb2.RegisteredSink(name="topics", sink={"kafka": {"cluster": "local"}}),
        spec_pb2.RegisteredSink(name="theirs", teams=["others"], sink={"influx": {"address": address}}),
    ]
    folded = Fleet()
    for record in given(
        events_pb2.ClusterRegistered(cluster=local),
        events_pb2.ClusterRegistered(cluster=bare),
        events_pb2.SchemaRegistered(schema=schema),
        events_pb2.StreamRegistered(stream=stream),
        events_pb2.StreamRegistered(stream=lost),
        *(events_pb2.SecretRegistered(secret=secret) for secret in secrets),
        *(events_pb2.SinkRegistered(sink=sink) for sink in sinks),
    ):
        folded.apply(record)
    return folded
