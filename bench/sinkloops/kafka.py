"""The sink `kafka`, against librdkafka's own cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from daggers.v1 import spec_pb2

from runtime.clients import mock_cluster
from sinkloops import DAGGER, TIME, Trial, apart, digest, instant, key, seen, text

_TOPIC = "rows"


@asynccontextmanager
async def serve() -> AsyncIterator[str]:
    """A cluster of one broker."""
    with mock_cluster.run_cluster([_TOPIC]) as servers:
        yield servers


def _sink(servers: str) -> spec_pb2.ResolvedSink:
    own = spec_pb2.KafkaSink(topic=_TOPIC, format=spec_pb2.KafkaSink.FORMAT_JSON)
    made = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(kafka=own))
    made.kafka.bootstrap_servers = servers
    return made


def _send(servers: str, batch: pa.RecordBatch) -> None:
    failed: list[Any] = []

    def heard(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 5}
    )
    for row in batch.to_pylist():
        told = key(row)
        headers = {
            "ce_specversion": "1.0",
            "ce_id": digest(DAGGER, told),
            "ce_source": f"/daggers/{DAGGER}",
            "ce_type": "daggers.v1.Row",
            "ce_subject": DAGGER,
            "ce_time": instant(row[TIME]),
            "content-type": "application/json",
        }
        while True:
            try:
                producer.produce(_TOPIC, text(seen(row)).encode(), told, headers=headers, on_delivery=heard)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(60) == 0
    assert not failed, failed[0]


TRIALS = {"kafka": Trial(partial(apart, "kafka"), _sink, _send)}
