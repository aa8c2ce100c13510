"""Help of the studio in a real browser: questions to begin with, fixes, what is in the way of a dagger."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from daggers.v1 import access_pb2, access_service_pb2, catalog_service_pb2
from playwright.sync_api import Page, Route, expect
from tests.portal.answers import answer, answer_once
from tests.portal.conftest import Visit
from tests.portal.portal_studio import PREVIEW, START, query

from scheduler.host.preview_process import slow

Opened = Callable[..., Visit]
WINDOW = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
END = f"{WINDOW.replace('TUMBLE', 'TUMBLE_END')} AS window_timestamp"
FIXES = [
    (
        f"SELECT status AS tag_status count(1) AS n, {END} FROM bookings GROUP BY {WINDOW}, status",
        "A comma is missing before 'count'.",
        "tag_status, count(1)",
    ),
    (
        f'SELECT count(1) AS n, {END} FROM bookings WHERE status = "COMPLETED" GROUP BY {WINDOW}',
        "Names are quoted with backticks, text with single quotes.",
        "status = 'COMPLETED'",
    ),
    (
        f"SELECT count(1) AS n, {END} FROM bookings WHERE status == 'COMPLETED' GROUP BY {WINDOW}",
        "Values are compared by a single =.",
        "status = 'COMPLETED'",
    ),
    (
        f"SELECT count(order_numbr) AS n, {END} FROM bookings GROUP BY {WINDOW}",
        "There is no column order_numbr in bookings.",
        "count(order_number)",
    ),
]
"""A query, what is said of it, and what stands in it behind the fix."""


def await_check(page: Page) -> None:
    """Wait until the text was checked."""
    expect(page.get_by_text("Checking …")).to_have_count(0)


def test_each_question_of_the_menu_is_a_query_without_a_mistake(visit: Opened) -> None:
    page = visit().open(START, "New dagger")
    menu = page.get_by_label("Begin with")
    expect(menu).to_be_visible()
    titles = menu.locator("option").all_text_contents()[1:]
    assert {"Completed by S2 cell", "Conversion"} <= set(titles)
    texts = set()
    for title in titles:
        before = page.locator(".cm-content").text_content() or ""
        menu.select_option(title)
        if title != titles[0]:  # it is there from the start
            expect(page.locator(".cm-content")).not_to_have_text(before)
        await_check(page)
        expect(page.get_by_role("list", name="Findings").get_by_text("Error", exact=True)).to_have_count(0)
        expect(page.get_by_role("cell", name="window_timestamp")).to_be_visible()
        texts.add(page.locator(".cm-content").text_content())

    assert len(texts) == len(titles) >= 5
    expect(menu).to_have_value("")


@pytest.mark.parametrize(("text", "sentence", "behind"), FIXES)
def test_the_button_of_a_finding_mends_the_query(
    visit: Opened, text: str, sentence: str, behind: str
) -> None:
    page = visit().open(START, "New dagger")
    query(page, text)
    finding = page.get_by_role("list", name="Findings").get_by_role("listitem").filter(has_text=sentence)
    expect(finding).to_have_count(1)
    finding.get_by_role("button", name=re.compile("^(Write|Take it out)")).click()

    expect(page.locator(".cm-content")).to_contain_text(behind)
    expect(page.get_by_role("list", name="Findings").filter(has_text=sentence)).to_have_count(0)
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)


def test_nothing_is_red_before_anything_was_typed(visit: Opened) -> None:
    page = visit().open("/new", "New dagger")
    await_check(page)

    expect(page.get_by_role("status").filter(has_text="still to say")).to_be_visible()
    expect(page.get_by_role("main").locator(".bad").filter(has_text=re.compile(r"\S"))).to_have_count(0)
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)


def test_a_name_that_is_taken_disables_the_button(visit: Opened) -> None:
    page = visit().open(START, "New dagger")
    name, review = page.get_by_placeholder("Name", exact=True), page.get_by_role("button", name="Review and")
    name.fill("driver_supply")
    expect(page.get_by_text("The name is taken", exact=True)).to_be_visible()
    expect(review).to_be_disabled()
    name.fill("driver_supply_by_hour")

    expect(review).to_be_enabled()


def test_a_spent_quota_and_a_missing_room_are_said_before_the_button(visit: Opened) -> None:
    one = visit()

    def usage(route: Route) -> None:
        use = access_service_pb2.QuotaUse(name="daggers", used=40, quota=access_pb2.Quota(hard=40))
        answer_once(route, access_service_pb2.GetTeamUsageResponse(uses=[use]))

    def clusters(route: Route) -> None:
        response = catalog_service_pb2.ListClustersResponse.FromString(route.fetch().body())
        for use in response.uses:
            use.room = 0
        answer_once(route, response)

    one.page.route(re.compile("CatalogService/ListClusters"), clusters)
    page = one.open(START, "New dagger")
    page.get_by_placeholder("Name", exact=True).fill("waits_for_room")
    expect(page.get_by_text("There is no room for another driver.")).to_be_visible()
    review = page.get_by_role("button", name="Review and create")
    expect(review).to_be_enabled()  # it is created, and waits
    one.page.route(re.compile("AccessService/GetTeamUsage"), usage)
    page.reload()

    expect(page.get_by_text("Team pricing has 40 daggers, as many as its quota allows.")).to_be_visible()
    expect(review).to_be_disabled()


def test_a_preview_names_an_overloaded_host(visit: Opened) -> None:
    one = visit()
    overload = "the host is overloaded: tasks waited for a processor 91 % of the last minute"
    reason, why = slow("it did not start in 60 s", "ask for less", overload)
    one.page.route(PREVIEW, lambda route: answer(route, [], unavailable=why))
    page = one.open(START, "New dagger")
    page.get_by_role("button", name="Preview").first.click()
    notice = page.get_by_role("region", name="Preview").get_by_role("alert")

    assert reason == "HOST_OVERLOADED"
    expect(notice).to_contain_text("the host is overloaded: tasks waited for a processor 91 %")
    expect(notice).to_contain_text("ask again when it has less to do")
    expect(notice).not_to_contain_text("ask for less")
