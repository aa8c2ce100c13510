"""Rows on a map: cells of S2, the time that goes on, what was a day before, the same numbers as a table."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import s2sphere
from daggers.v1 import output_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from playwright.sync_api import Page, Route, expect
from tests.portal.answers import answer
from tests.portal.axe import violations
from tests.portal.conftest import Visit
from tests.portal.portal_live import DAY_S, ENVELOPE, WINDOW_S

Opened = Callable[..., Visit]
WINDOWS = 3
MAP_PX = 300
"""The least width that a map is drawn in."""
MAP, HEADING = "/daggers/completed_bookings/map", "Map of completed_bookings"


def city(level: int = 13, side: int = 6) -> list[int]:
    """Ids of cells around a square of Jakarta, as S2Id has them: signed."""
    middle = s2sphere.CellId.from_lat_lng(s2sphere.LatLng.from_degrees(-6.2, 106.82)).parent(level)
    found, due = [middle], [middle]
    while len(found) < side * side:
        for near in due.pop(0).get_edge_neighbors():
            if near not in found:
                found.append(near)
                due.append(near)
    ids = [cell.id() for cell in found[: side * side]]
    return [each - (1 << 64) if each >> 63 else each for each in ids]


def serve_cells(page: Page, cells: Iterable[int]) -> list[int]:
    """Answer so many windows of these cells, and half as much to who asks for a day before; their times."""
    listed = list(cells)
    newest = int(time.time()) // WINDOW_S * WINDOW_S - WINDOW_S
    times = [newest - WINDOW_S * number for number in range(WINDOWS)]

    def rows(route: Route) -> None:
        body = route.request.post_data_buffer
        assert body is not None
        earlier = bool(output_pb2.ReadRowsRequest.FromString(body[ENVELOPE:]).where)
        made = [
            output_pb2.Row(
                time=Timestamp(seconds=at - (DAY_S if earlier else 0)),
                tags={"tag_s2id": str(cell), "city": "Jakarta"},
                fields=[
                    output_pb2.RowField(name="orders", integer=(number + 2) * (age + 2) // (1 + earlier))
                ],
            )
            for age, at in enumerate(times)
            for number, cell in enumerate(listed)
        ]
        steps = [made[begin : begin + 5_000] for begin in range(0, len(made), 5_000)]
        answer(route, [output_pb2.ReadRowsResponse(rows=step) for step in steps])

    page.route(re.compile("DaggerService/ReadRows"), rows)
    return times


def clock(seconds: int) -> str:
    """A time as the pages write it."""
    month = time.strftime("%B", time.gmtime(seconds))
    short = "Sept" if month == "September" else month[:3]
    return time.strftime(f"%-d {short} %Y, %H:%M:%S UTC", time.gmtime(seconds))


def test_cells_are_read_out_by_keys_and_are_the_same_in_the_table(visit: Opened) -> None:
    one = visit()
    cells = city()
    serve_cells(one.page, cells)
    page = one.open(MAP, HEADING)
    table = page.get_by_role("region", name="Cells by value")
    expect(page.get_by_role("heading", name="36 cells")).to_be_visible()
    drawn = page.get_by_role("application", name="Map of Sum of orders by tag_s2id")
    drawn.focus()
    page.keyboard.press("n")
    largest = s2sphere.CellId(cells[-1] % (1 << 64))
    expect(page.get_by_role("status").filter(has_text="Number 1")).to_have_text(
        f"Number 1: 74 in {largest.to_token()}, level 13"
    )
    expect(table.get_by_role("row").nth(1)).to_contain_text(largest.to_token())
    middle = largest.to_lat_lng()
    expect(table.get_by_role("row").nth(1)).to_contain_text(f"{middle.lat().degrees:.3f}")
    page.keyboard.press("Escape")
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")

    expect(drawn).to_contain_text(", level 13")
    expect(page).to_have_url(re.compile(r"view=-6\.\d+%2C106\.\d+%2C"))


def test_the_time_goes_on_and_stands_in_the_address(visit: Opened) -> None:
    one = visit()
    times = serve_cells(one.page, city())
    page = one.open(MAP, HEADING)
    expect(page.get_by_text(clock(times[0]))).to_be_visible()
    page.get_by_role("slider", name="Window").focus()
    page.keyboard.press("Home")
    expect(page.get_by_text(clock(times[-1]))).to_be_visible()
    expect(page).to_have_url(re.compile(r"at=20"))
    page.reload()
    expect(page.get_by_text(clock(times[-1]))).to_be_visible()
    page.get_by_role("button", name="Play the windows").click()

    expect(page.get_by_text(clock(times[0]))).to_be_visible()
    expect(page).not_to_have_url(re.compile(r"at=20"))
    # its rows are drawn once it knows its height
    expect(page.get_by_role("region", name="Cells by value").get_by_role("row").nth(1)).to_be_visible()


def test_a_day_before_is_taken_off(visit: Opened) -> None:
    one = visit()
    serve_cells(one.page, city())
    page = one.open(MAP, HEADING)
    page.get_by_label("Compare").select_option("Less a day before")
    legend = page.get_by_role("region", name="Legend")
    expect(legend).to_contain_text("Sum of orders, less a day before")
    expect(legend).to_contain_text("and more")
    row = page.get_by_role("region", name="Cells by value").get_by_role("row").nth(1)
    expect(row).to_contain_text("37")
    page.get_by_role("combobox", name="How").select_option("Rows")

    expect(row.get_by_role("cell").nth(1)).to_have_text("0")
    expect(legend).to_contain_text("as before")


@pytest.mark.parametrize("width", [1440, 1280, 1024, 360])
def test_no_column_of_the_table_stands_behind_its_edge(visit: Opened, width: int) -> None:
    one = visit()
    one.page.set_viewport_size({"width": width, "height": 900})
    serve_cells(one.page, city())
    page = one.open(MAP, HEADING)
    table = page.get_by_role("region", name="Cells by value")
    for comparison, columns in (("No comparison", 3), ("Less a day before", 5)):
        page.get_by_label("Compare").select_option(comparison)
        expect(table.get_by_role("row").nth(1).get_by_role("cell")).to_have_count(columns)

        assert table.evaluate("grid => grid.scrollWidth - grid.clientWidth") == 0
        assert page.locator("canvas").first.evaluate("canvas => canvas.clientWidth") >= MAP_PX


_BLOBS = """
canvas => {
  const colours = [0, 1, 2, 3, 4, 5].map(number => {
    const one = document.createElement("i");
    one.style.color = `var(--steps-${number})`;
    canvas.parentElement.append(one);
    const said = getComputedStyle(one).color;
    one.remove();
    return said.match(/[0-9]+/g).slice(0, 3).join();
  });
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const across = [];
  for (let at = 0; at < width * height; at++)
    if (colours.includes([data[4 * at], data[4 * at + 1], data[4 * at + 2]].join())) across.push(at % width);
  across.sort((one, other) => one - other);
  return across.reduce((blobs, x, at) => {
    if (at && x - across[at - 1] < 40) blobs[blobs.length - 1]++;
    else blobs.push(1);
    return blobs;
  }, []);
}
"""
"""Count the pixels that have colours of cells, of each group that lies together."""


def test_three_cities_are_seen_at_once(visit: Opened) -> None:
    one = visit()
    cities = [(-6.2, 106.82), (14.6, 121.0), (28.6, 77.2)]
    cells = [s2sphere.CellId.from_lat_lng(s2sphere.LatLng.from_degrees(*place)) for place in cities]
    ids = [cell.parent(13).id() for cell in cells]
    serve_cells(one.page, [each - (1 << 64) if each >> 63 else each for each in ids])
    page = one.open(MAP, HEADING)
    expect(page.get_by_role("heading", name="3 cells")).to_be_visible()
    canvas = page.locator("canvas").first
    end = time.monotonic() + 20
    blobs: list[int] = []
    while len(blobs) < 3 and time.monotonic() < end:
        blobs = canvas.evaluate(_BLOBS)
        page.wait_for_timeout(200)

    assert len(blobs) == 3
    assert min(blobs) >= 12, "a cell is a few pixels at least"


def test_44_000_cells_come_through(visit: Opened) -> None:
    one = visit()
    middle = s2sphere.CellId.from_lat_lng(s2sphere.LatLng.from_degrees(-6.2, 106.82)).parent(5)
    begin, end = middle.child_begin(13), middle.child_end(13)
    step = begin.lsb() << 1
    serve_cells(one.page, list(range(begin.id(), end.id(), step))[:44_000])
    page = one.open(MAP, HEADING)

    expect(page.get_by_role("heading", name="44,000 cells")).to_be_visible()


def test_a_map_without_cells_says_what_it_needs(visit: Opened) -> None:
    one = visit()
    row = output_pb2.Row(time=Timestamp(seconds=int(time.time()) - 60), tags={"city": "Jakarta"})
    one.page.route(
        re.compile("DaggerService/ReadRows"),
        lambda route: answer(route, [output_pb2.ReadRowsResponse(rows=[row])]),
    )
    page = one.open(MAP, HEADING)

    expect(page.get_by_text("S2Id(latitude, longitude, 13)")).to_be_visible()


def test_the_map_has_no_violation(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    serve_cells(one.page, city())
    page = one.open(MAP, HEADING)
    expect(page.get_by_role("heading", name="36 cells")).to_be_visible()

    assert violations(page, packages) == []
