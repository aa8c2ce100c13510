"""What the pages take, in a real Chromium before a real stack; ends with 1 when a bar is missed.

    .venv/bin/python bench/pages.py [--runs K]

A line for each: `NAME: value (bar B) ok|missed`. Loads begin with an empty cache. Script is the browser's own
count of the time that scripts took for a frame; how many frames there are depends on the machine and is not
judged. An event is a dagger that is created by the API; it is seen when its card is drawn. Previews, and the
dagger that is made, are the seed query over 300,000 bookings in 4 partitions.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import dagger
import grpc
import httpx
import psutil
import repository  # noqa: F401 - finds tests/
import s2sphere
import workload
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, output_pb2, preview_pb2, spec_pb2
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from machine import header
from playwright.sync_api import Browser, CDPSession, Page
from stack import Stack, stack
from tests.portal import browser
from tests.portal.answers import answer

from portal.bridge import STREAM

RECORDS, SECONDS = 300_000, 360
CITIES, WINDOWS = 6, 900
GRID_ROWS = 10_000
CELLS, CELL_LEVEL, MAPPED_WINDOWS = 44_000, 13, 4
TRACED = 12  # frames, in which the outlines of a window become paths
WATCHERS, WATCHED_S, EVENTS_A_SECOND = 100, 20, 10
STUDIO = f"/new?message={workload.MESSAGE}&streams={dagger.TOPIC}&cluster=local"
NAME, FIELDS = "seed_in_a_page", ("orders", "more")
WITHIN_MS = 60_000
_NOTHING = bytes(5)  # the envelope of a request that says nothing

# When the page has something of a kind: milliseconds since 1970. Asked before that is so.
_SEEN = """([selector, text]) => new Promise(seen => {
  const there = () => [...document.querySelectorAll(selector)].some(each => each.textContent.includes(text));
  const look = () => there() && (watch.disconnect(), requestAnimationFrame(() => seen(at())));
  const at = () => performance.timeOrigin + performance.now();
  const watch = new MutationObserver(look);
  watch.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
  look();
})"""
_ONE_FRAME = "() => new Promise(requestAnimationFrame)"
_TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Bars:
    """What was measured, beside what it may be."""

    def __init__(self) -> None:
        self.missed = 0

    def at_most(self, name: str, value: float, bar: float, unit: str) -> None:
        """Print a value of a unit and whether it is within its bar."""
        self.missed += value > bar
        told = "ok" if value <= bar else "missed"
        print(f"{name}: {value:.3g} {unit} (bar {bar:g} {unit}) {told}", flush=True)


def main() -> None:
    """Print a line for each number."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--runs", type=int, default=20, help="how often each is measured")
    runs: int = arguments.parse_args().runs
    print(header("playwright", "starlette", "uvicorn"), flush=True)
    bars = Bars()
    with stack() as on, browser.chromium() as chromium:
        dagger.prepare(on)
        start = int(time.time()) - SECONDS  # the chart shows a quarter of an hour
        workload.fill(on.kafka, dagger.TOPIC, RECORDS, start=start, rate=RECORDS // SECONDS)
        key = on.daggers("local", "status")["portal"]["url"]
        with visit(chromium, key) as page:
            bars.at_most("from /new to rows on the chart", _production(page), 120, "s")
            bars.at_most("preview, press to first row, p95", p95(_previews(page, runs // 2)), 2, "s")
        on.end("scheduler")  # what is created from now on is shown, and not launched
        bars.at_most("first load of /, p95", p95(_loads(chromium, key, "/", f"text={NAME}", runs)), 1, "s")
        bars.at_most(
            "first load of /new, p95", p95(_loads(chromium, key, STUDIO, ".cm-content", runs)), 1.5, "s"
        )
        with visit(chromium, key) as page:
            bars.at_most("keystroke to finding, p95", p95(_findings(page, runs)) * 1000, 250, "ms")
            bars.at_most("chart of 6 x 900, script of a frame, p95", p95(_chart(page, 3 * runs)), 8, "ms")
            bars.at_most("grid of 10,000 rows, script of a frame, p95", p95(_grid(page, 3 * runs)), 8, "ms")
            for what, took in _map(page, 3 * runs):
                bars.at_most(f"map of 44,000 cells, {what}, script of a frame, p95", p95(took), 16, "ms")
            bars.at_most("event to pixel, p95", p95(_events(page, on, runs)) * 1000, 300, "ms")
        cores, grown = _watched(on, key)
        bars.at_most("100 watchers of 10 events/s", cores * 100, 15, "% of a core")
        bars.at_most("100 watchers, memory", grown, 100, "MiB")
    sys.exit(bool(bars.missed))


@contextmanager
def visit(chromium: Browser, key: str) -> Iterator[Page]:
    """A window of its own that is let in: nothing is cached."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    page.goto(key)
    page.get_by_role("heading", level=1).wait_for()
    yield page
    context.close()


def p95(values: Sequence[float]) -> float:
    """The 95th percentile; of few values the greatest."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


def _production(page: Page) -> float:
    """Seconds from the empty form to a line of the chart."""
    begin = time.monotonic()
    page.goto(_url(page, STUDIO))
    _write(page, dagger.SQL.replace("data_stream", dagger.TOPIC))
    page.get_by_placeholder("Name", exact=True).fill(NAME)
    page.locator("summary", has_text=dagger.TOPIC).click()
    page.get_by_label("Begins with").select_option("all that is there")
    page.get_by_role("button", name="Review and create").click()
    page.get_by_role("button", name=f"Create {NAME}").click()
    page.get_by_role("link", name=f"Open {NAME}").click()
    page.locator(".legend span").first.wait_for(timeout=180_000)
    return time.monotonic() - begin


def _previews(page: Page, runs: int) -> list[float]:
    """Seconds from the press to the first row in the page, once a process is there that previews."""
    page.goto(_url(page, STUDIO))
    _write(page, dagger.SQL)
    took = []
    for _ in range(runs + 2):
        press = page.get_by_role("button", name="Preview").first
        press.wait_for()
        begin = time.time()
        press.click()
        seen = page.evaluate(_SEEN, ["tbody td", ""])
        took.append(seen / 1000 - begin)
        page.get_by_role("button", name="Run again").wait_for()
        page.reload()
        _editor(page)
    return took[2:]


def _loads(chromium: Browser, key: str, path: str, there: str, runs: int) -> Iterator[float]:
    """Seconds from asking for a page to what it is for."""
    for _ in range(runs):
        with visit(chromium, key) as page:
            at = _url(page, path)
            session = page.context.new_cdp_session(page)
            session.send("Network.clearBrowserCache")
            page.goto("about:blank")
            begin = time.monotonic()
            page.goto(at, wait_until="commit")
            page.locator(there).first.wait_for()
            yield time.monotonic() - begin


def _findings(page: Page, runs: int) -> Iterator[float]:
    """Seconds from a key to the line below what is wrong."""
    page.goto(_url(page, STUDIO))
    _write(page, f"SELECT order_number FROM `{dagger.TOPIC}`")
    wrong = page.locator(".cm-lintRange-error")
    for _ in range(runs):
        wrong.first.wait_for(state="detached")
        page.keyboard.press("Control+Home")
        for _ in "SELECT ":
            page.keyboard.press("ArrowRight")
        begin = time.time()
        page.keyboard.press("x")
        seen = page.evaluate(_SEEN, [".cm-lintRange-error", "xorder_number"])
        yield seen / 1000 - begin
        page.keyboard.press("Backspace")


def _chart(page: Page, runs: int) -> list[float]:
    """Milliseconds of script for each frame in which all lines are summed and drawn anew."""
    end = int(time.time())
    rows = [_row(end - at, city, at + city) for at in range(WINDOWS) for city in range(CITIES)]
    _answered(page, "ReadRows", [output_pb2.ReadRowsResponse(rows=rows)])
    page.goto(_url(page, f"/daggers/{NAME}"))
    field = page.get_by_label("Field")
    field.wait_for()
    return list(_scripts(page, runs, lambda number: field.select_option(FIELDS[(number + 1) % 2])))


def _grid(page: Page, runs: int) -> list[float]:
    """Milliseconds of script for each frame in which a grid is scrolled by a page."""
    rows = [_row(at, at, at) for at in range(GRID_ROWS)]
    done = preview_pb2.PreviewDone(reason="REASON_ROW_LIMIT", records=GRID_ROWS, rows=GRID_ROWS)
    steps = [
        gateway_pb2.PreviewDaggerResponse(rows=preview_pb2.PreviewRows(rows=rows)),
        gateway_pb2.PreviewDaggerResponse(done=done),
    ]
    _answered(page, "PreviewDagger", steps)
    page.goto(_url(page, STUDIO))
    _editor(page)
    page.get_by_role("button", name="Preview").first.click()
    grid = page.get_by_role("region", name="Rows of the preview")
    grid.wait_for()
    scroll = "(grid, number) => { grid.scrollTop = number * 300; }"
    return list(_scripts(page, runs, lambda number: grid.evaluate(scroll, number + 1)))


def _map(page: Page, runs: int) -> Iterator[tuple[str, list[float]]]:
    """What one does with a map, and milliseconds of script for each frame of that."""
    around = s2sphere.CellId.from_lat_lng(s2sphere.LatLng.from_degrees(-6.2, 106.82)).parent(5)
    first = around.child_begin(CELL_LEVEL)
    ids = [first.id() + number * (first.lsb() << 1) for number in range(CELLS)]
    end = int(time.time()) // 60 * 60
    rows = [_cell(end - 60 * at, cell, at + cell) for at in range(MAPPED_WINDOWS) for cell in ids]
    steps = [output_pb2.ReadRowsResponse(rows=rows[at : at + 5_000]) for at in range(0, len(rows), 5_000)]
    _answered(page, "ReadRows", steps)
    page.route(re.compile("DaggerService/WatchRows"), lambda _: None)  # nothing is new
    page.goto(_url(page, f"/daggers/{NAME}/map"))
    page.get_by_role("heading", name=f"{CELLS:,} cells").wait_for()
    box = page.get_by_role("application").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    aside = (60, -60, -60, 60)
    yield (
        "moved",
        list(_scripts(page, runs, lambda number: page.mouse.move(middle[0] + aside[number % 4], middle[1]))),
    )
    page.mouse.up()
    yield "zoomed", list(_scripts(page, runs, lambda number: page.mouse.wheel(0, (-120, 120)[number % 2])))
    page.get_by_role("slider", name="Window").focus()
    keys = ("Home", "ArrowRight", "ArrowRight", "End")
    slide = _scripts(page, runs, lambda number: page.keyboard.press(keys[number % 4]), TRACED)
    yield "another window", list(slide)


def _scripts(page: Page, runs: int, act: Callable[[int], object], frames: int = 0) -> Iterator[float]:
    """What scripts took, in ms, for each act and the two frames behind it; or for each of so many frames."""
    page.evaluate(_TWO_FRAMES)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    for number in range(runs):
        before = _script(session)
        act(number)
        for _ in range(frames or 1):
            page.evaluate(_ONE_FRAME if frames else _TWO_FRAMES)
            now = _script(session)
            yield (now - before) * 1000
            before = now


def _script(session: CDPSession) -> float:
    told = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in told if one["name"] == "ScriptDuration")


def _events(page: Page, on: Stack, runs: int) -> Iterator[float]:
    """Seconds from a call that creates a dagger to its card."""
    page.goto(_url(page, "/"))
    page.get_by_role("link", name=NAME).wait_for()
    with _creating(on) as create, ThreadPoolExecutor() as beside:
        for number in range(runs):
            name = f"event-{number}"
            asked = beside.submit(create, name, 0.1)
            seen = page.evaluate(_SEEN, ["a", name])
            yield seen / 1000 - asked.result()


def _watched(on: Stack, key: str) -> tuple[float, float]:
    """Cores of the portal while so many follow what the list does, and MiB that it grew by."""
    [found] = [each for each in on.daggers("local", "status")["processes"] if each["name"] == "portal"]
    portal = psutil.Process(found["pid"])
    before = portal.memory_info().rss
    with _creating(on) as create, ThreadPoolExecutor() as beside:
        watching = beside.submit(asyncio.run, _watch(key, WATCHED_S + 5))
        time.sleep(5)
        begin, spent = time.monotonic(), sum(portal.cpu_times()[:2])
        for number in range(WATCHED_S * EVENTS_A_SECOND):
            create(f"watched-{number}", max(0.0, begin + number / EVENTS_A_SECOND - time.monotonic()))
        cores = (sum(portal.cpu_times()[:2]) - spent) / (time.monotonic() - begin)
        grown = (portal.memory_info().rss - before) / 2**20
        least = min(watching.result())
    if least < WATCHED_S * EVENTS_A_SECOND / 2:
        raise SystemExit(f"one who watched was sent {least} messages")
    return cores, grown


async def _watch(key: str, seconds: float) -> list[int]:
    """How many messages each of so many got who watch through the portal."""
    headers = {"content-type": STREAM, "sec-fetch-site": "same-origin"}
    address = httpx.URL(key)

    async def one(client: httpx.AsyncClient) -> int:
        got = 0
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(seconds),
                client.stream(
                    "POST", "/api/daggers.v1.DaggerService/WatchVitals", content=_NOTHING, headers=headers
                ) as told,
            ):
                told.raise_for_status()
                async for _ in told.aiter_raw():
                    got += 1
        return got

    limits = httpx.Limits(max_connections=None)
    base = f"{address.scheme}://{address.netloc.decode()}"
    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=None) as client:
        (await client.get(key, follow_redirects=True)).raise_for_status()
        return await asyncio.gather(*(one(client) for _ in range(WATCHERS)))


@contextmanager
def _creating(on: Stack) -> Iterator[Callable[[str, float], float]]:
    """Creates a dagger after some seconds, and says when it was asked for, in seconds since 1970."""
    with grpc.insecure_channel(on.gateway) as channel:
        stub = gateway_pb2_grpc.DaggerServiceStub(channel)

        def create(name: str, after: float) -> float:
            time.sleep(after)
            spec = spec_pb2.DaggerSpec(cluster="local", team="bench", sql=dagger.SQL)
            spec.streams.add(stream=dagger.TOPIC, table="data_stream")
            spec.sinks.add(log=spec_pb2.LogSink())
            request = gateway_pb2.CreateDaggerRequest(name=name, spec=spec)
            begin = time.time()
            stub.CreateDagger(request, timeout=60, metadata=on.bearer)
            return begin

        yield create


def _row(second: int, city: int, orders: int) -> output_pb2.Row:
    """A row of a window, with two fields."""
    fields = [output_pb2.RowField(name=name, integer=orders) for name in FIELDS]
    return output_pb2.Row(time=Timestamp(seconds=second), tags={"city": f"city {city}"}, fields=fields)


def _cell(second: int, cell: int, orders: int) -> output_pb2.Row:
    """A row of a window and a cell of S2, whose id is signed."""
    signed = cell - (1 << 64) if cell >> 63 else cell
    field = output_pb2.RowField(name="orders", integer=orders % 1_000)
    return output_pb2.Row(time=Timestamp(seconds=second), tags={"s2id": str(signed)}, fields=[field])


def _answered(page: Page, method: str, steps: Sequence[Message]) -> None:
    page.route(re.compile(f"DaggerService/{method}"), lambda route: answer(route, steps))


def _url(page: Page, path: str) -> str:
    return str(httpx.URL(page.url).join(path))


def _editor(page: Page) -> None:
    page.locator(".cm-content").wait_for()


def _write(page: Page, text: str) -> None:
    """Write another query, by keys, until it was checked."""
    _editor(page)
    page.get_by_role("textbox", name="Query").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    page.get_by_text("Checking …").wait_for()
    page.get_by_text("Checking …").wait_for(state="detached")


if __name__ == "__main__":
    main()
