"""A real browser in front of a real portal and a real gateway, whose log is in memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from daggers.v1 import access_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2
from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from playwright.sync_api import Browser, Page, expect
from tests.contracts.quarantine import set_aside
from tests.gateways import served
from tests.integration.faults import until
from tests.portal import browser
from tests.portal.axe import CHECKLIST, PICTURES

from api_gateway.quarantine.memory import MemoryQuarantine
from chassis.endpoint import Endpoint
from devstack.ports import choose
from eventlog import Log
from eventlog.memory import MemoryLog
from portal.pages import STATIC

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WITHIN_MS = 60_000
expect.set_options(timeout=WITHIN_MS)  # else 5 s, whatever the pages have
_ANSWERED = re.compile(r"^Failed to load resource: the server responded with a status of (\d+)")
QUERY = (
    "SELECT city_id AS tag_city, count(1) AS orders,"
    " TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp"
    " FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), city_id"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say where the pages that are judged are pictured."""
    parser.addoption("--pictures", type=Path, help="a folder for a picture of each page that is judged")


@pytest.fixture(autouse=True)
def _take_pictures(request: pytest.FixtureRequest) -> None:
    """Picture what this test judges, where pictures are asked for."""
    PICTURES.folder = request.config.getoption("pictures", None)
    PICTURES.test = request.node.name


@pytest.fixture(scope="session")
def packages() -> Path:
    """Return the folder with Chromium and axe."""
    return browser.installed()


# Playwright leaves an event loop running in its thread, in which no test with a loop of its own could begin.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Yield a browser. Without one the tests fail."""
    with browser.chromium() as started:
        yield started


@contextmanager
def portal(gateway: str, folder: Path, **more: str) -> Iterator[str]:
    """Serve a portal, without a login unless `more` settings say where: its address."""
    told = {"BIND": "127.0.0.1:0", "GATEWAY": gateway, "STATE_DIR": str(folder / "portal"), **more}
    with running("portal", {f"DAGGERS_PORTAL_{name}": value for name, value in told.items()}, folder) as at:
        yield f"http://{at}"


@contextmanager
def signed_in_at(issuer: str, gateway: str, folder: Path) -> Iterator[str]:
    """Serve a portal where people log in at a provider, which sends them back to its address."""
    bind = f"127.0.0.1:{choose(['portal'], {})['portal']}"
    with portal(gateway, folder, BIND=bind, OIDC_ISSUER=issuer, OIDC_CLIENT_ID="daggers") as address:
        yield address


