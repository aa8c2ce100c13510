"""The topics of Daggers: names, partitions and retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from daggerspec.topics import ALERTS, AUDIT, CONTROL, HEARTBEATS, OBSERVATIONS, QUARANTINE

__all__ = [
    "ALERTS",
    "AUDIT",
    "AUDITS",
    "CONTROL",
    "HEARTBEATS",
    "OBSERVATIONS",
    "OBSERVED",
    "QUARANTINE",
    "QUARANTINE_KEPT_MS",
    "TOPICS",
    "Topic",
    "log_topic",
]

_HOUR_MS = 3_600_000
QUARANTINE_KEPT_MS: Final = 14 * 24 * _HOUR_MS
"""Retention of the quarantine, for topics that the suite creates."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Name, partitions and configuration of a topic when it is created; an existing one is never altered."""

    name: str
    partitions: int
    config: Mapping[str, str]


def log_topic(name: str) -> Topic:
    """Configure a topic as a log: one partition gives one order, and retention removes nothing."""
    return Topic(name, 1, {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"})


TOPICS: Final = (
    log_topic(CONTROL),
    Topic(HEARTBEATS, 1, {"cleanup.policy": "delete", "retention.ms": str(24 * _HOUR_MS)}),
    Topic(QUARANTINE, 4, {"cleanup.policy": "delete", "retention.ms": str(QUARANTINE_KEPT_MS)}),
)
OBSERVED: Final = Topic(OBSERVATIONS, 1, {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * _HOUR_MS)})
"""Topic of what alert rules observe. Not in TOPICS: a platform without it runs, and its rules raise no
alerts.
"""
AUDITS: Final = Topic(AUDIT, 1, {"cleanup.policy": "delete", "retention.ms": str(90 * 24 * _HOUR_MS)})
"""Audit topic. Not in TOPICS: only gateways write it, and one that may not write it serves all the same."""
