"""Alert rules on a dagger's page: from a line on its chart to a rule that is tested, saved and undone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from daggers.v1 import access_pb2, access_service_pb2, preview_pb2, rules_pb2
from playwright.sync_api import Locator, Page, Route, expect
from tests.portal.answers import answer, answer_once
from tests.portal.axe import CHECKLIST, violations
from tests.portal.conftest import Visit
from tests.portal.portal_live import ENVELOPE, WINDOW_S, row, serve_rows
from tests.portal.portal_studio import PREVIEW

Opened = Callable[..., Visit]
DAGGER = "/daggers/completed_bookings"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def observe(state: rules_pb2.RuleState.ValueType, city: str, minute: int) -> rules_pb2.RuleObserved:
    """Build what a rule observes of a city."""
    one = rules_pb2.RuleObserved(rule="orders_high", key={"tag_city": city}, state=state)
    one.summary = f"orders > 12 (tag_city {city}, orders 30)"
    one.window.FromDatetime(NOON + timedelta(minutes=minute))
    one.since.CopyFrom(one.window)
    return one


def build_steps(*rules: preview_pb2.PreviewRule) -> list[preview_pb2.PreviewDaggerResponse]:
    """Build the steps of a preview whose rules have said this."""
    begin = NOON.timestamp()
    rows = [row(begin + WINDOW_S * minute, 10 + minute, "oslo") for minute in range(1, 31)]
    done = preview_pb2.PreviewDone(reason="REASON_END_OF_RANGE", records=1_234, rows=30)
    done.rules.until.FromDatetime(NOON + timedelta(minutes=30))
    done.rules.rules.extend(rules)
    return [
        preview_pb2.PreviewDaggerResponse(rows=preview_pb2.PreviewRows(rows=rows)),
        preview_pb2.PreviewDaggerResponse(done=done),
    ]


def draw_limit(page: Page) -> Locator:
    """Draw a line across the chart of a dagger; return its handle."""
    page.get_by_role("button", name="Draw a limit").click()
    return page.get_by_role("slider", name="Limit of orders")


def test_a_line_of_the_chart_is_dragged_typed_and_moved_by_keys(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    serve_rows(one.page, [])
    page = one.open(DAGGER, "completed_bookings")
    handle = draw_limit(page)
    typed = page.get_by_role("spinbutton", name="Limit of orders")
    expect(typed).to_have_value("10")  # two thirds of 15
    box = handle.bounding_box()
    assert box is not None
    at = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*at)
    page.mouse.down()
    page.mouse.move(at[0], at[1] + 40, steps=4)
    page.mouse.up()
    expect(typed).not_to_have_value("10")
    dragged = float(typed.input_value())
    assert 0 < dragged < 10
    handle.press("ArrowUp")
    expect(typed).to_have_value(f"{dragged + 0.2:g}")
    expect(handle).to_have_attribute("aria-valuenow", f"{dragged + 0.2:g}")
    typed.fill("40")
    typed.press("Tab")

    expect(handle).to_have_attribute("aria-valuenow", "40")
    assert violations(page, packages) == []
    page.get_by_role("button", name="Remove the line").click()
    expect(handle).to_have_count(0)


def test_a_line_becomes_a_rule_that_is_tested_saved_and_undone(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    serve_rows(one.page, [])
    requests: list[preview_pb2.PreviewDaggerRequest] = []
    oslo = preview_pb2.PreviewRule(
        rule="orders_high",
        limit=12,
        nearest=30,
        observed=[
            observe(rules_pb2.RULE_STATE_FIRED, "oslo", 1),
            observe(rules_pb2.RULE_STATE_FIRED, "rome", 10),
            observe(rules_pb2.RULE_STATE_RESOLVED, "oslo", 5),
        ],
    )

    def test(route: Route) -> None:
        body: Any = route.request.post_data_buffer
        requests.append(preview_pb2.PreviewDaggerRequest.FromString(body[ENVELOPE:]))
        answer(route, build_steps(oslo))

    one.page.route(PREVIEW, test)
    page = one.open(DAGGER, "completed_bookings")
    draw_limit(page)
    typed = page.get_by_role("spinbutton", name="Limit of orders")
    typed.fill("12")
    typed.press("Tab")
    page.get_by_role("button", name="Alert above this line").click()
    expect(page).to_have_url(re.compile(r"tab=rules"))
    when = page.get_by_label("True when")
    expect(when).to_have_value("orders > 12")
    expect(page.get_by_label("Name", exact=True)).to_have_value("orders_high")
    expect(page.get_by_text("A condition over the columns of a row: tag_city")).to_be_visible()
    assert violations(page, packages) == []

    when.fill("orderz > 12")
    fault = page.get_by_role("region", name="The rule").get_by_text("orderz")
    expect(fault).to_be_visible()
    page.get_by_role("button", name="Test the rules").click()
    expect(page.get_by_text("What is wrong with the rules comes first.")).to_be_visible()
    page.get_by_role("button", name="Write orders").click()
    expect(when).to_have_value("orders > 12")
    expect(fault).to_have_count(0)
    page.get_by_label("How many").fill("2")
    page.get_by_label("tag_city").check()
    page.get_by_label("Severity").select_option("critical")

    page.get_by_label("Range of the test").select_option("last 6 h")
    page.get_by_role("button", name="Test the rules").click()
    trial = page.get_by_role("region", name="Would have fired", exact=True)
    expect(trial).to_contain_text("orders_high would have fired 2 times, 24 min in all.")
    expect(trial).to_contain_text("deliveries, silences and the delay of sinks are not simulated")
    expect(trial.locator(".legend")).to_contain_text("would have fired")
    rows = trial.get_by_role("region", name="Firings").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("tag_city=rome")
    expect(rows.nth(1)).to_contain_text("open")
    [request] = requests
    [rule] = request.spec.alerts
    assert (request.range.last.seconds, rule.for_windows, list(rule.key)) == (6 * 3_600, 2, ["tag_city"])
    assert violations(page, packages) == []

    page.get_by_role("button", name="Review", exact=True).click()
    plan = page.get_by_role("group", name="New rules")
    expect(plan).to_contain_text("This changes completed_bookings")
    expect(plan).to_contain_text("alerts")
    plan.get_by_role("button", name="Save the rules").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    saved = page.get_by_role("region", name="Rules", exact=True).locator("tbody tr")
    for text in ("orders_high", "orders > 12", "2 windows", "tag_city", "critical", "nothing"):
        expect(saved).to_contain_text(text)

    page.get_by_role("button", name="Undo …").click()
    page.get_by_role("group", name="Undo of the rules").get_by_role("button", name="Undo it").click()
    expect(page.get_by_text("There is no rule yet")).to_be_visible()


def test_a_new_rule_is_red_nowhere_before_something_was_typed(visit: Opened) -> None:
    page = visit().open(f"{DAGGER}?tab=rules", "completed_bookings")
    page.get_by_role("button", name="Add a rule").click()
    form = page.get_by_role("region", name="The rule")
    expect(form.get_by_text("A condition over the columns of a row: tag_city")).to_be_visible()
    expect(form.locator(".bad")).to_have_count(0)
    assert page.evaluate(CHECKLIST) == []
    page.get_by_role("button", name="Review", exact=True).click()
    expect(form.locator(".bad")).to_have_count(2)
    expect(form).to_contain_text("The condition is required")
    page.get_by_label("True when").fill("orders >")
    expect(form.locator(".bad").nth(1)).not_to_contain_text("required")
    form.get_by_role("combobox", name="Fires").select_option("when rows are missing")
    expect(page.get_by_label("True when")).to_have_count(0)
    expect(form.get_by_role("group", name="No row for").get_by_label("How many")).to_have_value("10")
    expect(form.locator(".bad")).to_have_count(1)  # the name
    assert page.evaluate(CHECKLIST) == []
    page.get_by_role("tab", name="Log").click()
    page.get_by_role("tab", name="Rules").click()

    expect(page.get_by_text("Changed, and not saved yet.")).to_be_visible()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_text("There is no rule yet")).to_be_visible()


def test_what_a_rule_needs_is_there_to_see_for_who_may_not_change_it(visit: Opened) -> None:
    one = visit()
    who = access_service_pb2.WhoAmIResponse(
        principal="user:bob",
        roles=[access_service_pb2.TeamRole(team="pricing", role=access_pb2.ROLE_VIEWER)],
    )
    one.page.route(re.compile("AccessService/WhoAmI"), lambda route: answer_once(route, who))
    serve_rows(one.page, [])
    page = one.open(DAGGER, "completed_bookings")
    expect(page.get_by_role("img", name="Line chart of orders")).to_be_visible()
    expect(page.get_by_role("button", name="Draw a limit")).to_have_count(0)
    page.get_by_role("tab", name="Rules").click()

    expect(page.get_by_text("There is no rule yet. Editors of pricing add them.")).to_be_visible()
    expect(page.get_by_role("button", name="Add a rule")).to_have_count(0)


def test_a_test_of_rules_is_cancelled(visit: Opened) -> None:
    one = visit()
    waiting: list[Route] = []
    one.page.route(PREVIEW, lambda route: waiting.append(route))
    page = one.open(f"{DAGGER}?tab=rules", "completed_bookings")
    page.get_by_role("button", name="Add a rule").click()
    page.get_by_label("Name", exact=True).fill("busy")
    page.get_by_label("True when").fill("orders > 3")
    page.get_by_role("button", name="Test the rules").click()
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_text("Cancelled.")).to_be_visible()
