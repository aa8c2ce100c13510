"""Pages say once what does not answer, in one sentence, since when; and go on by themselves."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import grpc
import pytest
import structlog
from daggers.v1 import dagger_pb2, dagger_service_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc, output_pb2
from playwright.sync_api import Browser, Route, expect
from tests.gateways import served
from tests.portal.answers import answer, answer_once
from tests.portal.conftest import Visit, fill, portal, visiting
from tests.proxy import Proxy

from chassis.endpoint import Endpoint
from devstack.ports import choose
from eventlog import Draft
from eventlog.memory import MemoryLog

Opened = Callable[..., Visit]
SINCE = re.compile(r"since .*\d\d:\d\d:\d\d UTC")


@dataclass
class CuttableGateway:
    """A gateway behind a proxy that can be cut, which looks to a portal as if it were stopped."""

    proxy: Proxy
    deaf: str = ""
    """Name of the system that it says it does not hear from; empty if it hears all."""

    @contextmanager
    def away(self) -> Iterator[None]:
        """Cut the gateway off while the context is open: it does not answer."""
        self.proxy.cut()
        try:
            yield
        finally:
            self.proxy.open()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CuttableGateway, str]]:
    """Serve a gateway that knows what the pages show; yield it and the address of a portal before it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    folder = tmp_path_factory.mktemp("truth")
    deaf: list[CuttableGateway] = []
    away = lambda: deaf[0].deaf if deaf else ""  # noqa: E731 - told by the test, once there is one
    database = f"sqlite:///{folder}/gateway.db"
    with (
        served(Endpoint("127.0.0.1:0"), database, away=away) as port,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
        Proxy(port) as proxy,
        portal(f"127.0.0.1:{proxy.port}", folder) as address,
    ):
        fill(channel, folder)
        deaf.append(CuttableGateway(proxy))
        yield deaf[0], address
    structlog.reset_defaults()


@pytest.fixture
def gateway(world: tuple[CuttableGateway, str]) -> CuttableGateway:
    """Return the gateway."""
    return world[0]


@pytest.fixture
def site(world: tuple[CuttableGateway, str]) -> str:
    """Return the address of the portal."""
    return world[1]


@pytest.fixture
def visit(chromium: Browser, site: str) -> Iterator[Callable[..., Visit]]:
    """Yield a function that opens windows of the browser at this portal."""
    yield from visiting(chromium, site)


@pytest.mark.parametrize(
    ("path", "heading"),
    [
        ("/daggers/completed_bookings", "completed_bookings"),
        ("/", "Daggers"),
        ("/alerts", "Alerts"),
        ("/teams/pricing", "pricing"),
        ("/clusters", "Clusters"),
    ],
)
def test_a_gateway_that_is_away_is_said_once_and_the_page_goes_on_when_it_is_back(
    visit: Opened, gateway: CuttableGateway, path: str, heading: str
) -> None:
    one = visit()
    one.refused = {503}
    page = one.open(path, heading)
    expect(page.get_by_text("Reading", exact=False)).to_have_count(0)
    outage = page.locator(".outage")
    with gateway.away():
        expect(outage).to_contain_text("The gateway has not answered")
        expect(outage).to_contain_text(SINCE)
        # What a part of the page failed for before is told until it fails for this.
        expect(page.get_by_role("alert")).to_have_count(1)
        assert "connect to all addresses" not in page.content()

    expect(outage).to_have_count(0)


def test_pages_go_on_after_a_restart_of_the_gateway(chromium: Browser, tmp_path: Path) -> None:
    log = MemoryLog()
    place = f"127.0.0.1:{choose(['gateway'], {})['gateway']}"
    gateway = partial(served, Endpoint(place), f"sqlite:///{tmp_path}/gateway.db", lambda: log)
    with (
        portal(place, tmp_path) as address,
        contextmanager(visiting)(chromium, address) as visit,
    ):
        with gateway() as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            fill(channel, tmp_path)
            visits = [visit() for _ in range(2)]
            for one in visits:
                one.refused = {503}
            of_all = visits[0].open("/", "Daggers")
            of_one = visits[1].open("/daggers/completed_bookings", "completed_bookings")
            card = of_all.get_by_role("listitem").filter(has_text="completed_bookings")
            expect(card).to_contain_text("influx completed_bookings")
        for page in (of_all, of_one):
            expect(page.locator(".outage")).to_contain_text("The gateway has not answered")
        # Meanwhile the log goes on without it.
        meanwhile = Draft("started", "/test", "s", datetime.now(UTC), events_pb2.SchedulerStarted(host="a"))
        log.place(meanwhile.headers(), meanwhile.message.SerializeToString())
        with gateway() as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = gateway_pb2_grpc.DaggerServiceStub(channel)
            request = gateway_pb2.GetDaggerRequest(name="completed_bookings")
            spec = stub.GetDagger(request, timeout=60).dagger.spec
            spec.sinks[0].influx.measurement = "by_another_name"
            stub.UpdateDagger(
                gateway_pb2.UpdateDaggerRequest(name="completed_bookings", spec=spec), timeout=60
            )
            stub.StopDagger(gateway_pb2.StopDaggerRequest(name="completed_bookings"), timeout=60)

            for page in (of_all, of_one):
                expect(page.locator(".outage")).to_have_count(0)
            expect(card).to_contain_text("influx by_another_name")
            history = of_one.get_by_role("region", name="History")
            expect(history.get_by_text("stop requested")).to_have_count(1)


