"""A phone, keys alone, and eyes: all is reachable, and each state passes axe and the checklist."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Route, expect
from tests.portal.axe import CHECKLIST, violations
from tests.portal.conftest import Visit
from tests.portal.portal_pages import SCREENS, STUDIOS

Opened = Callable[..., Visit]
PHONE: Final = {"width": 360, "height": 740}
STATES: Final = ("loading", "empty", "error")
_LISTS: Final = [
    ("/", "Daggers"),
    ("/daggers/completed_bookings", "completed_bookings"),
    ("/daggers/completed_bookings?tab=quarantine", "completed_bookings"),
    ("/daggers/completed_bookings?tab=alerts", "completed_bookings"),
    ("/daggers/completed_bookings?tab=rules", "completed_bookings"),
    ("/daggers/completed_bookings?tab=revisions", "completed_bookings"),
    ("/alerts", "Alerts"),
    ("/silences", "Silences"),
    ("/routes", "Routes of alerts"),
    ("/routes/pricing", "pricing"),
    ("/streams", "Streams"),
    ("/schemas", "Schemas"),
    ("/sinks", "Sinks"),
    ("/archive", "Archive"),
    ("/clusters", "Clusters"),
    ("/references", "Reference tables"),
    ("/teams", "Teams"),
    ("/teams/pricing", "pricing"),
    ("/audit", "Audit"),
    ("/hosts", "Hosts"),
    ("/hosts/a", "a"),
    ("/streams/bookings", "bookings"),
    ("/clusters/local", "local"),
    ("/sinks/archive", "archive"),
    ("/new/silence", "New silence"),
    ("/new/stream?of=completed_bookings", "Offer as stream"),
    ("/daggers/completed_bookings?tab=log", "completed_bookings"),
    ("/daggers/completed_bookings/map", "completed_bookings"),
    ("/daggers/completed_bookings/edit", "Edit completed_bookings"),
]
_CALL: Final = re.compile(r"/api/daggers\.v1\.(?!AccessService/WhoAmI)")


def test_a_finger_and_a_key_reach_what_a_word_means(visit: Opened) -> None:
    one = visit()
    one.page.set_viewport_size(PHONE)
    page = one.open("/daggers/completed_bookings?tab=quarantine", "completed_bookings")
    word = page.locator("abbr", has_text="quarantine")
    shown = "each => getComputedStyle(each, '::after').content"
    assert word.evaluate(shown) == "none"
    word.focus()
    assert word.evaluate(shown).strip('"') == word.get_attribute("title")
    assert page.evaluate(CHECKLIST) == []


def test_log_out_the_scheme_and_each_page_are_reached_on_a_phone(visit: Opened) -> None:
    one = visit()

    def with_provider(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "asked": "provider"})

    one.page.route(re.compile("/auth/me"), with_provider)
    one.page.set_viewport_size(PHONE)
    page = one.open("/", "Daggers")
    menu = page.get_by_role("navigation", name="Main")
    expect(menu.get_by_role("link", name="Teams")).to_have_count(0)
    menu.get_by_role("button", name="More").click()
    expect(menu.get_by_role("button", name="Log out")).to_be_visible()
    assert page.evaluate(CHECKLIST) == []
    menu.get_by_role("button", name="Light or dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    for name in ("Sinks", "Archive", "Clusters", "Teams", "Audit"):
        expect(menu.get_by_role("link", name=name)).to_be_visible()
    menu.get_by_role("link", name="Teams").click()

    expect(page.get_by_role("heading", level=1, name="Teams")).to_be_visible()
    expect(menu.get_by_role("button", name="Log out")).to_be_hidden()


def test_no_page_is_cut_or_moved_aside_on_a_phone(visit: Opened) -> None:
    """Walk all pages that are full at 360 px; those in other states are judged by the same checklist."""
    one = visit()
    one.page.set_viewport_size(PHONE)
    found = {}
    for path, heading in (*SCREENS, *STUDIOS):
        page = one.open(path, heading)
        expect(page.get_by_text("Reading", exact=False)).to_have_count(0)
        page.wait_for_timeout(200)  # what comes beside: sizes, rates
        found[path] = page.evaluate(CHECKLIST)

    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_a_row_of_a_table_is_a_card_on_a_phone_with_the_heads_of_its_cells(visit: Opened) -> None:
    one = visit()
    one.page.set_viewport_size(PHONE)
    page = one.open("/streams", "Streams")
    cells = page.get_by_role("region", name="Streams").locator("tbody td")
    expect(cells.first).to_have_text("bookings")
    heads = cells.evaluate_all(
        "cells => cells.map(cell => getComputedStyle(cell, '::before').content.replaceAll('\"', ''))"
    )
    edges = cells.evaluate_all("cells => cells.map(cell => cell.getBoundingClientRect().right)")

    assert heads == ["none", "Cluster", "Topics", "Message", "Event time", "Sensitive", "Written by", "Next"]
    assert max(edges) <= PHONE["width"]


def test_the_palette_leads_by_keys_to_a_page_a_dagger_and_a_stream(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    page = one.open("/", "Daggers")
    for text, heading in (
        ("clust", "Clusters"),
        ("supply", "driver_supply"),
        ("bookings stream", "bookings"),
    ):
        page.keyboard.press("Control+k")
        box = page.get_by_role("combobox", name="Go to a page")
        expect(box).to_be_focused()
        page.keyboard.type(text)
        expect(page.locator("[role=option][aria-selected=true]")).to_contain_text(heading)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option")).not_to_have_count(0)
    assert violations(page, packages) == []
    page.keyboard.type("there is no such thing")
    expect(page.get_by_text("Nothing has this name.")).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_have_count(0)


def _stay(state: str) -> Callable[[Route], None]:
    """Return what answers calls in a state: nobody, an answer with nothing in it, or an error."""

    def answer(route: Route) -> None:
        stream = "connect+proto" in (route.request.headers.get("content-type") or "")
        if state == "empty" and stream:
            end = json.dumps({}).encode()
            empty = bytes(5) + bytes([2]) + len(end).to_bytes(4) + end
            route.fulfill(status=200, body=empty, content_type="application/connect+proto")
        elif state == "empty":
            route.fulfill(status=200, body=b"", content_type="application/proto")
        elif state == "error":
            error = json.dumps({"code": "internal", "message": "it failed, and `daggers logs x` says why"})
            route.fulfill(status=500, body=error, content_type="application/json")

    return answer


@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing_in_any_state(visit: Opened, packages: Path, state: str) -> None:
    """Full pages are judged in test_portal_pages.py, by the same rules."""
    one = visit(axe=True)
    one.refused = {500}
    one.page.route(_CALL, _stay(state))
    found = {}
    # No gateway answers about one thing with nothing.
    pages = [entry for entry in _LISTS if state != "empty" or entry[0].count("/") == 1]
    for path, heading in pages:
        page = one.open(path, heading)
        if state == "loading":
            expect(page.get_by_role("status").first).to_be_attached()
        elif state == "error":
            expect(page.get_by_role("alert").first).to_be_visible()
        else:
            expect(page.get_by_text("Reading", exact=False)).to_have_count(0)
        found[path] = violations(page, packages)
        assert "`daggers" not in page.locator("main").inner_text()

    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_nothing_moves_for_who_wants_no_motion(visit: Opened) -> None:
    """Ask for reduced motion: no element has any, nor what stands before and after it."""
    one = visit()
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    moving = """() => [...document.querySelectorAll("*")].flatMap(each =>
        [null, "::before", "::after"].map(part => {
      const style = getComputedStyle(each, part);
      return [style.animationName, style.transitionDuration, style.scrollBehavior].join();
    })).filter(each => !/^none,0s,auto$/.test(each))"""
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()

    assert page.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches")
    assert page.evaluate(moving) == []
    assert page.evaluate("document.getAnimations().length") == 0
