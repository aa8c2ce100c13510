"""How the runtime talks to Kafka: client properties out of an address, headers of what it writes."""

from __future__ import annotations

from datetime import UTC, datetime

from daggers.v1 import spec_pb2

from daggerspec import kafka
from kafkaclient.address import librdkafka
from runtime import secrets
from runtime.errors import refused


def client_properties(address: spec_pb2.KafkaAddress) -> dict[str, str]:
    """librdkafka properties for `address`, secrets resolved: never log or print what this returns.

    Raises `JobError`: USER for an address that no cluster could be registered with (all that is wrong is
    named), EXTERNAL when a secret cannot be read.
    """
    if wrong := list(kafka.address("cluster.kafka", address)):
        raise refused(wrong)
    return librdkafka(address, secrets.resolve)


def cloudevent_headers(
    *, ce_id: str, ce_type: str, source: str, subject: str, time: datetime
) -> list[tuple[str, str | bytes | None]]:
    """CloudEvents binary-mode headers of a record whose value is a serialised Protobuf message.

    `ce_type` is the message's full name, `time` is aware.
    """
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": ce_id,
        "ce_type": ce_type,
        "ce_source": source,
        "ce_subject": subject,
        "ce_time": time.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "content-type": "application/protobuf",
    }
    return [(name, value.encode()) for name, value in attributes.items()]