def test_a_page_is_not_loaded_anew_while_the_gateway_is_away(visit: Opened, gateway: CuttableGateway) -> None:
    one = visit()
    one.refused = {503}
    page = one.open("/new", "New dagger")
    page.get_by_placeholder("Name", exact=True).fill("typed")
    # The page asks every few seconds whether it is answered: what is refused then is no file that is missing.
    with gateway.away(), page.expect_response(lambda each: "WhoAmI" in each.url and each.status == 503):
        pass
    expect(page.locator(".outage")).to_contain_text("The gateway has not answered")
    expect(page.get_by_placeholder("Name", exact=True)).to_have_value("typed")
    expect(page.locator(".outage")).to_have_count(0)


def test_a_page_that_is_opened_while_the_gateway_is_away_begins_when_it_is_back(
    visit: Opened, gateway: CuttableGateway
) -> None:
    one = visit()
    one.refused = {503}
    with gateway.away():
        one.page.goto(f"{one.site}/streams")
        expect(one.page.get_by_role("alert")).to_contain_text("The gateway does not answer")
        expect(one.page.get_by_role("alert")).to_have_count(1)

    expect(one.page.get_by_role("row").filter(has_text="booking-log")).to_be_visible()
    expect(one.page.get_by_role("alert")).to_have_count(0)


def test_a_kafka_that_is_away_is_said_once_with_since_when(visit: Opened, gateway: CuttableGateway) -> None:
    one = visit()
    page = one.open("/clusters", "Clusters")
    expect(page.get_by_role("row").filter(has_text="local[2]")).to_be_visible()
    gateway.deaf = "the Kafka of the log does not answer"
    try:
        outage = page.get_by_role("alert")
        expect(outage).to_contain_text("The Kafka of the log does not answer since")
        expect(outage).to_have_count(1)
        expect(outage).to_contain_text("what is shown is of then")
    finally:
        gateway.deaf = ""

    expect(page.get_by_role("alert")).to_have_count(0)


def test_nothing_is_called_well_while_kafka_is_away(visit: Opened, gateway: CuttableGateway) -> None:
    page = visit().open("/", "Daggers")
    wellbeing = page.get_by_role("region", name="Is all well?")
    expect(wellbeing).to_contain_text("Nothing is wrong")
    gateway.deaf = "the Kafka of the log does not answer"
    try:
        expect(wellbeing).to_contain_text("Last known")
        expect(wellbeing).not_to_contain_text("Nothing is wrong")
    finally:
        gateway.deaf = ""

    expect(wellbeing).to_contain_text("Nothing is wrong")


def test_a_host_that_is_away_is_said_once_with_since_when(visit: Opened) -> None:
    one = visit()
    rows = re.compile("DaggerService/(ReadRows|WatchRows)")
    away = "the host a, which has its driver, does not answer"
    one.page.route(rows, lambda route: answer(route, [], unavailable=away))
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The host a, which has its driver, does not answer, since")
    expect(alert).to_have_count(1)
    page.unroute(rows)
    page.route(rows, lambda route: answer(route, [output_pb2.ReadRowsResponse()]))

    expect(alert).to_have_count(0)


def test_a_session_that_has_ended_is_said_once(visit: Opened) -> None:
    one = visit()
    one.refused = {401}
    page = one.open("/clusters", "Clusters")

    def refuse(route: Route) -> None:
        error = '{"code": "unauthenticated", "message": "The session has ended: log in again."}'
        route.fulfill(status=401, body=error, content_type="application/json")

    page.route(re.compile("/api/"), refuse)
    expect(page.get_by_role("alert")).to_contain_text("Your session has ended")
    expect(page.get_by_role("button", name="Log in")).to_have_count(1)
    page.unroute(re.compile("/api/"))

    expect(page.get_by_role("alert")).to_have_count(0)


def test_numbers_that_stand_still_are_greyed_with_their_age(visit: Opened) -> None:
    one = visit()
    heartbeat_s = time.time() - 720

    def got(route: Route) -> None:
        response = dagger_service_pb2.GetDaggerResponse.FromString(route.fetch().body())
        response.dagger.phase = dagger_pb2.RUNNING
        response.dagger.vitals.dagger = response.dagger.name
        response.dagger.vitals.lag = 1_204
        response.dagger.vitals.heard_time.FromSeconds(int(heartbeat_s))
        response.dagger.vitals.watermark.FromSeconds(int(heartbeat_s) - 12)
        answer_once(route, response)

    one.page.route(re.compile("DaggerService/GetDagger"), got)
    page = one.open("/daggers/completed_bookings", "completed_bookings")
    facts = page.locator(".facts")
    expect(facts).to_contain_text("1,204")
    expect(facts).to_contain_text("records, 12 s")
    expect(facts).to_have_class(re.compile("still"))
    expect(
        page.get_by_text(re.compile(r"These numbers stand still: as of .* UTC, 12 min ago\."))
    ).to_be_visible()
    expect(page.locator("header .pill")).to_have_class(re.compile("idle"))
    muted = page.locator("header .muted").first.evaluate("each => getComputedStyle(each).color")
    assert facts.locator("b").first.evaluate("each => getComputedStyle(each).color") == muted
    heartbeat_s = time.time()

    expect(facts).not_to_have_class(re.compile("still"))
    expect(page.locator("header .pill")).to_have_class(re.compile("good"))
