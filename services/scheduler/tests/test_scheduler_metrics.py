"""What a scheduler tells Prometheus of itself and its host."""

from __future__ import annotations

from typing import Any

from scheduler.metrics import DECLARED, gauges


async def test_a_scheduler_tells_whether_it_leads_and_how_many_drivers_there_are(world: Any) -> None:
    scheduler = world.scheduler()

    families = gauges(scheduler, 9, processes=1, previews=3)
    told = {family.name: [sample.value for sample in family.samples] for family in families}

    assert told == {
        "daggers_log_sequence": [-1],
        "daggers_log_damaged": [0],
        "daggers_scheduler_leads": [0],
        "daggers_scheduler_drivers": [0],
        "daggers_scheduler_drivers_limit": [9],
        "daggers_scheduler_preview_processes": [1],
        "daggers_scheduler_previews": [3],
        "daggers_scheduler_held_starts": [0],
        "daggers_scheduler_host_cordoned": [],
        "daggers_scheduler_host_drivers": [],
    }
    assert {metric.name for metric in DECLARED if metric.kind == "gauge"} <= told.keys()
