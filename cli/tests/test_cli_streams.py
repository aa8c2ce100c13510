"""Streams as the command registers them, and which daggers take a change up later."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2

from chassis.endpoint import Endpoint
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.testing import given

LAUNCH = events_pb2.FactMeta(name="orders_by_city", generation=2)
RUNNING = (
    events_pb2.SchedulerStarted(scheduler_id="s", host="here"),
    events_pb2.DaggerRequested(
        name="orders_by_city",
        spec=spec_pb2.DaggerSpec(streams=[spec_pb2.StreamInput(stream="orders")]),
    ),
    events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="orders_by_city"), version=1),
    events_pb2.Launched(meta=LAUNCH, driver=events_pb2.DriverHandle(pid=7)),
)


async def _running() -> MemoryLog:
    """The log of a dagger that runs."""
    log = MemoryLog()
    for record in given(*RUNNING):
        assert record.message is not None
        await log.append(Draft(record.id, record.source, record.subject, record.time, record.message))
    return log


@pytest.fixture
def gateway(serve: Callable[..., int]) -> str:
    """Address of a gateway where a dagger runs."""
    log = asyncio.run(_running())
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), lambda: log)}"


def test_a_stream_that_changes_names_the_running_daggers_that_take_it_up_at_their_next_start(
    shell: Any,
) -> None:
    shell.fill()
    carries = ("--cluster", "local", "--message", "shop.v1.Order", "--time-field", "event_time")
    wider = ("stream", "register", "orders", "--topic", "orders", "--topic", "more-orders", *carries)
    other = ("stream", "register", "others", "--topic", "others", *carries)
    told, shown = shell(*wider), shell(*wider, "-o", "json")

    assert told == (
        0,
        "stream orders is registered (version 2)\n"
        "running daggers read it as it was until their next start: `daggers restart orders_by_city`\n",
        "whether its topics are there is not known: no scheduler has said where it serves: streams and"
        " sinks are reached from the hosts of drivers\n",
    )
    assert json.loads(shown[1])["outdated_daggers"] == ["orders_by_city"]
    assert shell(*other)[1] == "stream others is registered (version 1)\n"
