"""Read what a topic accepts: the size of a batch of records, and whether each needs a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by its docs only
    AdminClient,
    ConfigResource,
    ResourceType,
)

from runtime.clients.kafka import client
from runtime.errors import JobError

_ANSWER_S: Final = 3.0
_LARGEST: Final = 1_000_000
"""librdkafka's default for the largest record, and the largest batch, in bytes."""
_MOST: Final = 1_000_000_000
"""librdkafka's upper bound of `message.max.bytes`."""
_FRAME: Final = 256
"""Bytes of a batch besides its records: a header, and lengths."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Limits of one topic, as far as its broker lets this client read them."""

    max_bytes: int | None = None
    """`max.message.bytes`: limit of a batch of records, as compressed; None where it is unknown."""
    is_compacted: bool = False
    """True if the topic is compacted: a record without a key is refused with its whole batch."""

    @property
    def properties(self) -> dict[str, Any]:
        """Properties of a producer whose batches fit uncompressed. A larger record is sent in a batch of its
        own, and fits if it is small enough compressed.
        """
        if self.max_bytes is None:
            return {}
        return {
            "batch.size": max(min(self.max_bytes - _FRAME, _LARGEST), 1),
            "message.max.bytes": min(max(self.max_bytes, _LARGEST), _MOST),
        }


def of(properties: Mapping[str, Any], topic: str) -> TopicLimits:
    """Read the limits of a topic by a client with these properties; unknown where it may not read them.

    Raises: JobError for properties that librdkafka refuses.
    """
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        admin = client(AdminClient, properties)
        settings = admin.describe_configs([resource], request_timeout=_ANSWER_S)[resource].result(
            _ANSWER_S + 1
        )
        most = settings.get("max.message.bytes")
        policy = settings.get("cleanup.policy")
        return TopicLimits(
            int(most.value) if most is not None and most.value else None,
            policy is not None and "compact" in (policy.value or ""),
        )
    except JobError:
        raise
    except (KafkaException, TimeoutError, ValueError):
        return TopicLimits()
