"""Routes of teams through a gateway: what is written, refused, explained and shown, and by whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, gateway_pb2, spec_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from tests.alertcallers import AlertCaller, append_alerts
from tests.tenants import FILE

from chassis.errors import ApiError
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.testing import START

pb = gateway_pb2
Route = alerts_pb2.AlertRoute
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
NIGHT = Timestamp(seconds=1_780_270_200)
"""2026-05-31T23:30:00Z, a Sunday."""
TREE = Route(
    receivers=["slack"],
    group_by={"names": ["condition"]},
    routes=[
        Route(
            match=["severity=critical"],
            receivers=["pagerduty"],
            escalation={"after": {"seconds": 900}, "receivers": ["slack"]},
        ),
        Route(match=["key_tag_api=pay*"], windows={"windows": ["mon-fri 09:00-18:00 UTC"]}),
    ],
)


class RouteCaller(AlertCaller):
    """Calls of a gateway by one caller."""

    async def apply(self, routes: Route = TREE, team: str = "pricing", **fields: Any) -> Any:
        return await self.call("ApplyRoutes", team=team, routes=routes, **fields)

    async def history(self, team: str = "pricing", **fields: Any) -> list[tuple[int, str, bool]]:
        listed = await self.call("ListRoutes", team=team, **fields)
        return [(each.revision, each.message, each.HasField("routes")) for each in listed.revisions]

    async def explain(self, **fields: Any) -> Any:
        return await self.call("ExplainRoute", dagger="abc", **fields)


@pytest.fixture
async def root(harness: Any) -> AsyncIterator[RouteCaller]:
    """Serve two teams with a dagger each; one has a channel, a pager and an open alert."""
    meta = alerts_pb2.AlertMeta(
        epoch=0, dagger="abc", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=1
    )
    severity = alerts_pb2.ALERT_SEVERITY_CRITICAL
    fired = alerts_pb2.AlertFired(
        meta=meta, team="pricing", severity=severity, receivers=["pricing/slack", "pricing/pagerduty"]
    )
    await append_alerts(harness.alerts, alerts_pb2.MonitorStarted(monitor_id="one"), fired)
    log, place = MemoryLog(), spec_pb2.SecretRef(file="/run/daggers/secret")
    receivers = [
        access_pb2.TeamReceiver(kind="slack", secrets={"url": place}),
        access_pb2.TeamReceiver(kind="pagerduty", secrets={"routing_key": place}),
    ]
    for name, team, has in (("abc", "pricing", receivers), ("xyz", "supply", [])):
        registered = events_pb2.TeamRegistered(team=access_pb2.Team(name=team, receivers=has))
        requested = events_pb2.DaggerRequested(name=name, spec=spec_pb2.DaggerSpec(team=team))
        for event in (registered, requested):
            await log.append(Draft(f"{name}/{type(event).__name__}", "/test", name, START, event))
    async with harness.running(log, tokens=lambda: FILE, enforce=True) as client:
        yield RouteCaller(client.channel)


async def test_routes_are_applied_listed_applied_again_and_taken_away(root: RouteCaller) -> None:
    first = await root.apply(message="at night by pager", expected_revision=0)
    again = await root.apply()
    other = await root.apply(Route(receivers=["pagerduty"]))
    listed = await root.call("ListRoutes", min_sequence=other.sequence)
    deleted = await root.call("DeleteRoutes", team="pricing", message="back")
    deleted_again = await root.call("DeleteRoutes", team="pricing")

    assert (first.changed, first.revision.revision, first.revision.actor) == (True, 1, "root")
    assert (first.revision.routes, first.revision.time.seconds > 0) == (TREE, True)
    assert (again.changed, again.revision) == (False, first.revision)
    assert [(each.team, each.revision) for each in listed.revisions] == [("pricing", 2)]
    assert deleted.revision == deleted_again.revision
    assert await root.history() == [
        (3, "back", False), (2, "", True), (1, "at night by pager", True),
    ]  # fmt: skip
    assert (await root.call("ListRoutes")).revisions == []
    assert (await root.apply()).revision.revision == 4


async def test_history_has_pages(root: RouteCaller) -> None:
    for number in range(5):
        await root.apply(Route(receivers=["slack"], group_wait={"seconds": number}))
    first = await root.call("ListRoutes", team="pricing", page_size=3)
    second = await root.call("ListRoutes", team="pricing", page_size=3, page_token=first.next_page_token)

    assert [each.revision for page in (first, second) for each in page.revisions] == [5, 4, 3, 2, 1]


async def test_a_plan_says_which_open_alerts_would_go_elsewhere_and_writes_nothing(
    root: RouteCaller, harness: Any
) -> None:
    plan = await root.apply(validate_only=True)
    nowhere = await root.apply(Route(), validate_only=True)
    same = await root.apply(Route(receivers=["pagerduty", "slack"]), validate_only=True)

    [rerouted] = plan.rerouted
    assert (rerouted.alert.dagger, list(rerouted.before), list(rerouted.after)) == (
        "abc", ["pricing/slack", "pricing/pagerduty"], ["pricing/pagerduty"],
    )  # fmt: skip
    assert [list(each.after) for each in nowhere.rerouted] == [[]]
    assert (list(same.rerouted), await root.history(), await harness.alerts.end()) == ([], [], 1)


async def test_an_edit_of_another_revision_than_the_newest_is_refused(
    root: RouteCaller, refusal: Refused
) -> None:
    await root.apply()
    error = await refusal(root.apply(Route(receivers=["pagerduty"]), expected_revision=0))

    assert (error.code, error.reason, error.metadata["newest"]) == (
        grpc.StatusCode.ABORTED, "REVISION_MISMATCH", "1",
    )  # fmt: skip


async def test_all_that_is_wrong_with_routes_is_said_at_once_by_its_field(
    root: RouteCaller, refusal: Refused
) -> None:
    wrong = Route(
        match=["severity=critical"],
        receivers=["slak"],
        group_by={"names": ["daggr"]},
        group_wait={"seconds": 7_200},
        routes=[
            Route(match=["sevrity=critical", "none"], windows={"windows": ["always"]}),
            Route(group_interval={"seconds": 1}, repeat_interval={"seconds": 1}),
            Route(escalation={"after": {"seconds": 60}}),
            Route(escalation={"after": {"seconds": 1}, "receivers": ["email"]}),
        ],
    )
    error = await refusal(root.apply(wrong, message="a\nb"))
    none = await refusal(root.call("ApplyRoutes", team="pricing"))

    assert {each.field: each.reason for each in error.violations} == {
        "message": "INVALID_CHARACTER",
        "routes.match": "NOT_ALLOWED",
        "routes.receivers[0]": "UNKNOWN_RECEIVER",
        "routes.group_by[0]": "UNKNOWN_LABEL",
        "routes.group_wait": "OUT_OF_RANGE",
        "routes.routes[0].match[0]": "UNKNOWN_LABEL",
        "routes.routes[0].match[1]": "INVALID_MATCHER",
        "routes.routes[0].windows[0]": "INVALID_WINDOW",
        "routes.routes[1].group_interval": "OUT_OF_RANGE",
        "routes.routes[1].repeat_interval": "OUT_OF_RANGE",
        "routes.routes[2].escalation": "REQUIRED",
        "routes.routes[3].escalation.after": "OUT_OF_RANGE",
        "routes.routes[3].escalation.receivers[0]": "UNKNOWN_RECEIVER",
    }
    assert "did you mean slack?" in str(error.violations)
    assert [each.reason for each in none.violations] == ["REQUIRED"]


def nest(depth: int) -> Route:
    return Route(routes=[nest(depth - 1)] if depth > 1 else [])


@pytest.mark.parametrize("wrong", [nest(9), Route(routes=[Route()] * 200)])
async def test_routes_have_a_size_that_monitors_bear(
    root: RouteCaller, refusal: Refused, wrong: Route
) -> None:
    error = await refusal(root.apply(wrong))

    assert [(each.field, each.reason) for each in error.violations] == [("routes", "TOO_MANY")]


async def test_a_team_that_is_not_there_has_no_routes(root: RouteCaller, refusal: Refused) -> None:
    applied = await refusal(root.apply(team="pricin"))
    deleted = await refusal(root.call("DeleteRoutes", team="supply"))

    assert (applied.code, applied.metadata["suggestion"]) == (grpc.StatusCode.NOT_FOUND, "pricing")
    assert deleted.code == grpc.StatusCode.NOT_FOUND


async def test_who_would_be_told_why_and_when(root: RouteCaller) -> None:
    before = await root.explain(labels={"severity": "critical"})
    await root.apply()
    [critical] = (await root.explain(labels={"severity": "critical", "condition": "failed"})).routes
    answer = await root.explain(labels={"key_tag_api": "payments"}, time=NIGHT)
    [by_day] = answer.routes

    assert (list(before.routes), list(before.receivers), before.platform) == (
        [], ["pricing/slack", "pricing/pagerduty"], False,
    )  # fmt: skip
    to = critical.destination
    assert (list(to.receivers), list(to.why)) == (["pricing/pagerduty"], ["severity=critical"])
    assert (list(to.escalate_to), to.escalate_after.seconds) == (["pricing/slack"], 900)
    assert dict(critical.group) == {"condition": "failed"}
    assert abs(critical.first_notice.ToDatetime(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=2)
    assert (answer.team, answer.revision) == ("pricing", 1)
    assert by_day.first_notice.ToJsonString() == "2026-06-01T09:00:30Z"


async def test_routes_can_be_tried_before_they_are_applied_and_a_silence_is_said(root: RouteCaller) -> None:
    tried = await root.explain(routes=Route(routes=[Route(match=["severity=error"], receivers=["slack"])]))
    await root.call(
        "CreateSilence", team="pricing", matchers=["dagger=abc"], duration={"seconds": 60}, reason="deploy"
    )

    assert (list(tried.routes), tried.platform, tried.revision) == ([], True, 0)
    assert (await root.explain()).silence.reason == "deploy"


async def test_a_dagger_or_label_that_is_not_there_is_named(root: RouteCaller, refusal: Refused) -> None:
    nothing = await refusal(root.call("ExplainRoute", dagger="abd"))
    misspelt = await refusal(root.explain(labels={"sevrity": "error"}))

    assert (nothing.code, nothing.metadata["suggestion"]) == (grpc.StatusCode.NOT_FOUND, "abc")
    assert [each.field for each in misspelt.violations] == ["labels.sevrity"]


async def test_editors_route_their_own_team_and_see_no_routes_of_another(
    root: RouteCaller, refusal: Refused
) -> None:
    editor = await root.create_account("builds", "pricing", access_pb2.ROLE_EDITOR)
    viewer = await root.create_account("look", "pricing", access_pb2.ROLE_VIEWER)
    other = await root.create_account("other", "supply", access_pb2.ROLE_EDITOR)
    applied = await editor.apply()
    denied = [
        await refusal(call)
        for call in (
            viewer.apply(),
            other.apply(),
            other.call("DeleteRoutes", team="pricing"),
            other.explain(),
        )
    ]

    assert applied.revision.actor == "account:builds"
    assert {error.code for error in denied} == {grpc.StatusCode.PERMISSION_DENIED}
    assert [len(await caller.history()) for caller in (editor, viewer, other)] == [1, 1, 0]
    assert (await viewer.explain()).revision == 1
