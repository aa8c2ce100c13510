"""Metrics of a monitor for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from daggers.v1 import alerts_pb2
from prometheus_client.metrics_core import GaugeMetricFamily

from chassis.metrics import LOG_DAMAGED, LOG_SEQUENCE, Metric
from eventlog.topics import ALERTS, CONTROL
from fleet.conditions.dagger_conditions import SEVERITIES
from health_monitor.monitor import Monitor

LEADS: Final = Metric("daggers_monitor_leads", "gauge", "1 while this monitor leads.")
JUDGED: Final = Metric(
    "daggers_monitor_last_judgement_timestamp_seconds",
    "gauge",
    "When this monitor last judged every dagger; 0 before the first time, and of one that stands by.",
)
FIRING: Final = Metric(
    "daggers_monitor_firing_alerts", "gauge", "Alerts that are open.", ("condition", "severity")
)
CALLBACKS: Final = Metric(
    "daggers_monitor_callbacks",
    "counter",
    "Callbacks of receivers that were answered, by what became of them.",
    ("kind", "result"),
)
DECLARED: Final = (LEADS, JUDGED, FIRING, CALLBACKS)


def gauges(monitor: Monitor) -> Iterator[GaugeMetricFamily]:
    """Yield the metrics of a monitor as it is now."""
    followers = dict(zip((CONTROL, ALERTS), monitor.followers, strict=True))
    yield LOG_SEQUENCE.family({(topic,): follower.sequence for topic, follower in followers.items()})
    yield LOG_DAMAGED.family({(topic,): bool(follower.damage) for topic, follower in followers.items()})
    yield LEADS.family(monitor.leads)
    yield JUDGED.family(monitor.judged_at.timestamp() if monitor.judged_at and monitor.leads else 0)
    firing = Counter(key[1] for key, alert in monitor.ledger.alerts.items() if alert.firing)
    yield FIRING.family({_labels(condition): firing[condition] for condition in SEVERITIES})


def _labels(condition: alerts_pb2.AlertCondition.ValueType) -> tuple[str, str]:
    name = alerts_pb2.AlertCondition.Name(condition).removeprefix("ALERT_CONDITION_")
    severity = alerts_pb2.AlertSeverity.Name(SEVERITIES[condition]).removeprefix("ALERT_SEVERITY_")
    return name.lower(), severity.lower()
