"""Pages in a real Chromium, for benches: windows that are let in, script of a frame, bars."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import httpx
import repository  # noqa: F401 - finds tests/
from google.protobuf.message import Message
from playwright.sync_api import Browser, CDPSession, Page
from tests.portal.answers import answer

WITHIN_MS = 60_000
SCRIPT = ("ScriptDuration",)
MAIN_THREAD = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
"""Times that the browser counts: of scripts alone, and of what a frame takes of its main thread."""
_ONE_FRAME = "() => new Promise(requestAnimationFrame)"
_TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Bars:
    """Counts the bars that are missed, and prints what was measured beside each."""

    def __init__(self) -> None:
        self.missed = 0

    def at_most(self, name: str, value: float, bar: float, unit: str) -> None:
        """Print a value of a unit and whether it is within its bar."""
        self.missed += value > bar
        verdict = "ok" if value <= bar else "missed"
        print(f"{name}: {value:.3g} {unit} (bar {bar:g} {unit}) {verdict}", flush=True)


@contextmanager
def visit(chromium: Browser, key: str) -> Iterator[Page]:
    """Open a window of its own that is let in: nothing is cached."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    page.goto(key)
    page.get_by_role("heading", level=1).wait_for()
    yield page
    context.close()


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile; of few values the greatest."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


def measure_frames(
    page: Page, runs: int, act: Callable[[int], object], frames: int = 0, counted: Sequence[str] = SCRIPT
) -> Iterator[float]:
    """Yield the ms of what is counted, for each act and two frames behind it or for each of many frames."""
    page.evaluate(_TWO_FRAMES)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    for number in range(runs):
        before = _count_seconds(session, counted)
        act(number)
        for _ in range(frames or 1):
            page.evaluate(_ONE_FRAME if frames else _TWO_FRAMES)
            now = _count_seconds(session, counted)
            yield (now - before) * 1000
            before = now


def _count_seconds(session: CDPSession, counted: Sequence[str]) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return sum(float(each["value"]) for each in metrics if each["name"] in counted)


def load(page: Page, path: str, there: str) -> float:
    """Load a page with an empty cache; return the seconds until an element is there."""
    target = url_of(page, path)
    session = page.context.new_cdp_session(page)
    session.send("Network.clearBrowserCache")
    page.goto("about:blank")
    begin = time.monotonic()
    page.goto(target, wait_until="commit")
    page.locator(there).first.wait_for()
    return time.monotonic() - begin


def replace_answers(page: Page, method: str, steps: Sequence[Message]) -> None:
    """Answer a stream of the gateway's with these messages."""
    page.route(re.compile(f"DaggerService/{method}"), lambda route: answer(route, steps))


def url_of(page: Page, path: str) -> str:
    """Return the address of a path on the page's site."""
    return str(httpx.URL(page.url).join(path))


def await_editor(page: Page) -> None:
    """Wait until the studio has its editor."""
    page.locator(".cm-content").wait_for()


def write_query(page: Page, text: str) -> None:
    """Write another query, by keys, until it was checked."""
    await_editor(page)
    page.get_by_role("textbox", name="Query").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    page.get_by_text("Checking …").wait_for(state="detached")
