"""The page of a stream, and what a dagger writes to Kafka as a stream of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import access_service_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2
from playwright.sync_api import Browser, Route, expect
from tests.portal.axe import violations
from tests.portal.conftest import QUERY, Visit, quarantine, serving_site, visiting

Opened = Callable[..., Visit]


def add_writer(channel: grpc.Channel) -> None:
    """Create a dagger that writes JSON to a topic of Kafka."""
    spec = spec_pb2.DaggerSpec(
        team="pricing",
        cluster="local",
        streams=[spec_pb2.StreamInput(table="data_stream", stream="bookings")],
        sql=QUERY,
        sinks=[spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic="city-orders"))],
    )
    request = gateway_pb2.CreateDaggerRequest(name="city_orders", spec=spec)
    gateway_pb2_grpc.DaggerServiceStub(channel).CreateDagger(request, timeout=60)


@pytest.fixture(scope="module")
def writing_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a portal whose gateway has a dagger with a Kafka sink; give its address."""
    with serving_site(tmp_path_factory.mktemp("writing"), quarantine, add_writer) as address:
        yield address


@pytest.fixture
def visit_writing(chromium: Browser, writing_site: str) -> Iterator[Opened]:
    """Opens a window before that portal."""
    yield from visiting(chromium, writing_site)


def test_a_stream_shows_columns_readers_and_history_and_is_edited_behind_a_button(
    visit: Opened, packages: Path
) -> None:
    one = visit(axe=True)
    page = one.open("/streams/bookings", "bookings")
    columns = page.get_by_role("region", name="Columns of bookings")
    expect(columns.get_by_role("row").filter(has_text="status")).to_contain_text("COMPLETED")
    read_by = page.locator("dl.facts .card").filter(has_text="Read by")
    expect(read_by.get_by_role("link")).to_have_text(["completed_bookings", "driver_supply"])
    history = page.get_by_role("region", name="History")
    expect(history.get_by_role("listitem")).to_contain_text(
        ["Stream registered.", "examples.v1.Booking registered"]
    )
    expect(page.get_by_role("button", name="Delete stream bookings …")).to_have_count(0)
    assert violations(page, packages) == []
    page.get_by_role("button", name="Edit stream").click()

    expect(page.get_by_label("Field with the event time")).to_have_value("event_timestamp")
    assert page.url.endswith("/streams/bookings?edit=yes")


def test_a_phone_shows_all_of_a_stream(visit: Opened) -> None:
    one = visit()
    one.page.set_viewport_size({"width": 360, "height": 740})
    page = one.open("/streams/bookings", "bookings")
    expect(page.get_by_role("region", name="Columns of bookings")).to_be_visible()

    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_what_a_dagger_writes_becomes_a_stream_that_another_dagger_reads(
    visit_writing: Opened, packages: Path
) -> None:
    one = visit_writing(axe=True)
    page = one.open("/daggers/city_orders", "city_orders")
    page.get_by_role("link", name="Offer as stream").click()
    offer = page.get_by_role("region", name="Sink kafka")
    expect(offer.get_by_role("listitem")).to_have_text(
        [
            re.compile("^Message outputs.city_orders.Row"),
            re.compile("topic city-orders-rows"),
            re.compile("^Topic"),
        ]
    )
    assert violations(page, packages) == []
    page.get_by_label("Name of the stream").fill("orders_by_city")
    page.get_by_role("button", name="Offer as stream").click()
    expect(page.get_by_text("orders_by_city is registered.")).to_be_visible()
    assert violations(page, packages) == []
    page.get_by_role("link", name="Open orders_by_city").click()
    written_by = page.locator("dl.facts .card").filter(has_text="Written by")
    expect(written_by.get_by_role("link", name="city_orders")).to_be_visible()
    expect(page.get_by_role("region", name="Columns of orders_by_city")).to_contain_text("BIGINT")
    page.get_by_role("link", name="New dagger on it").click()

    expect(page.get_by_role("checkbox", name="orders_by_city")).to_be_checked()
    expect(page.locator(".cm-content")).to_contain_text("TUMBLE")


def test_who_may_not_register_streams_sees_what_would_be_offered(visit_writing: Opened) -> None:
    one = visit_writing()
    who = access_service_pb2.WhoAmIResponse(principal="user:bob")

    def viewer(route: Route) -> None:
        body: Any = who.SerializeToString()
        route.fulfill(status=200, body=body, content_type="application/proto")

    one.page.route(re.compile("AccessService/WhoAmI"), viewer)
    page = one.open("/new/stream?of=city_orders", "Offer as stream")
    expect(page.get_by_text("Administrators register streams")).to_be_visible()

    expect(page.get_by_role("button", name="Offer as stream")).to_have_count(0)


def test_a_dagger_without_kafka_is_led_to_a_sink(visit: Opened) -> None:
    page = visit().open("/new/stream?of=completed_bookings", "Offer as stream")
    page.get_by_role("link", name="Publish to Kafka").click()

    expect(page.get_by_role("heading", level=1, name="Edit completed_bookings")).to_be_visible()
