"""What the pages take, in a real Chromium before a real stack; ends with 1 when a bar is missed.

    .venv/bin/python bench/pages.py [--runs K]

A line for each: `NAME: value (bar B) ok|missed`. What pages take by themselves, loads and keys, is in
screens.py. Script is the browser's own count of the time that scripts took for a frame; how many frames
there are depends on the machine and is not judged. An event is a dagger that is created by the API; it is
seen when its card is drawn. Previews, and the dagger that is made, are the seed query over 300,000 bookings
in 4 partitions.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import dagger
import grpc
import httpx
import psutil
import s2sphere
import workload
from browsing import (
    Bars,
    await_editor,
    measure_frames,
    p95,
    replace_answers,
    url_of,
    visit,
    write_query,
)
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, output_pb2, preview_pb2, spec_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from machine import header
from playwright.sync_api import Page
from stack import Stack, stack
from tests.portal import browser

from portal.bridge import STREAM

RECORDS, SECONDS = 300_000, 360
CITIES, WINDOWS = 6, 900
GRID_ROWS = 10_000
CELLS, CELL_LEVEL, MAPPED_WINDOWS = 44_000, 13, 4
TRACED = 12  # frames, in which the outlines of a window become paths
WATCHERS, WATCHED_S, EVENTS_A_SECOND = 100, 20, 10
STUDIO = f"/new?message={workload.MESSAGE}&streams={dagger.TOPIC}&cluster=local"
NAME, FIELDS = "seed_in_a_page", ("orders", "more")
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
        with visit(chromium, key) as page:
            bars.at_most("chart of 6 x 900, script of a frame, p95", p95(_chart(page, 3 * runs)), 8, "ms")
            bars.at_most("grid of 10,000 rows, script of a frame, p95", p95(_grid(page, 3 * runs)), 8, "ms")
            for what, took in _map(page, 3 * runs):
                bars.at_most(f"map of 44,000 cells, {what}, script of a frame, p95", p95(took), 16, "ms")
            bars.at_most("event to pixel, p95", p95(_events(page, on, runs)) * 1000, 300, "ms")
        cores, grown = _watched(on, key)
        bars.at_most("100 watchers of 10 events/s", cores * 100, 15, "% of a core")
        bars.at_most("100 watchers, memory", grown, 100, "MiB")
    sys.exit(bool(bars.missed))


def _production(page: Page) -> float:
    """Seconds from the empty form to a line of the chart."""
    begin = time.monotonic()
    page.goto(url_of(page, STUDIO))
    write_query(page, dagger.SQL.replace("data_stream", dagger.TOPIC))
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
    page.goto(url_of(page, STUDIO))
    write_query(page, dagger.SQL)
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
        await_editor(page)
    return took[2:]


def _chart(page: Page, runs: int) -> list[float]:
    """Milliseconds of script for each frame in which all lines are summed and drawn anew."""
    end = int(time.time())
    rows = [_row(end - at, city, at + city) for at in range(WINDOWS) for city in range(CITIES)]
    replace_answers(page, "ReadRows", [output_pb2.ReadRowsResponse(rows=rows)])
    page.goto(url_of(page, f"/daggers/{NAME}"))
    field = page.get_by_label("Field")
    field.wait_for()
    return list(measure_frames(page, runs, lambda number: field.select_option(FIELDS[(number + 1) % 2])))


def _grid(page: Page, runs: int) -> list[float]:
    """Milliseconds of script for each frame in which a grid is scrolled by a page."""
    rows = [_row(at, at, at) for at in range(GRID_ROWS)]
    done = preview_pb2.PreviewDone(reason="REASON_ROW_LIMIT", records=GRID_ROWS, rows=GRID_ROWS)
    steps = [
        gateway_pb2.PreviewDaggerResponse(rows=preview_pb2.PreviewRows(rows=rows)),
        gateway_pb2.PreviewDaggerResponse(done=done),
    ]
    replace_answers(page, "PreviewDagger", steps)
    page.goto(url_of(page, STUDIO))
    await_editor(page)
    page.get_by_role("button", name="Preview").first.click()
    grid = page.get_by_role("region", name="Rows of the preview")
    grid.wait_for()
    scroll = "(grid, number) => { grid.scrollTop = number * 300; }"
    return list(measure_frames(page, runs, lambda number: grid.evaluate(scroll, number + 1)))


def _map(page: Page, runs: int) -> Iterator[tuple[str, list[float]]]:
    """What one does with a map, and milliseconds of script for each frame of that."""
    around = s2sphere.CellId.from_lat_lng(s2sphere.LatLng.from_degrees(-6.2, 106.82)).parent(5)
    first = around.child_begin(CELL_LEVEL)
    ids = [first.id() + number * (first.lsb() << 1) for number in range(CELLS)]
    end = int(time.time()) // 60 * 60
    rows = [_cell(end - 60 * at, cell, at + cell) for at in range(MAPPED_WINDOWS) for cell in ids]
    steps = [output_pb2.ReadRowsResponse(rows=rows[at : at + 5_000]) for at in range(0, len(rows), 5_000)]
    replace_answers(page, "ReadRows", steps)
    page.route(re.compile("DaggerService/WatchRows"), lambda _: None)  # nothing is new
    page.goto(url_of(page, f"/daggers/{NAME}/map"))
    page.get_by_role("heading", name=f"{CELLS:,} cells").wait_for()
    box = page.get_by_role("application").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    aside = (60, -60, -60, 60)
    yield (
        "moved",
        list(
            measure_frames(
                page, runs, lambda number: page.mouse.move(middle[0] + aside[number % 4], middle[1])
            )
        ),
    )
    page.mouse.up()
    yield (
        "zoomed",
        list(measure_frames(page, runs, lambda number: page.mouse.wheel(0, (-120, 120)[number % 2]))),
    )
    page.get_by_role("slider", name="Window").focus()
    keys = ("Home", "ArrowRight", "ArrowRight", "End")
    slide = measure_frames(page, runs, lambda number: page.keyboard.press(keys[number % 4]), TRACED)
    yield "another window", list(slide)


def _events(page: Page, on: Stack, runs: int) -> Iterator[float]:
    """Seconds from a call that creates a dagger to its card."""
    page.goto(url_of(page, "/"))
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


if __name__ == "__main__":
    main()
