"""No page is a dead end: whatever it shows, something can be done next without the menu."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.portal.conftest import Visit, quarantine, serving_site, visiting
from tests.portal.portal_pages import ELSEWHERE, SCREENS, STUDIOS

FILLED = [path for path, _ in (*SCREENS, *STUDIOS)] + ELSEWHERE
PATIENCE_S = 20
"""Seconds that a page may read before it has something to offer; a page that has it waits no longer."""
EMPTY = [
    "/", "/alerts", "/silences", "/routes", "/audit", "/streams", "/schemas", "/clusters", "/teams", "/sinks",
    "/references", "/archive", "/new", "/new?kind=forward", "/new/stream", "/new/schema", "/new/sink",
    "/new/cluster", "/new/reference", "/new/team", "/new/silence", "/nothing",
]  # fmt: skip
"""Addresses that are there where nothing is registered."""

# Links to other pages and buttons that can be pressed, but the way back and what reads the page again.
_STEPS = """
() => [...document.querySelectorAll("main :is(a[href], button, input:not([type=search]), select, textarea)")]
  .filter(each => !each.disabled && each.checkVisibility() && !each.closest("nav"))
  .filter(each => each.tagName !== "A" || each.pathname + each.search !== location.pathname + location.search)
  .map(each => (each.textContent || each.labels?.[0]?.textContent || each.ariaLabel || "").trim())
  .filter(text => !["Try again", "Again"].includes(text))
"""


@pytest.fixture(scope="module")
def empty_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a portal whose gateway knows nothing; give its address."""
    with serving_site(tmp_path_factory.mktemp("empty"), quarantine, filled=False) as address:
        yield address


@pytest.fixture
def visit_empty(chromium: Browser, empty_site: str) -> Iterator[Callable[..., Visit]]:
    """Opens a window before that portal."""
    yield from visiting(chromium, empty_site)


def dead_ends(one: Visit, paths: list[str]) -> list[str]:
    """List the addresses whose pages leave nothing to do."""
    return [path for path in paths if not next_steps(one.page, f"{one.site}{path}")]


def next_steps(page: Page, address: str) -> list[str]:
    """List what can be done next; nothing where nothing has come for a while."""
    page.goto(address)
    page.get_by_role("heading", level=1).wait_for()
    end = time.monotonic() + PATIENCE_S
    steps: list[str] = []
    while not steps and time.monotonic() < end:
        steps = page.evaluate(_STEPS)
        page.wait_for_timeout(100)
    return steps


def test_each_page_has_a_next_step(visit: Callable[..., Visit]) -> None:
    one = visit()
    one.refused = {404}  # of ELSEWHERE: what has no rows yet

    assert dead_ends(one, FILLED) == []


def test_each_page_has_a_next_step_where_nothing_is_registered(visit_empty: Callable[..., Visit]) -> None:
    assert dead_ends(visit_empty(), EMPTY) == []


@pytest.mark.parametrize(
    ("path", "step", "heading"),
    [
        ("/schemas", "New schema", "New schema"),
        ("/streams", "Begin with .proto files", "New schema"),
        ("/new", "Begin with .proto files", "New schema"),
    ],
)
def test_who_has_nothing_is_led_to_the_first_schema(
    visit_empty: Callable[..., Visit], path: str, step: str, heading: str
) -> None:
    one = visit_empty()
    one.page.goto(f"{one.site}{path}")
    one.page.get_by_role("main").get_by_role("link", name=step).click()

    expect(one.page.get_by_role("heading", level=1, name=heading)).to_be_visible()


@pytest.mark.parametrize("path", ["/streams", "/streams/bookings", "/schemas?message=examples.v1.Booking"])
def test_a_registered_stream_leads_to_a_dagger_on_it(visit: Callable[..., Visit], path: str) -> None:
    one = visit()
    one.page.goto(f"{one.site}{path}")
    one.page.get_by_role("main").get_by_role("link", name="New dagger").click()

    expect(one.page.get_by_role("heading", level=1, name="New dagger")).to_be_visible()
    expect(one.page.get_by_role("checkbox", name="bookings")).to_be_checked()
    expect(one.page.locator(".cm-content")).to_contain_text("status AS tag_status")
