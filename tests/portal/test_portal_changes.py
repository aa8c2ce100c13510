"""What people change and look up besides the studio: rollbacks, quotas, health, alerts, deletes."""

from __future__ import annotations

import re
from collections.abc import Callable

from daggers.v1 import gateway_pb2
from daggers.v1.alert_service_pb2 import Alert, AlertDelivery
from daggers.v1.alerts_pb2 import AlertSilence
from playwright.sync_api import Route, expect
from tests.portal.answers import answer_once
from tests.portal.conftest import Visit

Opened = Callable[..., Visit]


def test_a_dagger_goes_back_to_an_earlier_version_after_its_plan(visit: Opened) -> None:
    one = visit()
    page = one.open("/daggers/completed_bookings/edit", "Edit completed_bookings")
    page.get_by_label("Measurement").fill("by_another_name")
    page.get_by_role("button", name="Review", exact=True).click()
    page.get_by_role("button", name="Apply completed_bookings").click()
    page.get_by_role("link", name="Open completed_bookings").click()
    page.get_by_role("tab", name="Revisions").click()
    newest = page.get_by_role("article").first
    expect(newest).to_contain_text("by_another_name")
    expect(newest.get_by_role("button", name="Roll back to this")).to_have_count(0)
    page.get_by_role("article").filter(has_text="Version 1").get_by_role("button", name="Roll back").click()
    plan = page.get_by_role("group", name="Rollback to version 1")
    expect(plan.get_by_role("region", name="Plan")).to_contain_text("This changes completed_bookings")
    expect(plan).to_contain_text("− by_another_name")
    plan.get_by_role("button", name="Roll back to version 1").click()

    expect(page.get_by_role("article").first).to_contain_text("rollback to version 1")
    expect(page.get_by_role("group", name="Rollback to version 1")).to_have_count(0)


def test_a_rollback_that_is_refused_says_why_and_is_left(visit: Opened) -> None:
    one = visit()
    one.refused = {409}

    def refuse(route: Route) -> None:
        told = '{"code": "aborted", "message": "It has version 9 by now: look again"}'
        route.fulfill(status=409, body=told, content_type="application/json")

    one.page.route(re.compile("DaggerService/PlanDagger"), refuse)
    page = one.open("/daggers/completed_bookings?tab=revisions", "completed_bookings")
    page.get_by_role("article").last.get_by_role("button", name="Roll back to this").click()
    plan = page.get_by_role("group", name="Rollback to version 1")
    expect(plan.get_by_role("alert")).to_contain_text("It has version 9 by now")
    expect(plan.get_by_role("button", name="Roll back to version 1")).to_have_count(0)
    plan.get_by_role("button", name="Leave it").click()

    expect(plan).to_have_count(0)


def test_a_team_sees_what_it_uses_of_its_quotas(visit: Opened) -> None:
    one = visit()
    page = one.open("/teams", "Teams")
    page.get_by_role("link", name="pricing", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="pricing")).to_be_visible()
    row = page.get_by_role("region", name="Quotas").get_by_role("row", name=re.compile("^Daggers"))

    expect(row).to_contain_text("warns above 1, at most 40")
    expect(row).to_contain_text("Above its warning")
    expect(page.get_by_role("region", name="What its daggers take")).to_contain_text("completed_bookings")


def test_a_team_that_is_not_there_is_told_as_such(visit: Opened) -> None:
    one = visit()
    one.refused = {404}
    page = one.open("/teams/no_such_team", "no_such_team")

    expect(page.get_by_role("alert")).to_contain_text("This is not there")


def test_a_team_sees_how_its_daggers_do(visit: Opened) -> None:
    one = visit()
    page = one.open("/teams/pricing", "pricing")
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    cards = page.locator(".facts")

    expect(cards).to_contain_text(re.compile(r"\d+\s+waiting"))
    expect(cards).to_contain_text("Open alerts")
    expect(cards).to_contain_text("Quarantined")


def test_an_alert_of_a_dagger_stands_on_its_page_with_who_was_told(visit: Opened) -> None:
    one = visit()
    lag = Alert(
        dagger="completed_bookings",
        condition="ALERT_CONDITION_NO_PROGRESS",
        incident=1,
        severity="ALERT_SEVERITY_CRITICAL",
        summary="no batch for 5 minutes",
        next="Look at its log.",
        deliveries=[
            AlertDelivery(receiver="slack", state=AlertDelivery.STATE_SENT),
            AlertDelivery(receiver="pagerduty", state=AlertDelivery.STATE_FAILED, detail="it answers 400"),
        ],
        silence=AlertSilence(author="user:ada", reason="new disk"),
    )

    def told(route: Route) -> None:
        body = route.request.post_data_buffer or b""
        asked = gateway_pb2.ListAlertsRequest.FromString(body)
        mine = asked.dagger == "completed_bookings" and asked.include_resolved
        answer = gateway_pb2.ListAlertsResponse(alerts=[lag] if mine else [])
        route.fulfill(status=200, body=answer.SerializeToString(), content_type="application/proto")

    one.page.route(re.compile("AlertService/ListAlerts"), told)
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    page.get_by_role("tab", name="Alerts").click()
    row = page.get_by_role("row").filter(has_text="no batch for 5 minutes")

    expect(row).to_contain_text("no progress")
    expect(row).to_contain_text("Look at its log.")
    expect(row).to_contain_text("pagerduty: not notified, it answers 400")
    expect(row).to_contain_text("by user:ada: new disk")


def test_alerts_of_one_rule_stand_apart_by_its_keys(visit: Opened) -> None:
    one = visit()
    cities = [
        Alert(
            dagger="completed_bookings",
            condition="ALERT_CONDITION_RULE",
            rule="few_bookings",
            key={"tag_city_id": city},
            incident=1,
            severity="ALERT_SEVERITY_ERROR",
            summary="few bookings",
        )
        for city in ("7", "9")
    ]
    answer = gateway_pb2.ListAlertsResponse(alerts=cities)
    one.page.route(re.compile("AlertService/ListAlerts"), lambda route: answer_once(route, answer))
    page = one.open("/daggers/completed_bookings?tab=alerts", "completed_bookings")
    rows = page.get_by_role("row").filter(has_text="few_bookings")

    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("tag_city_id = 7")
    expect(rows.last).to_contain_text("tag_city_id = 9")


def test_a_dagger_is_deleted_after_a_second_look(visit: Opened) -> None:
    one = visit()
    page = one.open("/daggers/driver_supply?tab=query", "driver_supply")
    page.get_by_role("button", name="Delete dagger driver_supply …").click()
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Delete dagger driver_supply …").click()
    page.get_by_role("button", name="Delete it").click()

    expect(page.get_by_role("heading", level=1, name="Daggers")).to_be_visible()
    page = one.open("/daggers/driver_supply", "driver_supply")
    happened = page.get_by_role("region", name="History")
    expect(happened.get_by_text("delete requested")).to_have_count(1)
