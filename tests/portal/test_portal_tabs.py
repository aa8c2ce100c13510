"""Few streams: one for each page that somebody sees, none for a page that nobody sees."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, Request, expect
from tests.portal.conftest import Visit

from portal.bridge import STREAM

Opened = Callable[..., Visit]
CONNECTIONS = 6
"""What browsers open to a host that speaks HTTP/1.1."""


def following(page: Page) -> list[Request]:
    """The streams that the page has open; asked of its browser from now on."""
    held: list[Request] = []
    page.on("request", lambda told: told.headers.get("content-type") == STREAM and held.append(told))
    for end in ("requestfinished", "requestfailed"):
        page.on(end, lambda told: told in held and held.remove(told))
    return held


def look(page: Page, seen: bool) -> None:
    """Tell the page that it is seen or not: a browser without windows has no tab in front."""
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        not seen,
    )


def test_tabs_that_are_open_leave_room_for_a_call(visit: Opened) -> None:
    """All connections but one are streams of tabs: with two for each, the third tab would wait for ever."""
    first = visit()
    tabs = [first, *(visit(beside=first) for _ in range(CONNECTIONS - 2))]
    for tab in tabs:
        held = following(tab.page)
        page = tab.open("/", "Daggers")
        expect(page.get_by_role("link", name="completed_bookings")).to_be_visible()
        assert [each.url.rpartition("/")[2] for each in held] == ["WatchVitals"]
    page = tabs[-1].page
    page.get_by_role("link", name="Streams").click()

    expect(page.get_by_role("row").filter(has_text="booking-log")).to_contain_text("bookings")


def test_a_tab_that_nobody_sees_ends_its_stream_and_comes_back_with_what_was_missed(visit: Opened) -> None:
    one = visit()
    one.page.clock.install()
    held = following(one.page)
    page = one.open("/", "Daggers")
    card = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="driver_supply"))
    expect(card).to_contain_text("influx driver_supply")
    (stream,) = held
    look(page, seen=False)
    page.clock.fast_forward(29_000)
    assert held == [stream]
    with page.expect_event("requestfailed", lambda told: told == stream):
        page.clock.fast_forward(2_000)
    other = visit()
    elsewhere = other.open("/daggers/driver_supply/edit", "Edit driver_supply")
    elsewhere.get_by_label("Measurement").fill("changed_meanwhile")
    elsewhere.get_by_role("button", name="Review", exact=True).click()
    elsewhere.get_by_role("button", name="Apply driver_supply").click()
    expect(elsewhere.get_by_role("region", name="Steps")).to_contain_text("✓ Accepted")
    expect(card).to_contain_text("influx driver_supply")
    look(page, seen=True)

    expect(card).to_contain_text("influx changed_meanwhile")
    assert [each.url.rpartition("/")[2] for each in held] == ["WatchVitals"]