@contextmanager
def running(name: str, env: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Run a service with these settings, its log in NAME.log; yield where it says that it serves."""
    written = folder / f"{name}.log"
    with written.open("w+") as log:
        process = subprocess.Popen([sys.executable, "-m", name], env={"PATH": os.defpath, **env}, stderr=log)
        try:
            until(lambda: process.poll() is not None or _address(written) is not None)
            address = _address(written)
            assert address is not None, written.read_text()
            yield address
        finally:
            process.terminate()
            process.wait(60)


def _address(log: Path) -> str | None:
    lines = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return next((line["address"] for line in lines if line["event"] == "service.started"), None)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a portal whose gateway has a cluster, a schema, a stream, a team, two daggers."""
    with serving_site(tmp_path_factory.mktemp("portal"), quarantine) as address:
        yield address


@contextmanager
def serving_site(
    folder: Path,
    quarantine: Callable[[], MemoryQuarantine],
    change: Callable[[grpc.Channel], None] = lambda _: None,
    *,
    filled: bool = True,
    alerts: Callable[[], Log] = MemoryLog,
) -> Iterator[str]:
    """Serve that portal with this quarantine, once its gateway was changed; yield its address.

    filled: whether anything is registered.
    alerts: the log of alerts.
    """
    assert (STATIC / "index.html").exists(), "the pages are not built: make web"
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    with (
        served(
            Endpoint("127.0.0.1:0"), f"sqlite:///{folder}/gateway.db", alerts=alerts, quarantine=quarantine
        ) as port,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        if filled:
            fill(channel, folder)
        change(channel)
        with portal(f"127.0.0.1:{port}", folder) as address:
            yield address
    structlog.reset_defaults()


def quarantine() -> MemoryQuarantine:
    """Records that a dagger has set aside: three of one reason."""
    topic = MemoryQuarantine()
    for number in range(1, 4):
        fields = {"id": f"{number:032x}", "stage": "decode", "reason": "NOT_PROTOBUF", "topic": "booking-log"}
        more = {"offset": number, "value": b"\xff\xfe", "detail": "the record is no examples.v1.Booking"}
        record = set_aside("completed_bookings", number, **fields, **more)
        topic.place(0, *record, time_ms=round(time.time() * 1000))
    return topic


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata that shows the gateway a token."""
    return (("authorization", f"Bearer {token}"),)


def fill(channel: grpc.Channel, folder: Path, token: str = "") -> None:
    """Register what the pages show, with the token of who may."""
    how: dict[str, Any] = {"timeout": 60, "metadata": bearer(token) if token else ()}
    catalog = gateway_pb2_grpc.CatalogServiceStub(channel)
    daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
    access = gateway_pb2_grpc.AccessServiceStub(channel)
    compiled, schemas = folder / "booking.desc", ROOT / "examples" / "schemas"
    words = [f"-I{schemas}", f"-I{resources.files('grpc_tools') / '_proto'}", "--include_imports"]
    assert (
        protoc.main(["protoc", *words, f"--descriptor_set_out={compiled}", str(schemas / "booking.proto")])
        == 0
    )
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
    cluster = spec_pb2.Cluster(
        name="local",
        kafka=spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:9092"),
        spark_master="local[2]",
        influx=spec_pb2.InfluxAddress(url="http://127.0.0.1:8086", bucket="daggers"),
    )
    stream = spec_pb2.Stream(
        name="bookings",
        cluster="local",
        topics=["booking-log"],
        message="examples.v1.Booking",
        time_field="event_timestamp",
    )
    quotas = access_pb2.Quotas(daggers=access_pb2.Quota(soft=1, hard=40))
    sink = spec_pb2.RegisteredSink(
        name="archive", sink=spec_pb2.Sink(http=spec_pb2.HttpSink(url="https://archive.example.com/rows"))
    )
    areas = spec_pb2.ReferenceTable(
        name="areas", format=spec_pb2.ReferenceTable.FORMAT_JSON, location="/tables/areas.json"
    )
    team = access_pb2.Team(name="pricing", contact="#pricing", quotas=quotas)
    catalog.RegisterCluster(gateway_pb2.RegisterClusterRequest(cluster=cluster), **how)
    catalog.RegisterSchema(gateway_pb2.RegisterSchemaRequest(schema=spec_pb2.Schema(files=files)), **how)
    catalog.RegisterStream(gateway_pb2.RegisterStreamRequest(stream=stream), **how)
    catalog.RegisterReference(gateway_pb2.RegisterReferenceRequest(reference=areas), **how)
    gateway_pb2_grpc.SinkServiceStub(channel).RegisterSink(gateway_pb2.RegisterSinkRequest(sink=sink), **how)
    access.RegisterTeam(gateway_pb2.RegisterTeamRequest(team=team), **how)
    for name in ("completed_bookings", "driver_supply"):
        spec = spec_pb2.DaggerSpec(
            team="pricing",
            cluster="local",
            streams=[spec_pb2.StreamInput(table="data_stream", stream="bookings")],
            sql=QUERY,
            sinks=[spec_pb2.Sink(influx=spec_pb2.InfluxSink(measurement=name))],
        )
        daggers.CreateDagger(gateway_pb2.CreateDaggerRequest(name=name, spec=spec), **how)


@dataclass
class Visit:
    """A page that is open, and what it complained of."""

    page: Page
    site: str
    complaints: list[str] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    """Statuses that calls of the test are answered with: the browser itself tells of each such answer."""

    def heard(self, kind: str, text: str, url: str) -> None:
        """What its console says; not of what a provider's pages do, nor of answers that the test asks for."""
        answer = _ANSWERED.search(text)
        if answer and int(answer[1]) in self.refused:
            return
        if kind in ("error", "warning") and (not url or url.startswith(self.site)):
            self.complaints.append(f"{text} ({url})")

    def open(self, path: str, heading: str) -> Page:
        """Go to an address, until the page has this heading."""
        self.page.goto(f"{self.site}{path}")
        self.page.get_by_role("heading", name=heading, level=1).wait_for()
        return self.page


def visiting(chromium: Browser, site: str) -> Iterator[Callable[..., Visit]]:
    """Opens windows of a portal. What their consoles say of its pages is an error of the test."""
    opened: list[Visit] = []

    def begun(*, axe: bool = False, beside: Visit | None = None) -> Visit:
        context = (
            beside.page.context
            if beside
            else chromium.new_context(
                viewport={"width": 1440, "height": 900},
                reduced_motion="reduce",
                locale="en-GB",
                timezone_id="UTC",
                bypass_csp=axe,  # axe is put into the page, which its policy forbids
            )
        )
        context.set_default_timeout(WITHIN_MS)
        one = Visit(context.new_page(), site)
        one.page.on("console", lambda said: one.heard(said.type, said.text, said.location["url"]))
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        opened.append(one)
        return one

    yield begun
    for each in opened:
        is_shown = not each.page.is_closed() and each.page.url.startswith(each.site)
        faults = each.page.evaluate(CHECKLIST) if is_shown else []
        if is_shown:
            PICTURES.take_all(each.page)
        each.page.context.close()
        assert [*each.complaints, *faults] == []


@pytest.fixture
def visit(chromium: Browser, site: str) -> Iterator[Callable[..., Visit]]:
    """Opens a window, or a tab beside another one; `axe`: one that axe may be put into."""
    yield from visiting(chromium, site)
