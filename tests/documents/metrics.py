"""The reference of metrics, docs/metrics.md, from their declarations; `make metrics-doc` writes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector

import api_gateway.metrics
import chassis.metrics
import health_monitor.metrics
import portal.metrics
import scheduler.metrics
from chassis.metrics import Metric

HEAD: Final = """# Metrics

Made by `make metrics-doc` from the code that tells them. With `DAGGERS_GATEWAY_METRICS_BIND`,
`DAGGERS_SCHEDULER_METRICS_BIND`, `DAGGERS_MONITOR_METRICS_BIND` or `DAGGERS_PORTAL_METRICS_BIND` set to
HOST:PORT, that service answers Prometheus at `http://HOST:PORT/metrics`, in OpenMetrics where that is asked
for. Unset, which is the default, nothing listens. It asks for no token and has no TLS: bind it to loopback,
or to a network where Prometheus alone reaches it.

Units are in the names: seconds, bytes. A label has few values, which the code knows; no name of a dagger is
one. What each dagger does is in `daggers get`, `WatchVitals`, and the points that `python -m telemetry`
writes to InfluxDB. [Rules to begin with](../deploy/prometheus/alerts.yaml) are about the platform; [alerts
about daggers](operations.md#alerts) are the health monitor's.

A scrape is answered by the service's own loop. One that hangs fails the scrape, so `up` is 0.
"""
_EVERY: Final = """## Every service
The health monitor takes no calls but callbacks, and tells of those in its own way. The portal reads no log,
and tells of calls in its own way.

"""
SHARED: Final = chassis.metrics.DECLARED
SERVICES: Final = {
    "api-gateway": api_gateway.metrics.DECLARED,
    "scheduler": scheduler.metrics.DECLARED,
    "health-monitor": health_monitor.metrics.DECLARED,
    "portal": portal.metrics.DECLARED,
}
_ENDINGS: Final = {"counter": "_total", "info": "_info"}


def shown(metric: Metric) -> str:
    """A metric's name, as Prometheus has it."""
    return metric.name + _ENDINGS.get(metric.kind, "")


def process() -> Iterator[Metric]:
    """What is told of the process, by prometheus-client."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for family in registry.collect():
        yield Metric(family.name, family.type, family.documentation)


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels) or "–"


def _table(metrics: Sequence[Metric]) -> str:
    rows = [
        f"| `{shown(metric)}` | {metric.kind} | {_labels(metric)} | {metric.description} |"
        for metric in metrics
    ]
    return "\n".join(["| metric | kind | labels | is |", "|---|---|---|---|", *rows])


def text() -> str:
    """The page."""
    parts = [
        HEAD,
        _EVERY + _table(SHARED) + "\n",
        *(f"## `python -m {name.replace('-', '_')}`\n{_table(own)}\n" for name, own in SERVICES.items()),
        "## Its process\n" + _table(list(process())) + "\n",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(text())
