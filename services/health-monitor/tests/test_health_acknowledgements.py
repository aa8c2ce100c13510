"""Acknowledgements: whoever leads tells that an incident is over, and the next one is nobody's yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiohttp import web
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, spec_pb2

from eventlog import Draft

FAILED = alerts_pb2.ALERT_CONDITION_FAILED


async def acknowledge(world: Any, running: Any) -> None:
    """Write an acknowledgement as a gateway does."""
    meta = running.monitor.ledger.alert("bookings", FAILED).meta()
    event = alerts_pb2.AlertAcknowledged(incidents=[meta], actor="user:ada", comment="on it")
    await world.alerts.append(Draft("ack", "/api-gateway/test", "bookings", world.now, event))


async def test_the_end_of_what_is_acknowledged_is_told_over_a_restart_and_the_next_is_not_acknowledged(
    world: Any,
) -> None:
    async with world.monitor() as first:
        await first.steps(3)
        await world.fail_dagger()
        await first.steps(5)
        await acknowledge(world, first)
    async with world.monitor("two") as second:
        await second.steps(15)
        given = second.monitor.ledger.alert("bookings", FAILED).find_acknowledgement(world.now)
        await world.mend_dagger()
        await second.steps(6)
        assert (given and given.author, world.kinds()) == (
            "user:ada", ["pagerduty triggered", "pagerduty acknowledged", "pagerduty resolved"],
        )  # fmt: skip
        await world.fail_dagger()
        await second.steps(6)
        again = second.monitor.ledger.alert("bookings", FAILED)

    assert (again.incident, again.find_acknowledgement(world.now)) == (2, None)
    assert world.kinds()[3:] == ["pagerduty triggered"]


async def test_a_pager_that_is_away_hears_of_an_acknowledgement_once_it_is_back(world: Any) -> None:
    async with world.monitor() as running:
        await running.steps(3)
        await world.fail_dagger()
        await running.steps(5)
        world.answer = lambda _: web.Response(status=500)
        await acknowledge(world, running)
        await running.steps(5)
        away = world.kinds()
        world.answer = lambda _: None
        await running.steps(120)

    assert (away, world.kinds()) == (
        ["pagerduty triggered"], ["pagerduty triggered", "pagerduty acknowledged"],
    )  # fmt: skip
    slack = [call.body["text"] for call in world.receiver.received if "text" in call.body]
    assert len(slack) == 1  # a channel has no such message


async def test_a_group_is_acknowledged_at_the_pager_once_somebody_looks_after_all_of_it(
    world: Any, tmp_path: Path
) -> None:
    pager, key = tmp_path / "pager", tmp_path / "key"
    pager.write_text(world.receiver.pagerduty_url)
    key.write_text("f" * 32)
    secrets = {
        name: spec_pb2.SecretRef(file=str(path)) for name, path in (("url", pager), ("routing_key", key))
    }
    receivers = [access_pb2.TeamReceiver(kind="pagerduty", secrets=secrets)]
    await world.tell(events_pb2.TeamRegistered(team=access_pb2.Team(name="pricing", receivers=receivers)))
    routes = alerts_pb2.AlertRoute(
        receivers=["pagerduty"], group_wait={"seconds": 2}, group_interval={"seconds": 10}
    )
    changed = alerts_pb2.RoutesChanged(team="pricing", routes=routes, actor="user:ada")
    await world.alerts.append(Draft("routes", "/api-gateway/test", "pricing", world.now, changed))
    async with world.monitor() as running:
        await running.steps(3)
        await world.fail_dagger()
        await running.run(8)
        await acknowledge(world, running)
        await running.run(30)
        before = world.kinds()
        await world.mend_dagger()
        await running.run(20)

    assert before == ["pagerduty triggered", "pagerduty acknowledged"]
    assert world.kinds()[2:] == ["pagerduty resolved"]
