"""Rows as a chart: beside those of a day before, as a query for Grafana, in the list, in a preview."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
from daggers.v1 import (
    dagger_pb2,
    dagger_service_pb2,
    findings_pb2,
    gateway_pb2,
    output_pb2,
    preview_pb2,
    vitals_pb2,
)
from playwright.sync_api import Route, expect
from tests.portal.answers import answer, answer_once
from tests.portal.conftest import Visit
from tests.portal.portal_live import DAY_S, WINDOW_S, row, serve_rows
from tests.portal.portal_studio import PREVIEW, START

Opened = Callable[..., Visit]
TEN_FRAMES = """async () => {
  for (let frame = 0; frame < 10; frame++) await new Promise(done => requestAnimationFrame(done));
}"""


def test_a_day_before_stands_beside_today(visit: Opened) -> None:
    one = visit()
    asked: list[output_pb2.ReadRowsRequest] = []
    serve_rows(one.page, asked)
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    legend = page.get_by_role("region", name="Live rows").locator(".legend")
    expect(legend).to_contain_text("Jakarta")
    page.get_by_label("Compare with an earlier time").select_option("a day before")
    expect(legend.locator(".ghost")).to_have_text("Jakarta, a day before")
    earlier = next(each for each in asked if each.where)
    since = earlier.since.seconds
    condition = earlier.where[0]
    assert (condition.column, condition.comparison) == (
        "window_timestamp",
        output_pb2.RowCondition.COMPARISON_LESS,
    )
    assert abs(time.time() - DAY_S - 15 * WINDOW_S - since) < 30 * WINDOW_S
    page.get_by_label("Compare with an earlier time").select_option("Compare with …")

    expect(legend.locator(".ghost")).to_have_count(0)
    expect(legend).to_contain_text("Jakarta")


def test_the_chart_says_how_grafana_reads_it(visit: Opened) -> None:
    one = visit()
    serve_rows(one.page, [])
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    page.get_by_text("How this is read").click()
    query = page.get_by_label("Query for Grafana")
    expect(query).to_contain_text('from(bucket: "daggers")')

    expect(query).to_contain_text('r._measurement == "completed_bookings" and r._field == "orders"')
    expect(query).to_contain_text('group(columns: ["city"])')


def test_the_chart_and_clusters_lead_to_grafana_where_the_setting_says(visit: Opened) -> None:
    one, without = visit(), visit()
    one.page.route(re.compile("/auth/me"), lambda route: route.fulfill(json=with_grafana(route)))
    serve_rows(one.page, [])
    serve_rows(without.page, [])
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    page.get_by_text("How this is read").click()
    expect(page.get_by_label("Query for Grafana")).to_contain_text('"daggers"')  # its cluster was read
    link = page.get_by_role("link", name="Open in Grafana")
    expect(link).to_have_attribute("href", re.compile(r"^https://grafana\.example/explore\?.*panes="))
    panes = json.loads(httpx.URL(link.get_attribute("href") or "").params["panes"])
    (query,) = panes["daggers"]["queries"]
    assert query["query"] == page.get_by_label("Query for Grafana").text_content()
    expect(page.get_by_role("link", name="Its dashboard")).to_have_attribute(
        "href", "https://grafana.example/d/dagger?var-dagger=completed_bookings"
    )
    page = one.open("/clusters", "Clusters")
    expect(page.get_by_role("link", name="Dashboard in Grafana")).to_have_attribute(
        "href", "https://grafana.example/d/platform"
    )
    page = without.open("/daggers/completed_bookings", "completed_bookings")
    page.get_by_text("How this is read").click()
    expect(page.get_by_label("Query for Grafana")).to_be_visible()

    expect(page.get_by_role("link", name="Grafana")).to_have_count(0)


def with_grafana(route: Route) -> dict[str, object]:
    """What the page is told of who is logged in, and of a Grafana, which no portal of tests has."""
    told: dict[str, object] = route.fetch().json()
    assert told["grafana"] is None
    return {**told, "grafana": "https://grafana.example/"}


def test_a_driver_that_runs_beside_another_is_told_and_what_it_does(visit: Opened) -> None:
    one = visit()
    shadow = dagger_pb2.DriverShadow(generation=9, version=7)
    shadow.time.FromSeconds(int(time.time()) - 5)
    alone = True

    def got(route: Route) -> None:
        shown = dagger_service_pb2.GetDaggerResponse.FromString(route.fetch().body())
        if not alone:
            shown.dagger.observed_version = 6
            shown.dagger.shadow.CopyFrom(shadow)
        answer_once(route, shown)

    one.page.route(re.compile("DaggerService/GetDagger"), got)
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    expect(page.get_by_role("link", name="Edit")).to_be_visible()
    expect(page.get_by_text("beside version")).to_have_count(0)
    alone = False
    expect(page.get_by_text("Version 7 is catching up beside version 6, since")).to_be_visible()
    shadow.boundary.FromDatetime(datetime(2026, 1, 2, 3, 4, tzinfo=UTC))

    expect(
        page.get_by_text(
            "Version 7 takes the place of version 6 behind the windows that end at 2 Jan 2026, 03:04 UTC."
        )
    ).to_be_visible()


def test_a_dagger_is_published_to_kafka_by_its_plan(visit: Opened) -> None:
    one = visit()
    page = one.open("/daggers/driver_supply", "driver_supply")
    page.get_by_role("link", name="Publish to Kafka").click()
    expect(page.get_by_role("textbox", name="Topic")).to_have_value("driver_supply")
    expect(page.get_by_role("region", name="Plan")).to_contain_text("This changes driver_supply")
    expect(page.get_by_role("region", name="Plan")).to_contain_text("kafka")
    page.get_by_role("button", name="Apply driver_supply").click()
    page.get_by_role("link", name="Open driver_supply").click()
    expect(page.get_by_role("heading", level=1, name="driver_supply")).to_be_visible()

    expect(page.get_by_role("link", name="Edit")).to_be_visible()
    expect(page.get_by_role("link", name="Publish to Kafka")).to_have_count(0)


def test_a_card_draws_the_rates_that_came(visit: Opened) -> None:
    one = visit()
    steps = [
        gateway_pb2.WatchVitalsResponse(
            vitals=[vitals_pb2.Vitals(dagger="completed_bookings", rows_per_s=rate)]
        )
        for rate in (1, 3, 2)
    ]
    one.page.route(re.compile("DaggerService/WatchVitals"), lambda route: answer(route, steps))
    page = one.open("/", "Daggers")
    card = page.get_by_role("listitem").filter(has_text="completed_bookings")
    expect(card.locator("polyline")).to_have_count(1)

    expect(card).to_contain_text("120 rows/min")


def test_a_preview_draws_its_whole_windows(visit: Opened) -> None:
    one = visit()
    names = ("orders", "city", "window_timestamp")
    columns = [findings_pb2.OutputColumn(name=name) for name in names]
    whole = [row(WINDOW_S * number, number) for number in (1, 2, 3)]
    parts = preview_pb2.PreviewRows(rows=[row(WINDOW_S * 4, 1, "Bali")], partial=True)
    done = preview_pb2.PreviewDone(reason="REASON_END_OF_RANGE", records=12, rows=4)
    steps = [
        preview_pb2.PreviewDaggerResponse(columns=preview_pb2.PreviewColumns(columns=columns)),
        preview_pb2.PreviewDaggerResponse(rows=preview_pb2.PreviewRows(rows=whole)),
        preview_pb2.PreviewDaggerResponse(rows=parts),
        preview_pb2.PreviewDaggerResponse(done=done),
    ]
    one.page.route(PREVIEW, lambda route: answer(route, steps))
    page = one.open(START, "New dagger")
    page.get_by_role("button", name="Preview").first.click()
    preview = page.get_by_role("region", name="Preview", exact=True)

    expect(preview.get_by_role("heading", name="orders by city, UTC")).to_be_visible()
    expect(preview.locator(".legend")).to_have_text("Jakarta")
    chart = preview.get_by_role("img", name="Line chart of orders")
    width = chart.evaluate("chart => chart.clientWidth")
    page.evaluate(TEN_FRAMES)
    assert chart.evaluate("chart => chart.clientWidth") == width  # it does not grow with what it is in
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
