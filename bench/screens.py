"""Pages by themselves, in a real Chromium: loads, weights, keys, frames; ends with 1 when a bar is missed.

    .venv/bin/python bench/screens.py [--runs K]

The portal is the real one, and so is the gateway, whose log is in memory: no Kafka, no Spark. 1,000 daggers
run in 20 teams, and a heartbeat of each comes every five seconds while pages are measured. A key is measured
in the page, from the key's event until what comes of it is painted. Loads begin with an empty cache; their
bytes are those of files, as they come over the wire. The list of 10,000 daggers is answered in place of the
gateway: what is measured there is the page. Script, style and layout are the browser's own count of its main
thread's time; how far apart frames are depends on the machine and is printed, not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Final

import grpc
import structlog
from browsing import MAIN_THREAD, Bars, load, measure_frames, p95, replace_answers, url_of, visit, write_query
from daggers.v1 import (
    dagger_pb2,
    events_pb2,
    gateway_pb2,
    gateway_pb2_grpc,
    output_pb2,
    spec_pb2,
    telemetry_pb2,
)
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from machine import header
from playwright.sync_api import Browser, Page
from tests.gateways import served
from tests.portal import browser
from tests.portal.answers import list_daggers
from tests.portal.conftest import QUERY, fill, portal

from chassis.endpoint import Endpoint
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.record import Record, read_record
from eventlog.tail import Arrival

DAGGERS, MANY, TEAMS, BEAT_S = 1_000, 10_000, 20, 5.0
NAME, FOUND = "load_0007", "1 shown"
CITIES, WINDOWS = 6, 60
SCROLLED_PX, FRAMES = 300, 180
STUDIO = "/new?message=examples.v1.Booking&streams=bookings&cluster=local"
COLUMN, _WRONG = "order_number", ".cm-lintRange-error"
WARM_UP = 3
FILES: Final = {"Document", "Script", "Stylesheet", "Image", "Font"}
PAGES: Final = (
    ("/", "list of 1,000 daggers", f"text={DAGGERS:,} in all teams >> nth=0", 1.0, 120),
    ("/daggers/load_0007", "first screen of a dagger", "main canvas >> nth=0", 1.5, 190),
    (STUDIO, "studio", ".cm-content", 1.5, 260),
)
"""Address, name, what it is for, seconds that it may take, KiB that its files may have."""

# Promises what comes of the next key, in ms since its event: when it is painted.
_WATCH_KEY = """([selector, text]) => {
  window.painted = new Promise(done => {
    let begin = 0;
    const all = () => [...document.querySelectorAll(selector)];
    const there = () => all().some(each => each.textContent.includes(text));
    const look = () => {
      if (!begin || !there()) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
    };
    const watch = new MutationObserver(look);
    addEventListener("keydown", event => { begin = event.timeStamp; look(); }, {capture: true, once: true});
    watch.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
  });
}"""
# The same of a key that may change nothing: the frame behind it is painted.
_WATCH_FRAME = """() => {
  window.painted = new Promise(done => addEventListener("keydown", event =>
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - event.timeStamp))),
    {capture: true, once: true}));
}"""
_PAINTED = "() => window.painted"
_SCROLL = "(main, by) => { main.scrollTop += by; }"
# How far apart so many frames are, in ms, while something is scrolled in each.
_SCROLL_FRAMES = """(main, [by, frames]) => new Promise(done => {
  const apart = [];
  let before = performance.now();
  const frame = now => {
    apart.push(now - before);
    before = now;
    main.scrollTop += by;
    if (apart.length < frames) requestAnimationFrame(frame); else done(apart.slice(1));
  };
  requestAnimationFrame(frame);
})"""


def main() -> None:
    """Print a line for each number."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--runs", type=int, default=20, help="how often each is measured")
    runs: int = arguments.parse_args().runs
    print(header("playwright", "starlette", "uvicorn", "grpcio"), flush=True)
    bars = Bars()
    with serve_daggers() as address, browser.chromium() as chromium:
        print(f"# Chromium {chromium.version}", flush=True)
        for path, title, there, seconds, kib in PAGES:
            loads = list(_loads(chromium, address, path, there, runs))
            bars.at_most(f"{title}, first load, p95", p95([took for took, _ in loads]), seconds, "s")
            bars.at_most(f"{title}, files", max(size for _, size in loads) / 1024, kib, "KiB")
        with visit(chromium, address) as page:
            bars.at_most("a text is judged, key to finding, p95", p95(_time_findings(page, runs)), 100, "ms")
        with visit(chromium, address) as page:
            bars.at_most(
                "search of 1,000 daggers, key to list, p95",
                p95(_time_searches(page, runs, DAGGERS)),
                50,
                "ms",
            )
            took = list(measure_frames(page, 3 * runs, lambda _: _scroll(page), counted=MAIN_THREAD))
            bars.at_most(
                "list of 1,000 daggers, script, style and layout of a frame that scrolls, p95",
                p95(took),
                16,
                "ms",
            )
            apart = sorted(_frames(page))
            print(
                f"list of 1,000 daggers, frames while it scrolls: p50 {apart[len(apart) // 2]:.1f} ms,"
                f" p95 {p95(apart):.1f} ms apart"
            )
        with visit(chromium, address) as page:
            list_daggers(page, [_dagger(number) for number in range(MANY)])
            bars.at_most(
                "search of 10,000 daggers, key to list, p95", p95(_time_searches(page, runs, MANY)), 50, "ms"
            )
            took = list(measure_frames(page, 3 * runs, lambda _: _scroll(page), counted=MAIN_THREAD))
            bars.at_most(
                "list of 10,000 daggers, script, style and layout of a frame that scrolls, p95",
                p95(took),
                16,
                "ms",
            )
    sys.exit(bool(bars.missed))


