"""Metrics of a portal. They have no label for methods: browsers could write anything there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily

from chassis.metrics import Metric, Metrics

CALLS: Final = Metric(
    "daggers_portal_calls",
    "counter",
    "Calls of pages that ended, by whether they are `unary` or a `stream`, and their status.",
    ("kind", "code"),
)
STREAMS: Final = Metric("daggers_portal_open_streams", "gauge", "What pages follow now, one for each stream.")
SESSIONS: Final = Metric("daggers_portal_sessions", "gauge", "People who are logged in, by their sessions.")
LOGINS: Final = Metric(
    "daggers_portal_logins",
    "counter",
    "Logins that ended, by what became of them: `entered`, `refused`, or `away` when the provider was.",
    ("result",),
)
DECLARED: Final = (CALLS, STREAMS, SESSIONS, LOGINS)

Counter = Callable[..., None]
"""Counts one more: the values of the labels are its arguments."""


def count_nothing(*_: str) -> None:
    """Count nothing."""


def counter(metrics: Metrics, metric: Metric) -> Counter:
    """Build a function that counts one more of a metric."""
    labelled_counter = metrics.counter(metric)
    return lambda *labels: labelled_counter.labels(*labels).inc()


def gauges(streams: int, sessions: int) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of a portal as it is now."""
    yield STREAMS.family(streams)
    yield SESSIONS.family(sessions)
