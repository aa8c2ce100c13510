"""What a topic takes: how large a batch of records may be, and whether each has to have a key."""

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
"""What librdkafka takes for the largest record, and the largest batch, unless it is told otherwise."""
_MOST: Final = 1_000_000_000
"""What librdkafka can be told at most."""
_FRAME: Final = 256
"""What is around the records of a batch, in bytes: a header, and the lengths of what it has."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Of one topic, as far as its broker tells; a broker does not tell everybody."""

    max_bytes: int | None = None
    """`max.message.bytes`: the most that a batch of records may have, as it is sent."""
    is_compacted: bool = False
    """Whether a record without a key is refused, with all of its batch."""

    @property
    def properties(self) -> dict[str, Any]:
        """Properties of a producer whose batches fit, before they are compressed. A larger record is a batch
        by itself, and fits once it is small enough compressed.
        """
        if self.max_bytes is None:
            return {}
        return {
            "batch.size": max(min(self.max_bytes - _FRAME, _LARGEST), 1),
            "message.max.bytes": min(max(self.max_bytes, _LARGEST), _MOST),
        }


def of(properties: Mapping[str, Any], topic: str) -> TopicLimits:
    """Those of a topic, which is read by a client with these properties; none where nobody tells.

    Raises: JobError for properties that librdkafka refuses.
    """
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        admin = client(AdminClient, properties)
        told = admin.describe_configs([resource], request_timeout=_ANSWER_S)[resource].result(_ANSWER_S + 1)
        most = told.get("max.message.bytes")
        policy = told.get("cleanup.policy")
        return TopicLimits(
            int(most.value) if most is not None and most.value else None,
            policy is not None and "compact" in (policy.value or ""),
        )
    except JobError:
        raise
    except (KafkaException, TimeoutError, ValueError):
        return TopicLimits()
