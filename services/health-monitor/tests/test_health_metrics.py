"""What a monitor tells Prometheus: who leads and judges, and what fires."""

from __future__ import annotations

from typing import Any

from health_monitor.metrics import DECLARED, gauges


async def test_a_monitor_tells_of_its_judgement_and_of_what_fires(world: Any) -> None:
    async with world.monitor("one") as one:
        await one.step()
        quiet = told(one.monitor)
        await world.fail_dagger()
        await one.steps(4)
        loud = told(one.monitor)
        now = world.now.timestamp()

    assert quiet["daggers_monitor_leads", ()] == 1
    assert (
        quiet["daggers_monitor_firing_alerts", FAILED],
        loud["daggers_monitor_firing_alerts", FAILED],
    ) == (0, 1)
    assert 0 <= now - loud["daggers_monitor_last_judgement_timestamp_seconds", ()] <= 10
    assert (
        loud["daggers_log_sequence", ("daggers.alerts",)] > quiet["daggers_log_sequence", ("daggers.alerts",)]
    )


async def test_one_that_stands_by_has_judged_nothing(world: Any) -> None:
    async with world.monitor("one") as one, world.monitor("two") as two:
        for _ in range(6):
            await one.step(0.5)
            await two.step(0.5)
        standby = told(two.monitor)

    assert standby["daggers_monitor_leads", ()] == 0
    assert standby["daggers_monitor_last_judgement_timestamp_seconds", ()] == 0
    gauges_ = {metric.name for metric in DECLARED if metric.kind == "gauge"}

    assert gauges_ <= {name for name, _ in standby}


FAILED = ("failed", "critical")


def told(monitor: Any) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample by its name and its labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in gauges(monitor)
        for sample in family.samples
    }
