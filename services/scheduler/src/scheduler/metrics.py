"""What a scheduler tells Prometheus beside its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily

from chassis.metrics import LOG_DAMAGED, LOG_SEQUENCE, Metric
from eventlog.topics import CONTROL
from scheduler.shell import Scheduler

LEADS: Final = Metric("daggers_scheduler_leads", "gauge", "1 while this scheduler leads.")
DRIVERS: Final = Metric(
    "daggers_scheduler_drivers", "gauge", "Daggers that have a driver, on any host, or may have one."
)
LIMIT: Final = Metric(
    "daggers_scheduler_drivers_limit", "gauge", "Drivers that may run at once; the leader keeps to its own."
)
FACTS: Final = Metric(
    "daggers_scheduler_facts", "counter", "Facts that this scheduler appended, by their message.", ("fact",)
)
DECLARED: Final = (LEADS, DRIVERS, LIMIT, FACTS)


def gauges(scheduler: Scheduler, limit: int) -> Iterator[GaugeMetricFamily]:
    """A scheduler as it is now."""
    yield LOG_SEQUENCE.family({(CONTROL,): scheduler.follower.sequence})
    yield LOG_DAMAGED.family({(CONTROL,): bool(scheduler.follower.damage)})
    yield LEADS.family(scheduler.leads)
    yield DRIVERS.family(len(scheduler.fleet.occupied))
    yield LIMIT.family(limit)
