"""A dagger's first screen: whether it is right now, its last day, its rows as a chart that is passed on."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import access_service_pb2, dagger_pb2, dagger_service_pb2, output_pb2
from playwright.sync_api import Page, Route, expect
from tests.portal import axe
from tests.portal.answers import answer, answer_once
from tests.portal.conftest import Visit
from tests.portal.portal_live import DAY_S, ENVELOPE, WINDOW_S, row

Opened = Callable[..., Visit]
AT = "/daggers/completed_bookings"
NAME = "completed_bookings"
WEEK = 7


def serve_dagger(page: Page) -> None:
    """Answer a dagger that runs, and whose rows come in time."""

    bodies: list[bytes] = []

    def got(route: Route) -> None:
        if not bodies:  # once: the page asks again and again, also while it is closed
            bodies.append(route.fetch().body())
        response = dagger_service_pb2.GetDaggerResponse.FromString(bodies[0])
        dagger = response.dagger
        dagger.phase = dagger_pb2.RUNNING
        dagger.vitals.heard_time.FromSeconds(int(time.time()))
        dagger.vitals.rows, dagger.vitals.lag = 700, 12
        dagger.vitals.freshness["influx"].rows = 9
        dagger.vitals.freshness["influx"].p95_ms = 5_900
        answer_once(route, response)

    page.route(re.compile("DaggerService/GetDagger"), got)


def serve_metrics(page: Page) -> None:
    """Answer the minutes of the last two hours, of which ten were not heard."""

    def metrics(route: Route) -> None:
        begin = int(time.time()) // 60 - 120
        response = dagger_service_pb2.ReadMetricsResponse()
        response.begin.FromSeconds(begin * 60)
        for minute in range(120):
            silent = 60 <= minute < 70
            response.rows.append(-1 if silent else minute * 1_000)
            response.records.append(-1 if silent else minute)
            response.lag.append(-1 if silent else 7)
            response.late_rows.append(-1 if silent else 0)
            response.quarantined.append(-1 if silent else 0)
            response.freshness_p95_ms.append(-1 if silent else 5_900)
        response.cost.CopyFrom(
            access_service_pb2.DaggerCost(cpu_seconds_per_day=8_640, launch_memory_mib=2_304)
        )
        response.cost.age.FromSeconds(3_600)
        answer_once(route, response)

    page.route(re.compile("DaggerService/ReadMetrics"), metrics)


def serve_rows(page: Page, *, gap: bool = False) -> None:
    """Answer rows of two cities and of the last minutes; a day before there were some, a week before none."""

    def rows(route: Route) -> None:
        body = route.request.post_data_buffer
        assert body is not None
        request = output_pb2.ReadRowsRequest.FromString(body[ENVELOPE:])
        before = bool(request.where)
        age_s = time.time() - request.since.seconds
        if before and age_s > WEEK * DAY_S:
            return answer(route, [output_pb2.ReadRowsResponse(rows=[])])
        end = time.time() // WINDOW_S * WINDOW_S - (DAY_S if before else 0)
        numbers = [number for number in range(1, 12) if not (gap and number in (5, 6))]
        windows = [
            row(end - WINDOW_S * number, 200_000 + number, city)
            for number in numbers
            for city in ("Jakarta", "Bali")
        ]
        for each in windows:  # InfluxDB reads its fields back by the alphabet
            each.fields.insert(0, output_pb2.RowField(name="amount", integer=3))
        return answer(route, [output_pb2.ReadRowsResponse(rows=windows)])

    page.route(re.compile("DaggerService/ReadRows"), rows)


def open_full(one: Visit, search: str = "", **how: Any) -> Page:
    """Open a dagger's page whose every part has something to show."""
    serve_dagger(one.page)
    serve_metrics(one.page)
    serve_rows(one.page, **how)
    return one.open(f"{AT}{search}", NAME)


def test_the_first_screen_says_whether_it_is_right_and_draws_its_last_day(visit: Opened) -> None:
    page = open_full(visit())
    verdict = page.get_by_role("region", name="Is it right now?")
    expect(verdict).to_contain_text(
        "Yes: 95 of 100 rows are in influx within 5.9 s of the end of their window,"
        " and nothing was late or quarantined in the last 5 min."
    )
    rows = page.get_by_role("img", name="Rows out by minute over 24 h: at most 119,000, last 119,000")
    expect(rows.locator("polyline")).to_have_count(2)  # what was not heard is a gap
    for title in ("Records in", "Lag", "Late", "Quarantined", "Fresh in influx"):
        expect(page.get_by_role("img", name=f"{title} by minute")).to_be_visible()
    rows.hover()
    expect(rows).to_contain_text(re.compile(r"\d\d:\d\d"))

    cost = page.locator(".facts > div").filter(has_text="Cost a day")
    expect(cost).to_contain_text("2.4 h")
    expect(cost).to_contain_text("2,304 MiB reserved")


