"""The studio in a real browser: from a message to a dagger, by findings, preview and plan."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from daggers.v1 import catalog_service_pb2, findings_pb2, output_pb2, preview_pb2
from playwright.sync_api import Route, expect
from tests.portal.answers import answer, answer_once
from tests.portal.axe import violations
from tests.portal.conftest import Visit
from tests.portal.portal_pages import STUDIOS
from tests.portal.portal_studio import PREVIEW, START, completing, query

Opened = Callable[..., Visit]
DESCRIBE = re.compile("CatalogService/DescribeStream")


def test_no_studio_has_a_violation(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    found = {}
    for path, heading in STUDIOS:
        page = one.open(path, heading)
        expect(page.get_by_role("button", name="Preview").first).to_be_visible()
        expect(page.get_by_text("rowtime", exact=True).first).to_be_visible()
        expect(page.get_by_text("Checking …")).to_have_count(0)
        found[path] = violations(page, packages)

    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_a_dagger_is_made_from_a_message(visit: Opened) -> None:
    one = visit()
    page = one.open("/", "Daggers")
    page.get_by_role("link", name="New dagger").click()
    page.get_by_label("Protobuf message").select_option("examples.v1.Booking")
    page.get_by_role("checkbox", name="bookings").check()
    expect(page).to_have_url(re.compile(r"message=examples\.v1\.Booking&streams=bookings&cluster=local"))
    page.get_by_placeholder("Name", exact=True).fill("made_in_a_page")
    page.get_by_label("Kind of sink 1").select_option("log")
    page.get_by_role("button", name="Review and create").click()
    plan = page.get_by_role("region", name="Plan")
    expect(plan).to_contain_text("This creates made_in_a_page")
    page.get_by_role("button", name="Create made_in_a_page").click()

    expect(page.get_by_role("region", name="Steps")).to_contain_text("✓ Accepted")
    page.get_by_role("link", name="Open made_in_a_page").click()
    expect(page.get_by_role("heading", level=1, name="made_in_a_page")).to_be_visible()
    page.goto(f"{one.site}/new")
    expect(page.get_by_placeholder("Name", exact=True)).to_have_value("")


def test_what_nobody_judged_in_time_is_asked_again(visit: Opened) -> None:
    one = visit()
    one.refused = {504}
    is_busy = True

    def judge(route: Route) -> None:
        if not is_busy:
            route.continue_()
            return
        error = '{"code": "deadline_exceeded", "message": "Nobody answered in time."}'
        route.fulfill(status=504, body=error, content_type="application/json")

    one.page.route(re.compile("DaggerService/Validate"), judge)
    page = one.open(START, "New dagger")
    expect(page.get_by_role("alert")).to_contain_text("Nobody answered in time")
    expect(page.get_by_text("Not checked", exact=True)).to_be_visible()
    is_busy = False

    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("Not checked", exact=True)).to_have_count(0)
    expect(page.get_by_text("Checking …")).to_have_count(0)


def test_what_the_topics_of_a_stream_hold_stands_where_it_is_chosen(visit: Opened) -> None:
    one = visit()
    told = catalog_service_pb2.DescribeStreamResponse(partitions=8, records_per_second=1234.56)
    asked: list[str] = []

    def busy(route: Route) -> None:
        request = catalog_service_pb2.DescribeStreamRequest.FromString(route.request.post_data_buffer or b"")
        if not request.topics:
            route.continue_()
            return
        asked.append(request.name)
        answer_once(route, told)

    one.page.route(DESCRIBE, busy)
    page = one.open("/new", "New dagger")
    page.get_by_label("Protobuf message").select_option("examples.v1.Booking")
    offered = page.get_by_role("checkbox", name="bookings")
    expect(offered).to_have_accessible_name(
        re.compile(r"local · booking-log 8 partitions · 1,234\.6 records/s$")
    )
    expect(offered).not_to_be_checked()
    page.get_by_placeholder("Name", exact=True).fill("asks_nobody_again")
    expect(page.get_by_text("Checking …")).to_have_count(0)
    assert asked == ["bookings"]
    page.unroute(DESCRIBE)
    page.goto(f"{one.site}{START}")

    expect(offered).to_have_accessible_name(re.compile("is not known: no scheduler has said where it serves"))


def test_a_name_is_judged_as_it_is_typed(visit: Opened) -> None:
    page = visit().open(START, "New dagger")
    name = page.get_by_placeholder("Name", exact=True)
    name.press_sequentially("completed_bookings")
    expect(page.get_by_text("Taken: completed_bookings of")).to_be_visible()
    expect(name).to_have_attribute("aria-invalid", "true")
    name.press_sequentially("!")
    expect(page.get_by_text("A name must be 3 to 63 of a-z")).to_be_visible()
    name.fill("completed_booking")

    expect(name).to_have_attribute("aria-invalid", "false")
    expect(page.get_by_text("A name must be")).to_have_count(0)
    expect(page.get_by_text("Taken:")).to_have_count(0)


def test_findings_are_gone_to_and_mended_by_keys(visit: Opened) -> None:
    one = visit()
    page = one.open(START, "New dagger")
    # What is no unit of the editor's stands before the error: its place is in characters.
    query(page, "SELECT '😀' AS face, order_numbr FROM `bookings`")
    expect(page.locator(".cm-lintRange-error").filter(has_text="order_numbr").first).to_have_text(
        "order_numbr"
    )
    page.keyboard.press("Control+Home")
    page.keyboard.press("F8")
    page.keyboard.press("Alt+Enter")

    expect(page.locator(".cm-content")).to_contain_text("'😀' AS face, order_number FROM")
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)


def test_columns_and_values_are_completed(visit: Opened) -> None:
    page = visit().open(START, "New dagger")
    completing(page)
    page.keyboard.press("Escape")
    query(page, "SELECT * FROM `bookings` WHERE status = 'COM")
    page.keyboard.press("Control+Space")
    page.get_by_role("option", name="COMPLETED", exact=True).click()

    expect(page.locator(".cm-content")).to_contain_text("status = 'COMPLETED")


def test_what_a_word_of_the_query_is_stands_beside_it(visit: Opened) -> None:
    one = visit()
    page = one.open(START, "New dagger")
    expect(page.get_by_text("rowtime", exact=True)).to_be_visible()
    query(page, "SELECT\nS2Id\nFROM `bookings`")
    expect(page.get_by_text("Checking …")).to_have_count(0)
    page.locator(".cm-line").filter(has_text=re.compile("^S2Id$")).hover(position={"x": 20, "y": 8})

    expect(page.locator(".said")).to_contain_text("S2Id")


def test_a_draft_survives_a_reload_and_can_be_thrown_away(visit: Opened) -> None:
    one = visit()
    page = one.open(START, "New dagger")
    query(page, "SELECT city_id FROM `bookings`")
    page.reload()
    expect(page.locator(".cm-content")).to_have_text("SELECT city_id FROM `bookings`")
    page.get_by_role("button", name="Begin anew").click()

    expect(page.locator(".cm-content")).to_contain_text("count(1) AS records")


def test_a_draft_is_passed_on_by_its_address_and_takes_nobodys_place(visit: Opened) -> None:
    one, other = visit(), visit()
    page = one.open(START, "New dagger")
    query(page, "SELECT city_id, 'ÄÖ😀' AS face FROM `bookings`")
    page.get_by_placeholder("Name", exact=True).fill("passed_on")
    page.get_by_role("button", name="Share").click()
    link = page.get_by_label("Whoever opens this has the query").input_value()
    asked: list[str] = []
    other.page.on("request", lambda request: asked.append(request.url))
    theirs = other.open(START, "New dagger")
    query(theirs, "SELECT order_number FROM `bookings`")
    expect(theirs.locator(".cm-content")).to_have_text("SELECT order_number FROM `bookings`")
    theirs = other.open(link.removeprefix(other.site), "New dagger")
    expect(theirs.get_by_text("This draft came with the address.")).to_be_visible()
    expect(theirs.get_by_placeholder("Name", exact=True)).to_have_value("passed_on")
    expect(theirs.locator(".cm-content")).to_have_text("SELECT city_id, 'ÄÖ😀' AS face FROM `bookings`")
    theirs.get_by_role("button", name="Leave it").click()

    expect(theirs.locator(".cm-content")).to_have_text("SELECT order_number FROM `bookings`")
    assert not [url for url in asked if "draft=" in url and "#" not in url]


def test_a_preview_shows_rows_and_marks_parts(visit: Opened) -> None:
    one = visit()
    columns = preview_pb2.PreviewColumns(columns=[findings_pb2.OutputColumn(name="orders")])
    rows = [
        preview_pb2.PreviewRows(
            rows=[output_pb2.Row(fields=[output_pb2.RowField(name="orders", integer=2**53 + part)])],
            partial=bool(part),
        )
        for part in (0, 1)
    ]
    done = preview_pb2.PreviewDone(reason="REASON_END_OF_RANGE", records=12, rows=2, total_ms=1500)
    steps = [
        preview_pb2.PreviewDaggerResponse(columns=columns),
        *(preview_pb2.PreviewDaggerResponse(rows=each) for each in rows),
        preview_pb2.PreviewDaggerResponse(done=done),
    ]
    one.page.route(PREVIEW, lambda route: answer(route, steps))
    page = one.open(START, "New dagger")
    page.get_by_role("textbox", name="Query").click()
    page.keyboard.press("Control+Enter")

    grid = page.get_by_role("region", name="Rows of the preview")
    expect(grid).to_contain_text("9,007,199,254,740,993")
    expect(grid.locator("tr.partial")).to_have_count(1)
    expect(page.get_by_text("12 records · 2 rows · 1.5 s")).to_be_visible()


def test_a_preview_without_rows_says_why(visit: Opened) -> None:
    one = visit()
    done = preview_pb2.PreviewDone(reason="REASON_END_OF_RANGE", empty="EMPTY_FILTERED", records=12)
    one.page.route(PREVIEW, lambda route: answer(route, [preview_pb2.PreviewDaggerResponse(done=done)]))
    page = one.open(START, "New dagger")
    page.get_by_role("button", name="Preview").first.click()

    expect(page.get_by_text("The query keeps no record")).to_be_visible()


def test_a_preview_is_cancelled(visit: Opened) -> None:
    one = visit()
    held: list[Route] = []
    one.page.route(PREVIEW, lambda route: held.append(route))
    page = one.open(START, "New dagger")
    page.get_by_role("button", name="Preview").first.click()
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_text("Cancelled.")).to_be_visible()


def test_an_edit_says_what_it_changes(visit: Opened) -> None:
    one = visit()
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    page.get_by_role("link", name="Edit").click()
    expect(page.locator(".cm-content")).to_contain_text("TUMBLE_END")
    page.get_by_label("Measurement").fill("bookings_by_city")
    page.get_by_role("button", name="Review", exact=True).click()
    plan = page.get_by_role("region", name="Plan")
    expect(plan).to_contain_text("This changes completed_bookings")
    expect(plan).to_contain_text("bookings_by_city")


def test_a_sink_that_has_no_fields_here_is_written_as_json(visit: Opened) -> None:
    one = visit()
    page = one.open(START, "New dagger")
    page.get_by_label("Kind of sink 1").select_option("http")
    text = page.get_by_label("Sink 1 as JSON")
    text.fill('{"http": {"ur": "https://example.com"}}')
    text.blur()
    expect(page.get_by_role("region", name="Sinks").get_by_role("alert")).to_contain_text("ur")
    page.get_by_placeholder("Name", exact=True).fill("told_by_http")
    expect(page.get_by_role("button", name="Review and create")).to_be_disabled()
    text.fill('{"http": {"url": "https://example.com"}}')
    text.blur()

    expect(page.get_by_role("button", name="Review and create")).to_be_enabled()


def test_records_are_forwarded_without_a_query(visit: Opened) -> None:
    one = visit()
    page = one.open("/new?kind=forward&streams=bookings", "New dagger")
    page.get_by_placeholder("Name", exact=True).fill("forwarded_in_a_page")
    page.get_by_label("Which records").fill("status = 'COMPLETED'")
    page.get_by_role("button", name="Add a column").click()
    page.get_by_label("Name of column 1").fill("order_number")
    page.get_by_label("Expression of column 1").fill("order_number")
    page.get_by_label("Kind of sink 1").select_option("kafka")
    page.get_by_role("textbox", name="Topic").fill("completed-orders")
    page.get_by_role("button", name="Review and create").click()

    expect(page.get_by_role("region", name="Plan")).to_contain_text("This creates forwarded_in_a_page")
