"""What a gateway tells Prometheus is what docs/metrics.md says, and what is so."""

from __future__ import annotations

from typing import Any

from daggers.v1 import gateway_pb2 as pb
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from api_gateway.metrics import gauges
from chassis.metrics import Metrics


async def test_a_gateway_tells_of_its_calls_its_log_and_the_daggers_by_phase(
    harness: Any, samples: Any
) -> None:
    metrics = Metrics("api-gateway")
    async with harness.running(counted=metrics.calls()) as client:
        await samples.fill(client)
        await client.create()
        await client.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)
        gateway = client.gateway
        families = {family.name: family for family in gauges(gateway, lambda: "")}
        sequence = await client.log.end()

    told = {family.name: family for family in text_string_to_metric_families(text(metrics))}
    calls = {sample.labels["method"] for sample in told["daggers_calls"].samples}
    phases = {sample.labels["phase"]: sample.value for sample in families["daggers_fleet_daggers"].samples}
    assert "/daggers.v1.DaggerService/CreateDagger" in calls
    assert (phases["PENDING"], phases["RUNNING"], "DELETED" in phases) == (1, 0, False)
    assert [sample.value for sample in families["daggers_log_sequence"].samples] == [sequence]
    assert [sample.value for sample in families["daggers_kafka_away"].samples] == [0]


def text(metrics: Metrics) -> str:
    """As it is scraped."""
    return str(generate_latest(metrics.registry).decode())
