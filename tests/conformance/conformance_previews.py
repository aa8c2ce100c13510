"""Helpers of test_conformance_previews.py and of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import spec_pb2
from google.protobuf.message import Message
from services.runtime.tests.launches import whole
from tests.conformance.corpus import public, tables
from tests.conformance.recounts.own import Query


def job(query: Query, topics: Mapping[str, str], kafka: str, run_dir: Path) -> spec_pb2.JobSpec:
    """The launch of a query over these topics, by table."""
    prepared = spec_pb2.JobSpec(
        dagger=f"d-{uuid4().hex[:8]}",
        version=1,
        generation=1,
        run_dir=str(run_dir),
        checkpoint_root=str(run_dir / "checkpoints"),
        sinks=[spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=1)))],
    )
    prepared.spec.sql = query.sql
    prepared.spec.trigger.FromSeconds(1)
    for table in tables(*query.streams):
        stream = prepared.streams.add()
        stream.kafka.bootstrap_servers = kafka
        stream.input.table = table.name
        stream.input.watermark_delay.FromSeconds(1)
        stream.input.idle_timeout.FromSeconds(1)
        stream.input.future_tolerance.FromSeconds(300)
        stream.input.start.earliest = True
        stream.stream.name, stream.stream.cluster = f"s-{table.name}".replace("_", "-"), "local"
        stream.stream.topics.append(topics[table.name])
        stream.stream.message, stream.stream.time_field = table.message.full_name, table.time_field
    prepared.platform.bootstrap_servers = kafka
    prepared.descriptors.CopyFrom(public().files)
    prepared = whole(prepared)
    prepared.ClearField("platform")
    return prepared


def written(streams: Mapping[str, Sequence[Message]], kafka: str) -> dict[str, str]:
    """A topic for each table, with its records."""
    admin, producer = AdminClient({"bootstrap.servers": kafka}), Producer({"bootstrap.servers": kafka})
    topics = {table: f"preview-{uuid4().hex[:8]}" for table in streams}
    for done in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics.values()]).values():
        done.result(60)
    for table, records in streams.items():
        for record in records:
            producer.produce(topics[table], record.SerializeToString())
            producer.poll(0)
    assert producer.flush(60) == 0
    return topics


def topic_of(spec: spec_pb2.JobSpec) -> dict[str, str]:
    """The topic of each table of a launch."""
    return {stream.input.table: stream.stream.topics[0] for stream in spec.streams}
