"""The pages in a real browser: each screen in both schemes and sizes without a violation; what people do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Route, expect
from tests.portal.axe import violations
from tests.portal.conftest import ROOT, Visit
from tests.portal.portal_pages import ELSEWHERE, SCREENS, STUDIOS

Opened = Callable[..., Visit]


def test_every_address_of_the_pages_is_among_those_that_are_judged() -> None:
    """A screen that is added and not named here is one that nobody has looked at in the dark."""
    told = (ROOT / "services" / "portal" / "web" / "src" / "screens.ts").read_text()
    patterns = [found.replace("\\/", "/") for found in re.findall(r"\[/(\^.+?\$)/,", told)]
    judged = [path.partition("?")[0] for path, _ in (*SCREENS, *STUDIOS)] + ELSEWHERE
    unseen = [pattern for pattern in patterns if not any(re.match(pattern, path) for path in judged)]

    assert len(patterns) == told.count("import(") - 1  # and that of nowhere
    assert unseen == []


def test_no_screen_has_a_violation(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    found = {}
    for path, heading in SCREENS:
        page = one.open(path, heading)
        expect(page.get_by_text("Reading", exact=False)).to_have_count(0)
        found[path] = violations(page, packages)

    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_a_dagger_is_found_and_opened_by_keys_alone(visit: Opened) -> None:
    one = visit()
    page = one.open("/", "Daggers")
    expect(page.get_by_role("link", name="completed_bookings")).to_be_visible()
    page.get_by_role("searchbox").focus()
    page.keyboard.type("supply")
    expect(page.get_by_role("link", name="completed_bookings")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?text=supply$"))
    page.get_by_role("link", name="driver_supply").focus()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1, name="driver_supply")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("supply")


def test_a_dagger_is_stopped_after_a_second_look_and_the_page_follows(visit: Opened) -> None:
    one = visit()
    page = one.open("/daggers/driver_supply", "driver_supply")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Let it run").click()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop it").click()

    expect(page.get_by_role("region", name="History").get_by_text("stop requested")).to_be_visible()


def test_what_was_set_aside_is_chosen_read_and_discarded(visit: Opened) -> None:
    one = visit()
    page = one.open("/daggers/completed_bookings?tab=quarantine", "completed_bookings")
    page.get_by_role("button", name="NOT_PROTOBUF").click()
    page.get_by_role("button", name="booking-log 0:2").click()
    expect(page.get_by_role("region", name="The record")).to_contain_text("ff fe")
    expect(page.get_by_role("button", name="Discard these")).to_be_disabled()
    page.get_by_label("Why they are discarded").fill("sent by a test")
    page.get_by_role("button", name="Discard these").click()

    expect(page.get_by_text("No record is quarantined.")).to_be_visible(timeout=60_000)


def test_tabs_go_by_arrows_and_stand_in_the_address(visit: Opened) -> None:
    one = visit()
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    page.get_by_role("tab", name="Live").focus()
    page.keyboard.press("ArrowLeft")

    expect(page.get_by_role("tab", name="Query")).to_be_focused()
    expect(page).to_have_url(re.compile(r"\?tab=query$"))
    expect(page.get_by_text("TUMBLE_END(rowtime")).to_be_visible()


def test_a_dagger_that_is_not_there_is_told_as_such(visit: Opened) -> None:
    one = visit()
    one.refused = {404}
    page = one.open("/daggers/no_such_dagger", "no_such_dagger")

    expect(page.get_by_role("alert").first).to_contain_text("This is not there")


def test_what_is_refused_is_told_and_is_not_an_empty_list(visit: Opened) -> None:
    one = visit()
    one.refused = {403}

    def refuse(route: Route) -> None:
        told = '{"code": "permission_denied", "message": "user:bob is in no team: an owner takes him in"}'
        route.fulfill(status=403, body=told, content_type="application/json")

    one.page.route(re.compile("CatalogService/ListStreams"), refuse)
    page = one.open("/streams", "Streams")

    expect(page.get_by_role("alert")).to_contain_text("user:bob is in no team")
    expect(page.get_by_text("No stream is registered")).to_have_count(0)


def test_the_scheme_that_somebody_chose_stays(visit: Opened) -> None:
    one = visit()
    page = one.open("/", "Daggers")
    page.get_by_role("button", name="Light or dark").click()
    page.reload()

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