@contextmanager
def serve_daggers() -> Iterator[str]:
    """Serve a portal before a gateway whose daggers all run; yield its address."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    log = MemoryLog()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            served(Endpoint("127.0.0.1:0"), f"sqlite:///{folder}/first.db", lambda: log) as port,
            grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            fill(channel, folder)
            _create(channel)
        generations = asyncio.run(_launch(log))
        beats = Heartbeats(generations)
        with (
            served(
                Endpoint("127.0.0.1:0"), f"sqlite:///{folder}/gateway.db", lambda: log, heartbeats=beats
            ) as port,
            portal(f"127.0.0.1:{port}", folder) as address,
        ):
            yield address


class Heartbeats:
    """The tail of a topic in which each dagger is heard every BEAT_S seconds, one after another."""

    def __init__(self, generations: dict[str, int]) -> None:
        self._generations = generations

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """Yield heartbeats for ever, whenever reading began."""
        begin = time.monotonic()
        for number in range(sys.maxsize):
            for at, (name, generation) in enumerate(self._generations.items()):
                due = begin + (number + at / len(self._generations)) * BEAT_S
                if number and (wait := due - time.monotonic()) > 0:
                    await asyncio.sleep(wait)
                yield Arrival(
                    _record(number * DAGGERS + at, name, _heartbeat(name, generation, number)), False
                )


def _heartbeat(name: str, generation: int, number: int) -> telemetry_pb2.Heartbeat:
    heartbeat = telemetry_pb2.Heartbeat(
        dagger=name, generation=generation, rows_in=number * 500, rows_out=[number * (7 + generation % 5)]
    )
    heartbeat.lag["booking-log/0"] = generation % 7
    heartbeat.time.FromDatetime(datetime.now(UTC))
    heartbeat.last_commit.FromDatetime(datetime.now(UTC))
    return heartbeat


def _record(sequence: int, name: str, message: Message) -> Record:
    draft = Draft(f"beat-{sequence}", "/bench", name, datetime.now(UTC), message)
    return read_record(sequence, draft.headers(), message.SerializeToString())


def _create(channel: grpc.Channel) -> None:
    """Create the daggers."""
    stub = gateway_pb2_grpc.DaggerServiceStub(channel)
    for number in range(DAGGERS - 2):  # there are two
        name = f"load_{number:04}"
        spec = spec_pb2.DaggerSpec(
            team=f"team-{number % TEAMS:02}",
            cluster="local",
            streams=[spec_pb2.StreamInput(table="data_stream", stream="bookings")],
            sql=QUERY,
            sinks=[spec_pb2.Sink(influx=spec_pb2.InfluxSink(measurement=name))],
        )
        stub.CreateDagger(gateway_pb2.CreateDaggerRequest(name=name, spec=spec), timeout=60)


async def _launch(log: MemoryLog) -> dict[str, int]:
    """Append that each dagger was launched and runs; return their generations."""

    async def append(name: str, message: Message) -> int:
        sequence = await log.end() + 1
        await log.append(Draft(f"fact-{sequence}", "/bench", name, datetime.now(UTC), message))
        return sequence

    names = ["completed_bookings", "driver_supply", *(f"load_{number:04}" for number in range(DAGGERS - 2))]
    epoch = await append("a", events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    generations = {}
    for number, name in enumerate(names):
        meta = events_pb2.FactMeta(name=name, epoch=epoch)
        meta.generation = generations[name] = await append(
            name, events_pb2.LaunchIntended(meta=meta, version=1)
        )
        await append(name, events_pb2.Launched(meta=meta, driver={"host": "a", "pid": 1_000 + number}))
        await append(name, events_pb2.Running(meta=meta))
    return generations


def _loads(chromium: Browser, address: str, path: str, there: str, runs: int) -> Iterator[tuple[float, int]]:
    """Yield the seconds of a first load, and the bytes of its files."""
    for _ in range(runs):
        with visit(chromium, address) as page:
            replace_answers(page, "ReadRows", [output_pb2.ReadRowsResponse(rows=_rows())])
            files = _count_files(page)
            took = load(page, path, there)
            yield took, round(sum(files.values()))


def _count_files(page: Page) -> dict[str, float]:
    """Count the bytes of each file that a page loads from now on, by its request."""
    kinds: dict[str, str] = {}
    sizes: dict[str, float] = {}

    def begin(event: dict[str, Any]) -> None:
        kinds[event["requestId"]] = event["type"]

    def end(event: dict[str, Any]) -> None:
        if kinds.get(event["requestId"]) in FILES:
            sizes[event["requestId"]] = event["encodedDataLength"]

    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.responseReceived", begin)
    session.on("Network.loadingFinished", end)
    return sizes


def _time_findings(page: Page, runs: int) -> list[float]:
    """Return the ms from the key that makes a name wrong to its finding; each time another name."""
    page.goto(url_of(page, STUDIO))
    write_query(page, f"SELECT {COLUMN} FROM `bookings`")
    page.keyboard.press("Control+Home")
    for _ in f"SELECT {COLUMN}":
        page.keyboard.press("ArrowRight")
    took = []
    for number in range(runs + WARM_UP):
        page.locator(_WRONG).first.wait_for(state="detached")
        key = ascii_lowercase[number % len(ascii_lowercase)]
        page.evaluate(_WATCH_KEY, [_WRONG, f"{COLUMN}{key}"])
        page.keyboard.press(key)
        took.append(page.evaluate(_PAINTED))
        page.keyboard.press("Backspace")
    return took[WARM_UP:]


def _time_searches(page: Page, runs: int, daggers: int) -> list[float]:
    """Return the ms from a key of the search to the list that it finds, of each key of a name."""
    page.goto(url_of(page, "/"))
    page.get_by_text(f"{daggers:,} in all teams").wait_for()
    search = page.get_by_role("searchbox", name="Search")
    search.click()
    took = []
    for _ in range(runs):
        for key in (*NAME, *("Backspace" for _ in NAME)):
            page.evaluate(_WATCH_FRAME)
            page.keyboard.press(key)
            took.append(page.evaluate(_PAINTED))
            if search.input_value() == NAME:
                page.get_by_text(FOUND, exact=True).wait_for()
    return took


def _dagger(number: int) -> dagger_pb2.Dagger:
    """Build one of MANY daggers, which all run."""
    stream = spec_pb2.StreamInput(table="data_stream", stream="bookings")
    spec = spec_pb2.DaggerSpec(team=f"team-{number % TEAMS:02}", cluster="local", streams=[stream])
    return dagger_pb2.Dagger(name=f"load_{number:04}", phase=dagger_pb2.RUNNING, spec=spec)


def _scroll(page: Page) -> None:
    page.get_by_role("main").evaluate(_SCROLL, SCROLLED_PX)


def _frames(page: Page) -> Sequence[float]:
    """Return how far apart frames are while the list scrolls, in ms."""
    main = page.get_by_role("main")
    main.evaluate(_SCROLL, -1_000_000)
    apart: list[float] = main.evaluate(_SCROLL_FRAMES, [SCROLLED_PX / 3, FRAMES])
    return apart


def _rows() -> list[output_pb2.Row]:
    """Build the rows of an hour."""
    end = int(time.time()) // 60 * 60
    return [
        output_pb2.Row(
            time=Timestamp(seconds=end - 60 * window),
            tags={"city": f"city {city}"},
            fields=[output_pb2.RowField(name="orders", integer=window * 10 + city)],
        )
        for window in range(WINDOWS)
        for city in range(CITIES)
    ]


if __name__ == "__main__":
    main()
