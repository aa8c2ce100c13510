"""What a scheduler tells Prometheus of itself and its host."""

from __future__ import annotations

from typing import Any

from daggers.v1 import events_pb2
from google.protobuf.message import Message
from services.scheduler.tests.scheduler_world import META

from eventlog.testing import record
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


async def test_a_scheduler_tells_of_each_host_its_drivers_and_whether_it_is_cordoned(world: Any) -> None:
    scheduler = world.scheduler()
    driver = events_pb2.DriverHandle(host="b", pid=7)
    messages: tuple[Message, ...] = (
        events_pb2.SchedulerStarted(scheduler_id="s", host="a"),
        events_pb2.HostRegistered(scheduler_id="s", host="a"),
        events_pb2.HostRegistered(scheduler_id="t", host="b"),
        events_pb2.DaggerRequested(meta=META, name="d", spec={"cluster": "c"}),
        events_pb2.LaunchIntended(meta={"name": "d", "epoch": 0}, version=1, host="b"),
        events_pb2.Launched(meta={"name": "d", "epoch": 0, "generation": 4}, driver=driver),
        events_pb2.HostCordoned(meta=META, host="b"),
    )
    for sequence, message in enumerate(messages):
        assert scheduler.fleet.apply(record(message, sequence=sequence)).changed
    by_host = {
        family.name: {sample.labels["host"]: sample.value for sample in family.samples}
        for family in gauges(scheduler, 9, processes=0, previews=0)
        if family.name.startswith("daggers_scheduler_host_")
    }

    assert by_host == {
        "daggers_scheduler_host_drivers": {"a": 0, "b": 1},
        "daggers_scheduler_host_cordoned": {"a": 0, "b": 1},
    }
