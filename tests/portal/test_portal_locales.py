"""Any language and time zone of a browser: pages open, and numbers and times are the viewer's."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from daggers.v1 import output_pb2
from playwright.sync_api import Browser, Page, expect
from tests.portal.answers import answer
from tests.portal.conftest import Visit
from tests.portal.portal_live import row

Opened = Callable[..., Visit]
DAGGER = "/daggers/completed_bookings"
NAMED = "Object.defineProperty(Navigator.prototype, {!r}, {{ get: () => {}, configurable: true }});"
UNUSUAL = ["en-US@posix", "C", "de_DE.UTF-8", "", "x"]
"""Names that systems give a language, and no browser may."""


@contextmanager
def open_window(chromium: Browser, site: str, script: str = "", **how: str) -> Iterator[Page]:
    """Open a window of a browser with these languages; fail if its console complains."""
    context = chromium.new_context(**how)  # type: ignore[arg-type] # locale and zone
    context.set_default_timeout(60_000)
    if script:
        context.add_init_script(script)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    end = time.time() // 60 * 60
    rows = [row(end - 60 * number, 1_234 + number) for number in range(1, 6)]
    page.route(
        re.compile("DaggerService/ReadRows"),
        lambda route: answer(route, [output_pb2.ReadRowsResponse(rows=rows)]),
    )
    page.goto(f"{site}{DAGGER}")
    page.get_by_role("heading", level=1, name="completed_bookings").wait_for()
    expect(page.locator(".chart canvas")).to_be_visible()
    expect(page.get_by_text("could not be loaded")).to_have_count(0)
    yield page
    context.close()
    assert errors == []


def test_a_browser_with_the_language_of_a_posix_process_shows_a_dagger(chromium: Browser, site: str) -> None:
    """Start without a language: it is then that of the process, which may be none."""
    with open_window(chromium, site) as page:
        expect(page.get_by_role("region", name="Newest rows")).to_contain_text("1,239")


@pytest.mark.parametrize("named", UNUSUAL)
def test_what_is_no_language_is_mended_in_one_place(chromium: Browser, site: str, named: str) -> None:
    script = NAMED.format("language", repr(named)) + NAMED.format("languages", f"[{named!r}]")
    with open_window(chromium, site, script, locale="en-GB") as page:
        expect(page.get_by_role("region", name="Newest rows")).to_contain_text(re.compile(r"1[.,]239"))


@pytest.mark.parametrize(
    ("locale", "zone", "number", "instant"),
    [
        ("de-DE", "Europe/Berlin", "1.239", r"\d+\. \w+\.? 20\d\d, \d\d:\d\d:\d\d (MEZ|MESZ|GMT)"),
        ("en-US", "America/New_York", "1,239", r"\w+ \d+, 20\d\d, \d\d:\d\d:\d\d\W[AP]M E[SD]T"),
        ("id-ID", "Asia/Jakarta", "1.239", r"\d+ \w+ 20\d\d, \d\d\.\d\d\.\d\d WIB"),
        ("ar-EG", "UTC", "١٬٢٣٩", ""),
        ("th-TH", "UTC", "1,239", ""),
        ("ja-JP", "UTC", "1,239", ""),
    ],
)
def test_numbers_times_and_zones_are_the_viewers(
    chromium: Browser, site: str, locale: str, zone: str, number: str, instant: str
) -> None:
    with open_window(chromium, site, locale=locale, timezone_id=zone) as page:
        expect(page.get_by_role("region", name="Newest rows")).to_contain_text(number)
        first = page.locator("section[aria-label=History] time").first
        expect(first).to_be_visible()
        assert re.search(instant, first.get_attribute("title") or "")
