"""The first page: whether all is well, whose it is where not, and a thousand daggers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from daggers.v1 import dagger_pb2, gateway_pb2, spec_pb2, vitals_pb2
from playwright.sync_api import Page, expect
from tests.portal.answers import answer, answer_once
from tests.portal.axe import violations
from tests.portal.conftest import Visit

Opened = Callable[..., Visit]
MANY = 1_000


def serve_daggers(page: Page, daggers: list[dagger_pb2.Dagger]) -> None:
    """Answer these daggers in place of the gateway's."""
    step = gateway_pb2.WatchVitalsResponse(sequence=7)
    page.route(re.compile("DaggerService/WatchVitals"), lambda route: answer(route, [step]))
    listed = gateway_pb2.ListDaggersResponse(daggers=daggers, total_size=len(daggers), sequence=7)
    page.route(re.compile("DaggerService/ListDaggers"), lambda route: answer_once(route, listed))


def dagger(number: int, phase: dagger_pb2.Phase.ValueType, team: str, late: int = 0) -> dagger_pb2.Dagger:
    return dagger_pb2.Dagger(
        name=f"dagger-{number:04}",
        phase=phase,
        spec=spec_pb2.DaggerSpec(team=team, cluster="local"),
        vitals=vitals_pb2.Vitals(recent_late_rows=late),
    )


def test_a_page_without_trouble_says_so(visit: Opened) -> None:
    page = visit().open("/", "Daggers")
    well = page.get_by_role("region", name="Is all well?")

    expect(well.get_by_role("heading")).to_have_text("Nothing is wrong: no dagger runs")
    expect(well.get_by_role("button", name="2 of pricing: Changed in 24 h")).to_be_visible()


def test_trouble_is_shown_by_team_and_leads_to_its_daggers(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    running, failed = dagger_pb2.RUNNING, dagger_pb2.FAILED
    daggers = [dagger(1, running, "food"), dagger(2, failed, "rides"), dagger(3, running, "rides", late=4)]
    serve_daggers(one.page, daggers)
    page = one.open("/", "Daggers")
    well = page.get_by_role("region", name="Is all well?")
    expect(well.get_by_role("heading")).to_have_text("One team has something to look at")
    expect(well.get_by_role("row").nth(1).get_by_role("rowheader")).to_have_text("rides")
    assert violations(page, packages) == []
    well.get_by_role("button", name="1 of rides: Late rows").click()
    cards = page.get_by_role("main").get_by_role("list").get_by_role("listitem")
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("dagger-0003")
    expect(page).to_have_url(re.compile(r"show=late&team=rides"))
    page.get_by_role("button", name="Late rows of rides").click()

    expect(cards).to_have_count(3)


def test_a_thousand_daggers_come_as_one_scrolls_and_are_searched(visit: Opened) -> None:
    one = visit()
    serve_daggers(one.page, [dagger(number, dagger_pb2.RUNNING, "food") for number in range(MANY)])
    page = one.open("/", "Daggers")
    cards = page.get_by_role("main").get_by_role("list").get_by_role("listitem")
    expect(cards.first).to_be_visible()
    assert cards.count() < MANY // 2
    last = page.get_by_role("link", name=f"dagger-{MANY - 1:04}")
    for _ in range(60):
        if last.count():
            break
        cards.last.scroll_into_view_if_needed()
        page.wait_for_timeout(50)
    expect(last).to_be_attached()
    page.get_by_role("searchbox").fill("dagger-0007 food")

    expect(cards).to_have_count(1)
