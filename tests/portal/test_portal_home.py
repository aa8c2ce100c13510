"""The first page: whether all is well, whose it is where not, and ten thousand daggers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from daggers.v1 import dagger_pb2, events_pb2, gateway_pb2, spec_pb2, vitals_pb2
from playwright.sync_api import Page, expect
from tests.integration.faults import until
from tests.portal.answers import answer, list_daggers
from tests.portal.axe import violations
from tests.portal.conftest import Visit

Opened = Callable[..., Visit]
MANY = 10_000
DRAWN = 60
SCROLL_TO_END = "main => { main.scrollTop = main.scrollHeight; return main.scrollTop; }"


def serve_daggers(page: Page, daggers: list[dagger_pb2.Dagger]) -> None:
    """Answer these daggers in place of the gateway's."""
    step = gateway_pb2.WatchVitalsResponse(sequence=7)
    page.route(re.compile("DaggerService/WatchVitals"), lambda route: answer(route, [step]))
    list_daggers(page, daggers)


def dagger(
    number: int, phase: dagger_pb2.Phase.ValueType, team: str, late: int = 0, error: str = ""
) -> dagger_pb2.Dagger:
    return dagger_pb2.Dagger(
        last_error=events_pb2.DaggerError(detail=error) if error else None,
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


@pytest.mark.parametrize("width", [1440, 360])
def test_of_ten_thousand_daggers_those_are_drawn_that_are_seen(visit: Opened, width: int) -> None:
    one = visit()
    one.page.set_viewport_size({"width": width, "height": 900})
    # Those that failed stand first, and are higher by a line that says why.
    failed = [dagger(number, dagger_pb2.FAILED, "food", error="it ends at once") for number in range(20)]
    running = [dagger(number, dagger_pb2.RUNNING, "food") for number in range(20, MANY)]
    serve_daggers(one.page, [*failed, *running])
    page = one.open("/", "Daggers")
    main = page.get_by_role("main")
    cards = main.get_by_role("list").get_by_role("listitem")
    expect(cards.first).to_contain_text("dagger-0000")
    assert cards.count() < DRAWN
    scrolled_px = main.evaluate(SCROLL_TO_END)
    last = page.get_by_role("link", name=f"dagger-{MANY - 1:04}")
    expect(last).to_be_in_viewport()
    expect(cards.last).to_have_attribute("aria-posinset", str(MANY))
    assert cards.count() < DRAWN
    assert scrolled_px > MANY / 4 * 100  # all of them are scrolled past
    # As one goes back row by row, no card jumps away from under the pointer.
    box = last.bounding_box()
    assert box is not None
    page.mouse.move(width / 2, 450)
    page.mouse.wheel(0, -200)
    until(lambda: abs((last.bounding_box() or {"y": 0})["y"] - box["y"] - 200) < 2)
    page.get_by_role("searchbox").fill("dagger-0007 food")

    expect(cards).to_have_count(1)
    expect(cards).to_be_in_viewport()


def test_a_table_is_sorted_by_a_column_and_its_address_keeps_that(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    lags = (90, 1_200, 4)
    daggers = [dagger(number, dagger_pb2.RUNNING, "food") for number in range(len(lags))]
    for each, lag in zip(daggers, lags, strict=True):
        each.vitals.lag = lag
    serve_daggers(one.page, [*daggers, dagger(7, dagger_pb2.FAILED, "rides")])
    page = one.open("/", "Daggers")
    page.get_by_role("button", name="Table").click()
    table = page.get_by_role("region", name="Daggers as a table")
    names = table.get_by_role("link")
    expect(names).to_have_text(["dagger-0007", "dagger-0000", "dagger-0001", "dagger-0002"])
    head = table.get_by_role("columnheader", name="Lag, records")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    by_lag = ["dagger-0001", "dagger-0000", "dagger-0002", "dagger-0007"]
    expect(names).to_have_text(by_lag)
    expect(table.get_by_role("row").nth(1)).to_contain_text("1,200")
    assert violations(page, packages) == []
    expect(page).to_have_url(re.compile(r"view=table&sort=-lag$"))
    page.set_viewport_size({"width": 1440, "height": 900})  # it was judged on a phone, which has cards alone
    page.reload()

    expect(names).to_have_text(by_lag)


def test_of_ten_thousand_rows_of_a_table_those_are_drawn_that_are_seen(visit: Opened) -> None:
    one = visit()
    serve_daggers(one.page, [dagger(number, dagger_pb2.RUNNING, "food") for number in range(MANY)])
    page = one.open("/?view=table&sort=-name", "Daggers")
    names = page.get_by_role("region", name="Daggers as a table").get_by_role("link")
    expect(names.first).to_have_text(f"dagger-{MANY - 1:04}")
    assert names.count() < DRAWN
    page.get_by_role("main").evaluate(SCROLL_TO_END)

    expect(names.last).to_have_text("dagger-0000")
    assert names.count() < DRAWN