def test_the_chart_begins_with_selects_first_number_and_lists_all_lines_under_the_pointer(
    visit: Opened,
) -> None:
    page = open_full(visit())
    live = page.get_by_role("region", name="Live rows")
    expect(live.get_by_role("heading", name="orders by city")).to_be_visible()
    expect(live.locator(".by")).to_have_text("city")
    expect(live.locator(".legend")).to_contain_text("Jakarta")
    chart = live.get_by_role("img", name="Line chart of orders").locator(".u-over")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60)

    tip = live.locator(".tip")
    expect(tip).to_contain_text(re.compile(r"\d\d:\d\d.*Jakarta.*200,0\d\d.*Bali.*200,0\d\d"))
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("width", [1440, 1280, 360])
def test_pause_stands_beside_the_heading_of_the_chart(visit: Opened, width: int) -> None:
    one = visit()
    one.page.set_viewport_size({"width": width, "height": 900})
    card = open_full(one).get_by_role("region", name="Live rows")
    expect(card.get_by_role("button", name="CSV")).to_be_visible()
    heading, pause = (
        card.get_by_role(role, name=name).bounding_box()
        for role, name in (("heading", re.compile("orders")), ("button", "Pause"))
    )

    assert heading is not None
    assert pause is not None
    assert pause["y"] <= heading["y"] + heading["height"] / 2 <= pause["y"] + pause["height"]


def test_an_address_has_all_of_the_chart_and_says_when_there_were_no_rows(visit: Opened) -> None:
    one = visit()
    page = open_full(one)
    live = page.get_by_role("region", name="Live rows")
    live.get_by_label("Field").select_option("amount")
    live.get_by_label("By tag").select_option("none")
    live.get_by_label("Range").select_option("1 h")
    live.get_by_label("Compare with an earlier time").select_option("a day and a week before")
    expect(live.get_by_text(re.compile("^a week before: no rows then, .* to "))).to_be_visible()
    expect(live.locator(".legend .ghost")).to_have_text("amount, a day before")
    chart = live.get_by_role("img", name="Line chart of amount").locator(".u-over")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.85, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 60, steps=5)
    page.mouse.up()
    expect(live.get_by_role("button", name="Show all")).to_be_visible()
    address = page.url.removeprefix(one.site)
    zoomed = re.search(r"zoom=(\d+)-(\d+)", address)
    assert zoomed is not None
    assert 200 < int(zoomed[2]) - int(zoomed[1]) < 600

    other = visit()
    there = open_full(other, address.removeprefix(AT))
    again = there.get_by_role("region", name="Live rows")
    expect(again.get_by_role("heading", name="amount", exact=True)).to_be_visible()
    expect(again.get_by_label("Range")).to_have_value("60")
    expect(again.locator(".legend .ghost")).to_have_text("amount, a day before")
    expect(again.get_by_role("button", name="Show all")).to_be_visible()
    assert there.url.removeprefix(other.site) == address
    again.get_by_role("button", name="Show all").click()
    expect(again.get_by_role("button", name="Show all")).to_have_count(0)
    expect(there).not_to_have_url(re.compile("zoom="))


def test_the_rows_are_saved_as_csv_in_selects_order(visit: Opened) -> None:
    page = open_full(visit())
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()

    assert saved.value.suggested_filename == "completed_bookings.csv"
    rows = list(csv.reader(io.StringIO(Path(saved.value.path()).read_text())))
    assert rows[0] == ["city", "orders", "time", "amount"]
    assert len(rows) == 1 + 22
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z", rows[1][2])


def test_history_says_why(visit: Opened) -> None:
    page = open_full(visit())
    history = page.get_by_role("region", name="History")

    expect(history.get_by_role("listitem").filter(has_text="dagger requested")).to_contain_text(
        "By anonymous."
    )


@pytest.mark.parametrize("state", ["full", "empty", "loading", "error"])
def test_axe_finds_nothing_on_a_first_screen_in_any_state(visit: Opened, packages: Path, state: str) -> None:
    one = visit(axe=True)
    serve_dagger(one.page)
    if state in ("full", "error"):
        serve_metrics(one.page)
    if state == "full":
        serve_rows(one.page, gap=True)
        open_at, seen = f"{AT}?compare=1%2C7", "no rows then"
    elif state == "empty":
        one.page.route(re.compile("ReadRows"), lambda route: answer(route, [output_pb2.ReadRowsResponse()]))
        open_at, seen = AT, "No rows in this time"
    elif state == "loading":
        one.page.route(re.compile("ReadRows|ReadMetrics"), lambda _: None)
        open_at, seen = AT, "Reading rows"
    else:
        one.page.route(re.compile("ReadRows"), lambda route: answer(route, [], "the host is away"))
        open_at, seen = AT, "The host is away"
    page = one.open(open_at, NAME)
    expect(page.get_by_text(seen).first).to_be_visible()

    assert axe.violations(page, packages) == []
    if state == "loading":
        page.unroute_all(behavior="ignoreErrors")


def test_nothing_is_cut_on_a_phone(visit: Opened) -> None:
    one = visit()
    one.page.set_viewport_size({"width": 360, "height": 780})
    page = open_full(one, "?compare=1")
    expect(page.get_by_role("region", name="Live rows").locator(".legend .ghost").first).to_be_visible()

    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.facts b, .facts dt, .verdict p, .legend span, h1, h2')]
          .filter(each => getComputedStyle(each).display !== 'inline')
          .filter(each => each.scrollWidth > each.clientWidth + 1)
          .map(each => each.textContent)"""
    )
    assert cut == []
