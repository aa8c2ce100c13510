"""Helpers of test_source_native.py and of its neighbours."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic
from services.runtime.tests.streams import KEPT

from runtime.source.offsets import Partition


def topic_of(kafka: str, **config: str) -> Partition:
    """The one partition of a fresh topic."""
    topic = f"native-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1, config={**KEPT, **config})])[topic].result()
    return Partition(topic, 0)
