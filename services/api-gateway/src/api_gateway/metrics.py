"""Metrics of a gateway, beside those of its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from daggers.v1 import gateway_pb2
from prometheus_client.metrics_core import GaugeMetricFamily

from api_gateway.server import Gateway
from chassis.metrics import LOG_DAMAGED, LOG_SEQUENCE, Metric
from eventlog.topics import CONTROL

DAGGERS: Final = Metric(
    "daggers_fleet_daggers", "gauge", "Daggers that are not deleted, by phase.", ("phase",)
)
UNREADABLE: Final = Metric(
    "daggers_fleet_unreadable_records", "gauge", "Records of the control topic that cannot be read."
)
PROJECTED: Final = Metric(
    "daggers_projection_sequence",
    "gauge",
    "Offset of the newest control record in the tables that lists are read from.",
)
KAFKA_AWAY: Final = Metric("daggers_kafka_away", "gauge", "1 while the platform's Kafka does not answer.")
DECLARED: Final = (DAGGERS, UNREADABLE, PROJECTED, KAFKA_AWAY)


def gauges(gateway: Gateway, away: Callable[[], str]) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of a gateway as it is now."""
    follower, fleet = gateway.follower, gateway.fold.fleet
    yield LOG_SEQUENCE.family({(CONTROL,): follower.sequence})
    yield LOG_DAMAGED.family({(CONTROL,): bool(follower.damage)})
    phases = Counter(dagger.phase for dagger in fleet.daggers.values())
    counts_by_name = {
        (name,): phases[number]
        for name, number in gateway_pb2.Phase.items()
        if number not in (gateway_pb2.PHASE_UNSPECIFIED, gateway_pb2.DELETED)
    }
    yield DAGGERS.family(counts_by_name)
    yield UNREADABLE.family(len(fleet.unreadable))
    yield PROJECTED.family(gateway.projector.sequence)
    yield KAFKA_AWAY.family(bool(away()))
