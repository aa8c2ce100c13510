"""Texts of records, rows, logs and other people are drawn as texts, whatever they are made of."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import grpc
import pytest
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, output_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from playwright.sync_api import Browser, Page, Route, expect
from tests.contracts.quarantine import set_aside
from tests.portal.answers import answer
from tests.portal.conftest import Visit, serving_site, visiting

from api_gateway.quarantine.memory import MemoryQuarantine

Opened = Callable[..., Visit]
HOSTILE = (
    '<img src=x onerror="window.ran=1">',
    "<script>window.ran=1</script>",
    '"><svg/onload=window.ran=1>',
    "javascript:window.ran=1",
    "{{constructor.constructor('window.ran=1')()}}",
)
TEXT = " ".join(HOSTILE)
"""What would run, were it drawn as anything but text."""


def quarantine() -> MemoryQuarantine:
    """Two records of which every text that somebody else chose is hostile."""
    topic = MemoryQuarantine()
    for number in range(1, 3):
        fields = {"id": f"{number:032x}", "stage": "decode", "reason": "NOT_PROTOBUF", "topic": "booking-log"}
        more = {"offset": number, "value": TEXT.encode(), "key": TEXT.encode(), "detail": TEXT}
        record = set_aside("completed_bookings", number, **fields, **more)
        topic.place(0, *record, time_ms=round(time.time() * 1000))
    return topic


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a portal whose gateway has a revision and records with hostile texts."""
    with serving_site(tmp_path_factory.mktemp("portal"), quarantine, revise) as address:
        yield address


def revise(channel: grpc.Channel) -> None:
    """Apply the dagger again, for a hostile reason, with a hostile query."""
    daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
    spec = daggers.GetDagger(gateway_pb2.GetDaggerRequest(name="completed_bookings"), timeout=60).dagger.spec
    spec.sql += f" /* {TEXT} */"
    request = gateway_pb2.ApplyDaggerRequest(name="completed_bookings", spec=spec, message=TEXT)
    daggers.ApplyDagger(request, timeout=60)


@pytest.fixture
def visit(chromium: Browser, hostile_site: str) -> Iterator[Opened]:
    """Opens windows of that portal."""
    yield from visiting(chromium, hostile_site)


def rows(route: Route) -> None:
    """Answer rows with hostile tags, texts and names."""
    end = int(time.time()) // 60 * 60
    field = output_pb2.RowField(name="orders", integer=3)
    text = output_pb2.RowField(name="note", text=TEXT)
    made = [
        output_pb2.Row(time=Timestamp(seconds=end - 60 * number), tags={"city": TEXT}, fields=[field, text])
        for number in range(1, 4)
    ]
    answer(route, [output_pb2.ReadRowsResponse(rows=made)])


def log(route: Route) -> None:
    """Answer lines of a log that a record's text got into."""
    answer(route, [output_pb2.ReadLogResponse(host="h", path="/log", lines=[TEXT, *HOSTILE])])


def check_drawn_as_text(page: Page) -> None:
    """Check that the text stands there, that nothing of it became an element, and that nothing ran."""
    expect(page.get_by_text(HOSTILE[0]).first).to_be_visible()
    assert page.evaluate("window.ran") is None
    assert page.locator("img[src=x], svg[onload]").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0


def test_rows_are_drawn_as_text(visit: Opened) -> None:
    one = visit()
    one.page.route(re.compile("DaggerService/ReadRows"), rows)
    page = one.open("/daggers/completed_bookings", "completed_bookings")

    expect(page.get_by_role("region", name="Live rows").locator(".legend")).to_contain_text("onerror")
    check_drawn_as_text(page)


@pytest.mark.parametrize("tab", ["Quarantine", "Log", "Revisions", "Query"])
def test_what_others_wrote_is_drawn_as_text(visit: Opened, tab: str) -> None:
    one = visit()
    one.page.route(re.compile("DaggerService/ReadRows"), rows)
    one.page.route(re.compile("DaggerService/ReadLog"), log)
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    page.get_by_role("tab", name=tab).click()
    if tab == "Quarantine":
        page.get_by_role("button", name="NOT_PROTOBUF").click()

    check_drawn_as_text(page)
