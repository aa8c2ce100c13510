"""The topics of Daggers: their names, and how they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from daggerspec.topics import ALERTS, AUDIT, CONTROL, HEARTBEATS, QUARANTINE

__all__ = [
    "ALERTS",
    "AUDIT",
    "AUDITS",
    "CONTROL",
    "HEARTBEATS",
    "QUARANTINE",
    "QUARANTINE_KEPT_MS",
    "TOPICS",
    "Topic",
    "forever",
]

_HOUR_MS = 3_600_000
QUARANTINE_KEPT_MS: Final = 14 * 24 * _HOUR_MS
"""How long what was set aside is kept, unless its topic was made otherwise."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is created; one that exists is left as it is."""

    name: str
    partitions: int
    config: Mapping[str, str]


def forever(name: str) -> Topic:
    """A topic that is a log: one partition, one order, nothing is ever removed."""
    return Topic(name, 1, {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"})


TOPICS: Final = (
    forever(CONTROL),
    Topic(HEARTBEATS, 1, {"cleanup.policy": "delete", "retention.ms": str(24 * _HOUR_MS)}),
    Topic(QUARANTINE, 4, {"cleanup.policy": "delete", "retention.ms": str(QUARANTINE_KEPT_MS)}),
)
AUDITS: Final = Topic(AUDIT, 1, {"cleanup.policy": "delete", "retention.ms": str(90 * 24 * _HOUR_MS)})
"""The gateways' own: one that may not write there serves all the same."""
