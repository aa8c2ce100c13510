"""Pictures of every screen, light and dark, of the two daggers of the demo: `make portal-pictures`.

A demo is run on a stack of its own, which is kept until the pictures are taken. Each is a PNG of 256 colours,
docs/portal/NAME-SIZE-SCHEME.png.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Browser, Page, StorageState, expect
from tests.portal import browser

FOLDER: Final = Path(__file__).parents[2] / "docs" / "portal"
MOST_BYTES: Final = 100_000
FED_S: Final = 240
WITHIN_MS: Final = 60_000
_DAGGERS: Final = Path(sys.executable).with_name("daggers")
_DAGGER: Final = "/daggers/completed_bookings"
_STUDIO: Final = "/new?message=examples.v1.Booking&streams=bookings&cluster=local"
_INSTALLED: Final = "/var/lib/daggers"
"""What pictures call the directory of the stack: none is of this machine."""
_NAME_PLACES: Final = """([here, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    if (texts.currentNode.data.includes(here))
      texts.currentNode.data = texts.currentNode.data.replaceAll(here, shown);
}"""
_QUERY: Final = """SELECT city_id AS tag_city_id, vehicle_type AS tag_vehicle_type,
       count(1) AS num_of_bookings, SUM(price.amount) AS amount,
       TUMBLE_END(rowtime, INTERVAL '30' SECOND) AS window_timestamp
FROM bookings
WHERE status = 'COMPLETED'
GROUP BY TUMBLE(rowtime, INTERVAL '30' SECOND), city_id, vehicle_type"""


@dataclass(frozen=True, slots=True)
class Size:
    """Of a window, in pixels."""

    name: str
    width: int
    height: int


WIDE, NARROW = Size("wide", 1440, 900), Size("narrow", 360, 740)


@dataclass(frozen=True, slots=True)
class Picture:
    """A screen: where it is, what is done there first, and in which sizes it is taken."""

    name: str
    path: str
    prepare: Callable[[Page], object] = lambda page: None
    sizes: tuple[Size, ...] = (WIDE,)


def main() -> None:
    """Take all of them. Exits with 1 when one is too large."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument(
        "--state-dir", type=Path, help="of a demo that is up: daggers demo --keep --state-dir DIR ran"
    )
    given: Path | None = arguments.parse_args().state_dir
    with (
        tempfile.TemporaryDirectory(prefix="daggers-pictures-") as folder,
        nullcontext(given) if given else _demo(Path(folder)) as state_dir,
        browser.chromium() as chromium,
    ):
        sizes = {path.name: path.stat().st_size for path in _taken(chromium, state_dir)}
    large = [f"{name} has {size} bytes" for name, size in sizes.items() if size > MOST_BYTES]
    sys.exit("\n".join(large) or 0)


@contextmanager
def _demo(state_dir: Path) -> Iterator[Path]:
    """The directory of a demo that was run and is still up."""
    place: list[str | Path] = ["--state-dir", state_dir]
    try:
        subprocess.run([_DAGGERS, "demo", "--keep", "--seconds", str(FED_S), *place], check=True)
        yield state_dir
    finally:
        subprocess.run([_DAGGERS, "local", "down", *place], check=True)


def _taken(chromium: Browser, state_dir: Path) -> Iterator[Path]:
    FOLDER.mkdir(exist_ok=True)
    site, session = _enter(chromium, state_dir)
    for picture in PICTURES:
        for size in picture.sizes:
            for scheme in ("light", "dark"):
                path = FOLDER / f"{picture.name}-{size.name}-{scheme}.png"
                path.write_bytes(_png(chromium, site, session, picture, size, scheme, str(state_dir)))
                sys.stdout.write(f"{path.name} {path.stat().st_size}\n")
                yield path


def _enter(chromium: Browser, state_dir: Path) -> tuple[str, StorageState]:
    """Log in at the pages of a stack, which an address does once; return the site, and the session."""
    command: list[str | Path] = [_DAGGERS, "local", "status", "-o", "json", "--state-dir", state_dir]
    status = subprocess.run(command, check=True, capture_output=True)
    key: str = json.loads(status.stdout)["portal"]["url"]
    context = chromium.new_context()
    page = context.new_page()
    page.goto(key, timeout=WITHIN_MS)
    page.get_by_role("heading", level=1).wait_for(timeout=WITHIN_MS)
    session = context.storage_state()
    context.close()
    return key[: key.index("/", len("https://"))], session


def _png(
    chromium: Browser,
    site: str,
    session: StorageState,
    picture: Picture,
    size: Size,
    scheme: str,
    here: str,
) -> bytes:
    context = chromium.new_context(
        storage_state=session,
        viewport={"width": size.width, "height": size.height},
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
        locale="en-GB",
    )
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    page.goto(site + picture.path)
    page.get_by_role("heading", level=1).wait_for()
    expect(page.get_by_text("Reading", exact=False)).to_have_count(0)
    picture.prepare(page)
    page.wait_for_timeout(500)  # what is drawn in the next frames
    page.evaluate(_NAME_PLACES, [here, _INSTALLED])
    shot = page.screenshot()
    context.close()
    return compress(shot)


def compress(shot: bytes) -> bytes:
    """Return the same picture as a PNG of 256 colours."""
    file = io.BytesIO()
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(256).save(file, "PNG", optimize=True)
    return file.getvalue()


