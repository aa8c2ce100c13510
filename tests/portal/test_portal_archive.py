"""Cold storage: which daggers write it, since when, how much; where a notebook on it is opened."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from daggers.v1 import dagger_pb2, gateway_pb2, output_pb2, spec_pb2, vitals_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from playwright.sync_api import Page, Route, expect
from tests.portal.answers import answer_once
from tests.portal.axe import violations
from tests.portal.conftest import Visit

Opened = Callable[..., Visit]
NOTEBOOK = "https://notebooks.example/open?path={path}"


def serve(page: Page) -> None:
    """A dagger with a table, and one without."""
    spec = spec_pb2.DaggerSpec(
        team="pricing",
        streams=[spec_pb2.StreamInput(table="data_stream", stream="bookings")],
        sinks=[spec_pb2.Sink(parquet=spec_pb2.ParquetSink(location="s3://lake/cold", table="rides"))],
    )
    listed = gateway_pb2.ListDaggersResponse(
        daggers=[
            dagger_pb2.Dagger(
                name="completed_bookings",
                spec=spec,
                vitals=vitals_pb2.Vitals(last_commit=Timestamp(seconds=1_790_000_000)),
            ),
            dagger_pb2.Dagger(name="live_only"),
        ]
    )
    described = output_pb2.DescribeArchiveResponse(
        sink="parquet",
        path="s3://lake/cold/rides",
        files=1_204,
        bytes=3 * 2**30,
        first_hour=Timestamp(seconds=1_767_225_600),
    )
    page.route(re.compile("DaggerService/ListDaggers"), lambda route: answer_once(route, listed))
    page.route(re.compile("DaggerService/DescribeArchive"), lambda route: answer_once(route, described))


def test_a_table_is_shown_with_its_stream_age_and_size(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    serve(one.page)
    page = one.open("/archive", "Archive")
    row = page.get_by_role("row").filter(has_text="s3://lake/cold/rides")
    for text in ("bookings", "1 Jan 2026, 00:00:00 UTC", "3 GiB", "1,204 files"):
        expect(row).to_contain_text(text)
    expect(page.get_by_text("live_only")).to_have_count(0)
    expect(page.get_by_text("Open in notebook")).to_have_count(0)
    assert violations(page, packages) == []
    page.get_by_role("link", name="completed_bookings").focus()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1, name="completed_bookings")).to_be_visible()


def test_a_notebook_is_opened_where_the_setting_says(visit: Opened) -> None:
    one = visit()
    serve(one.page)

    def me(route: Route) -> None:
        told = route.fetch().json()
        assert told["notebook"] is None
        route.fulfill(json={**told, "notebook": NOTEBOOK})

    one.page.route(re.compile("/auth/me"), me)
    page = one.open("/archive", "Archive")

    expect(page.get_by_role("link", name="Open in notebook")).to_have_attribute(
        "href", "https://notebooks.example/open?path=s3%3A%2F%2Flake%2Fcold%2Frides"
    )
