"""Routes of a team, from the alert that fires to what real receivers get: groups, repeats, fallback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, spec_pb2

from eventlog import Draft
from eventlog.testing import record
from fleet.alerts.ledger import Ledger
from health_monitor.alerts import routing

FAILED = alerts_pb2.ALERT_CONDITION_FAILED


@pytest.fixture
async def team(world: Any, tmp_path: Path) -> Any:
    """Register the team of the dagger, with a channel and a pager."""
    slack, pager, key = tmp_path / "slack", tmp_path / "pager", tmp_path / "key"
    slack.write_text(f"{world.receiver.slack_url}?of=pricing")
    pager.write_text(world.receiver.pagerduty_url)
    key.write_text("f" * 32)
    secrets = {"slack": {"url": slack}, "pagerduty": {"url": pager, "routing_key": key}}
    receivers = [
        access_pb2.TeamReceiver(
            kind=kind, secrets={name: spec_pb2.SecretRef(file=str(path)) for name, path in files.items()}
        )
        for kind, files in secrets.items()
    ]
    await world.tell(events_pb2.TeamRegistered(team=access_pb2.Team(name="pricing", receivers=receivers)))


async def apply(world: Any, after: int = 0, **fields: Any) -> None:
    """Change the team's routes as a gateway does."""
    tree = alerts_pb2.AlertRoute(
        **{
            "receivers": ["slack"],
            "group_wait": {"seconds": 5},
            "group_interval": {"seconds": 10},
            "repeat_interval": {"seconds": 60},
            **fields,
        }
    )
    event = alerts_pb2.RoutesChanged(team="pricing", routes=tree, actor="user:ada", after_revision=after)
    await world.alerts.append(Draft(f"routes-{after}", "/api-gateway/test", "pricing", world.now, event))


def list_texts(world: Any) -> list[str]:
    """List the first lines that the team's channel has."""
    return [
        str(request.body["text"]).split("\n")[0]
        for request in world.receiver.received
        if "text" in request.body
    ]


async def test_a_route_tells_after_its_wait_repeats_until_somebody_acknowledges_and_tells_the_end(
    world: Any, team: Any
) -> None:
    await apply(world)
    async with world.monitor() as first:
        await first.steps(2)
        await world.fail_dagger()
        await first.run(5)
        early = list_texts(world)
        await first.run(20)
        once = list_texts(world)
    async with world.monitor("two") as second:  # who leads next goes by the same looks
        await second.run(60)
        repeated = list_texts(world)
        meta = second.monitor.ledger.alert("bookings", FAILED).meta()
        given = alerts_pb2.AlertAcknowledged(incidents=[meta], actor="user:ada")
        await world.alerts.append(Draft("ack", "/api-gateway/test", "bookings", world.now, given))
        await second.run(80)
        quiet = list_texts(world)
        await world.mend_dagger()
        await second.run(20)
    texts = list_texts(world)

    assert (len(early), len(once), len(repeated), len(quiet), len(texts)) == (0, 1, 2, 2, 3)
    assert texts[-1] == ":white_check_mark: *bookings*: resolved, was: failed"
    assert world.kinds() == []  # neither the pager of the team nor the platform's receivers


async def test_escalation_reaches_the_pager_unless_somebody_acknowledges(world: Any, team: Any) -> None:
    await apply(world, escalation={"after": {"seconds": 60}, "receivers": ["pagerduty"]})
    async with world.monitor() as running:
        await running.steps(2)
        await world.fail_dagger()
        await running.run(50)
        before = world.kinds()
        await running.run(40)
        escalated = world.kinds()
        await world.mend_dagger()
        await running.run(20)

    assert (before, escalated) == ([], ["pagerduty triggered"])
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


async def test_where_routes_name_nobody_the_platform_is_told_at_once(world: Any, team: Any) -> None:
    child = alerts_pb2.AlertRoute(match=["severity=warning"], receivers=["slack"])
    await apply(world, receivers=[], routes=[child])
    async with world.monitor() as running:
        await running.steps(2)
        await world.fail_dagger()
        await running.run(6)

    assert sorted(await world.events())[-2:] == ["NotificationSent slack", "RoutesChanged"]
    assert world.kinds() == ["pagerduty triggered"]


async def test_a_receiver_that_the_team_has_no_more_is_left_out(world: Any, team: Any) -> None:
    await apply(world, receivers=["email", "slack"])
    async with world.monitor() as running:
        await running.steps(2)
        await world.fail_dagger()
        await running.run(20)
        alert = running.monitor.ledger.alert("bookings", FAILED)

    assert list(alert.fired.receivers) == ["pricing/slack"]
    assert len(list_texts(world)) == 1


async def test_a_receiver_that_fails_is_tried_again_and_told_once(world: Any, team: Any) -> None:
    from aiohttp import web

    await apply(world)
    world.answer = lambda received: web.Response(status=503)
    async with world.monitor() as running:
        await running.steps(2)
        await world.fail_dagger()
        await running.run(15)
        failed = [name for name in await world.events() if name == "GroupNotificationFailed"]
        world.answer = lambda received: None
        await running.run(60)
        sent = [name for name in await world.events() if name == "GroupNotificationSent"]

    assert failed
    assert len(sent) in (1, 2)  # the notice, and its repeat


async def test_routes_that_were_deleted_tell_the_teams_receivers_at_once(world: Any, team: Any) -> None:
    await apply(world)
    event = alerts_pb2.RoutesChanged(team="pricing", actor="user:ada", after_revision=1)
    await world.alerts.append(Draft("deleted", "/api-gateway/test", "pricing", world.now, event))
    async with world.monitor() as running:
        await running.steps(2)
        await world.fail_dagger()
        await running.run(5)

    assert sorted(await world.events())[-3:] == [
        "NotificationSent pricing/slack", "RoutesChanged", "RoutesChanged",
    ]  # fmt: skip


@pytest.mark.parametrize("is_end_told", [True, False])
def test_what_was_told_by_itself_goes_on_so_until_its_end_was_told(*, is_end_told: bool) -> None:
    """Routes that come meanwhile would lead it to a group, which tells no end of what it did not tell."""
    ledger, meta = Ledger(), alerts_pb2.AlertMeta(dagger="bookings", condition=FAILED, incident=1)
    fired = alerts_pb2.AlertFired(meta=meta, team="pricing", receivers=["pricing/slack"])
    sent = alerts_pb2.NotificationSent(
        meta=meta, notice=alerts_pb2.ALERT_NOTICE_FIRED, receiver="pricing/slack", attempt=1
    )
    ended = alerts_pb2.NotificationSent()
    ended.CopyFrom(sent)
    ended.notice = alerts_pb2.ALERT_NOTICE_RESOLVED
    routes = alerts_pb2.RoutesChanged(team="pricing", routes=alerts_pb2.AlertRoute(receivers=["slack"]))
    over = alerts_pb2.AlertResolved(meta=meta, summary="it is well")
    claim = alerts_pb2.MonitorStarted(monitor_id="one")
    for message in (claim, fired, sent, over, routes, *([ended] if is_end_told else [])):
        assert ledger.apply(record(message, sequence=ledger.sequence + 1))
    anew = alerts_pb2.AlertFired(team="pricing", receivers=["pricing/slack"])
    anew.meta.CopyFrom(ledger.alert("bookings", FAILED).meta(incident=2))
    routing.route(anew, ledger, own=["pricing/slack"], fallback=["slack"])

    assert (len(anew.destinations), list(anew.receivers)) == (int(is_end_told), ["pricing/slack"])
