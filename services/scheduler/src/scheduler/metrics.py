"""Metrics of a scheduler beside those of its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily

from chassis.metrics import LOG_DAMAGED, LOG_SEQUENCE, Metric
from eventlog.topics import CONTROL
from scheduler.leader.scheduler import Scheduler

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
PREVIEW_PROCESSES: Final = Metric(
    "daggers_scheduler_preview_processes", "gauge", "Processes that preview, of this scheduler."
)
PREVIEWS: Final = Metric(
    "daggers_scheduler_previews", "gauge", "Previews that go on or wait for their turn, by this scheduler."
)
PREVIEW_ENDS: Final = Metric(
    "daggers_scheduler_preview_process_ends",
    "counter",
    "Processes that previewed and have ended, by why: `died`, `hung`, `disk` and `room` in the middle of a"
    " preview or behind it.",
    ("why",),
)
HELD_STARTS: Final = Metric(
    "daggers_scheduler_held_starts",
    "gauge",
    "Starts that wait because their host has as many as cores, also of drivers that run until then; the"
    " leader's alone.",
)
CORDONED: Final = Metric(
    "daggers_scheduler_host_cordoned", "gauge", "1 while nothing new is placed on a host.", ("host",)
)
HOST_DRIVERS: Final = Metric(
    "daggers_scheduler_host_drivers",
    "gauge",
    "Daggers that have a driver on a host, or may have one; of a host that is drained, those left.",
    ("host",),
)
DECLARED: Final = (
    LEADS,
    DRIVERS,
    LIMIT,
    FACTS,
    PREVIEW_PROCESSES,
    PREVIEWS,
    PREVIEW_ENDS,
    HELD_STARTS,
    CORDONED,
    HOST_DRIVERS,
)


def gauges(scheduler: Scheduler, limit: int, *, processes: int, previews: int) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of a scheduler as it is now: processes that preview, and previews that go on or
    wait.
    """
    yield LOG_SEQUENCE.family({(CONTROL,): scheduler.follower.sequence})
    yield LOG_DAMAGED.family({(CONTROL,): bool(scheduler.follower.damage)})
    yield LEADS.family(scheduler.leads)
    fleet = scheduler.fleet
    yield DRIVERS.family(sum(there.usage.drivers for there in fleet.drivers.hosts.values()))
    yield LIMIT.family(limit)
    yield PREVIEW_PROCESSES.family(processes)
    yield PREVIEWS.family(previews)
    yield HELD_STARTS.family(scheduler.held_starts)
    yield HOST_DRIVERS.family({(host,): len(fleet.drivers.on(host).daggers) for host in fleet.host_names()})
    yield CORDONED.family(
        {(host,): standing.cordon is not None for host, standing in fleet.standings.items()}
    )
