"""The pages by keys alone: past the menu, through the studio as it is read, out of the editor."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from tests.portal.conftest import Visit
from tests.portal.portal_studio import START, completing

Opened = Callable[..., Visit]
MOST_STOPS = 80
FOCUSED = """() => {
  const at = document.activeElement;
  const label = at.labels?.[0]?.innerText ?? at.placeholder;
  return (at.getAttribute("aria-label") || label || at.innerText || "").trim().split("\\n")[0];
}"""


def stops(page: Page, last: str) -> list[str]:
    """What has the focus after each Tab, until that is `last`."""
    seen: list[str] = []
    while len(seen) < MOST_STOPS and last not in seen:
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
    return seen


def test_the_first_stop_leads_past_the_menu(visit: Opened) -> None:
    one = visit()
    page = one.open("/", "Daggers")
    expect(page.get_by_role("link", name="completed_bookings")).to_be_visible()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")

    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    expect(page).to_have_url(re.compile(r"/(#main)?$"))


def test_the_studio_is_walked_in_the_order_in_which_it_is_read(visit: Opened) -> None:
    one = visit()
    page = one.open(START, "New dagger")
    expect(page.get_by_text("rowtime", exact=True)).to_be_visible()
    page.get_by_role("main").focus()
    seen = stops(page, "Kind of sink 1")
    read = ["Name", "Share", "Preview", "Protobuf message", "Query", "Findings", "Kind of sink 1"]

    assert [stop for stop in dict.fromkeys(seen) if stop in read] == read
    assert "" not in seen  # whatever has the focus says what it is


def test_escape_and_tab_leave_the_editor(visit: Opened) -> None:
    page = visit().open(START, "New dagger")
    completing(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)
    page.keyboard.press("Tab")
    editor = page.get_by_role("textbox", name="Query")
    expect(editor).not_to_be_focused()
    expect(page.locator(".cm-content")).to_have_text("SELECT vehicle_")
    page.keyboard.press("Shift+Tab")

    expect(editor).to_be_focused()