def _write(page: Page, text: str = _QUERY) -> None:
    page.get_by_role("textbox", name="Query").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    expect(page.get_by_text("Checking …")).to_have_count(0)
    page.wait_for_timeout(1_000)  # the check of what was written begins a little later
    expect(page.get_by_text("Checking …")).to_have_count(0)


def _finding(page: Page) -> None:
    _write(page, _QUERY.replace("WHERE status", "WHERE statsu"))
    page.locator(".cm-lintRange-error").first.wait_for()
    page.keyboard.press("Control+Home")
    page.keyboard.press("F8")
    page.locator(".cm-lintRange-error").first.hover()
    page.locator(".cm-tooltip-lint").first.wait_for()


def _completion(page: Page) -> None:
    _write(page, f"{_QUERY}, S2")
    page.keyboard.press("Control+End")
    page.keyboard.press("Control+Space")
    page.locator(".cm-tooltip-autocomplete").wait_for()


def _preview(page: Page) -> None:
    page.get_by_text("partitions").first.wait_for()  # the rate is known while records come
    _write(page)
    page.get_by_role("tab", name="Preview").click()
    page.get_by_label("Range of the preview").select_option("1 h")
    page.get_by_role("button", name="Preview").first.click()
    page.get_by_role("button", name="Run again").wait_for()
    page.get_by_role("region", name="Rows of the preview").wait_for()


def _plan(page: Page) -> None:
    _write(page, page.locator(".cm-content").inner_text().replace("COMPLETED", "CANCELLED"))
    page.get_by_role("button", name="Review", exact=True).click()
    page.get_by_role("region", name="Plan").get_by_text("This changes").wait_for()


def _record(page: Page) -> None:
    page.get_by_role("region", name="Reasons").get_by_role("button").first.click()
    page.get_by_role("list", name="Records").get_by_role("button").first.click()
    page.get_by_role("region", name="The record").get_by_role("heading").wait_for()


def _chart(page: Page) -> None:
    page.locator(".legend span").first.wait_for()


def _limit(page: Page) -> None:
    _chart(page)
    page.get_by_role("button", name="Draw a limit").click()
    page.get_by_role("slider").wait_for()


def _rules(page: Page) -> None:
    page.get_by_role("button", name="Test the rules").click()
    page.get_by_text("not simulated").wait_for()


def _host(page: Page) -> None:
    page.get_by_role("main").get_by_role("row").get_by_role("link").first.click()
    page.get_by_text("Room left").wait_for()


def _routes(page: Page) -> None:
    page.get_by_role("button", name="Who would be notified?").click()
    page.get_by_role("region", name="Who would be notified").get_by_role("status").wait_for()


def _tests(page: Page) -> None:
    page.get_by_role("tab", name="Tests").click()
    page.get_by_role("button", name="Add a test").click()
    page.get_by_label("Name of the test").wait_for()


def _table(page: Page) -> None:
    page.get_by_role("region", name="Daggers as a table").get_by_role("link").first.wait_for()


def _map(page: Page) -> None:
    page.locator("canvas").wait_for()
    page.wait_for_timeout(2_000)  # the coasts come as modules of their own


PICTURES: Final = (
    # First, while the last minute still has records.
    Picture("studio", _STUDIO, _preview, sizes=(WIDE, NARROW)),
    Picture("list", "/", sizes=(WIDE, NARROW)),
    Picture("list-table", "/?view=table&sort=-rows", _table),
    Picture("dagger", _DAGGER, _chart, sizes=(WIDE, NARROW)),
    Picture("dagger-map", f"{_DAGGER}/map", _map, sizes=(WIDE, NARROW)),
    Picture("dagger-quarantine", f"{_DAGGER}?tab=quarantine", _record),
    Picture("dagger-limit", _DAGGER, _limit),
    Picture("dagger-rules", f"{_DAGGER}?tab=rules", _rules, sizes=(WIDE, NARROW)),
    Picture("dagger-log", f"{_DAGGER}?tab=log"),
    Picture("dagger-revisions", f"{_DAGGER}?tab=revisions"),
    Picture("dagger-query", f"{_DAGGER}?tab=query"),
    Picture("studio-finding", _STUDIO, _finding),
    Picture("studio-completion", _STUDIO, _completion),
    Picture("studio-plan", f"{_DAGGER}/edit", _plan),
    Picture("studio-forward", "/new?kind=forward&streams=bookings"),
    Picture("studio-tests", _STUDIO, _tests),
    Picture("alerts", "/alerts?over=yes", sizes=(WIDE, NARROW)),
    Picture("routes", "/routes/pricing", _routes),
    Picture("silence", "/new/silence?team=pricing&matcher=dagger%3Dcompleted_bookings"),
    Picture("audit", "/audit"),
    Picture("archive", "/archive"),
    Picture("streams", "/streams", sizes=(WIDE, NARROW)),
    Picture("stream", "/streams/bookings"),
    Picture("stream-offer", "/new/stream?of=completed_bookings"),
    Picture("schemas", "/schemas?message=examples.v1.Booking"),
    Picture("clusters", "/clusters"),
    Picture("cluster", "/clusters/local"),
    Picture("hosts", "/hosts"),
    Picture("host", "/hosts", _host),
    Picture("sinks", "/sinks"),
    Picture("sink", "/new/sink"),
    Picture("schema", "/new/schema"),
    Picture("references", "/references"),
    Picture("teams", "/teams"),
    Picture("team", "/teams/pricing", sizes=(WIDE, NARROW)),
)

if __name__ == "__main__":
    main()
