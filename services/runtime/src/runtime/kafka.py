"""How the runtime talks to Kafka: client properties out of an address, headers of what it writes."""

from __future__ import annotations

from datetime import UTC, datetime

from daggers.v1 import spec_pb2

from runtime import secrets
from runtime.errors import user

# Set by the runtime itself: another value would break how it reads and commits.
_OURS = {
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "group.id",
    "metadata.broker.list",
}
# Load code of the user's choice into the driver.
_CODE = {"plugin.library.paths", "ssl.engine.location", "ssl.providers"}
_FORBIDDEN = _OURS | _CODE


def client_properties(address: spec_pb2.KafkaAddress) -> dict[str, str]:
    """librdkafka properties for `address`, secrets resolved: never log or print what this returns.

    Raises `JobError`: USER when the address sets properties it must not set (all are named), EXTERNAL when a
    secret cannot be read.
    """
    given = {*address.properties, *address.secret_properties}
    if refused := sorted(given & _FORBIDDEN):
        raise user(
            "BAD_KAFKA_PROPERTIES",
            f"The Kafka address sets {', '.join(refused)}: leave out what the runtime sets by itself.",
        )
    if not address.bootstrap_servers:
        raise user("BAD_KAFKA_PROPERTIES", "The Kafka address has no bootstrap_servers.")
    return {
        "bootstrap.servers": address.bootstrap_servers,
        **address.properties,
        **{name: secrets.resolve(reference) for name, reference in address.secret_properties.items()},
    }


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
