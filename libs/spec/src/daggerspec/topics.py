"""Names of the platform's own topics."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "daggers."
"""A forged record in a topic of the platform is a forged fact."""
CONTROL: Final = "daggers.control"
HEARTBEATS: Final = "daggers.heartbeats"
QUARANTINE: Final = "daggers.quarantine"
ALERTS: Final = "daggers.alerts"
AUDIT: Final = "daggers.audit"
OBSERVATIONS: Final = "daggers.observations"
"""Observations of drivers by alert rules (`RuleObserved`)."""
SPOOL: Final = "daggers.spool."
"""Begin of the names of topics that keep what a sink has not taken: of DAGGER.SINK each one."""


INTERNAL: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
"""Kafka's own."""


def is_platform(topic: str) -> bool:
    """Return whether a topic is the platform's: no dagger writes there."""
    return topic.startswith(PREFIX)
