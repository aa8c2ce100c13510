"""Somebody of a team, by a real login: sees and changes the team's own, and nothing of another team's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import grpc
import pytest
import structlog
from daggers.v1 import access_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2
from playwright.sync_api import Browser, Page, expect
from tests.gateways import served
from tests.oidc.conftest import installed, issuer
from tests.portal.conftest import Visit, bearer, fill, quarantine, signed_in_at, visiting
from tests.portal.logins import log_in
from tests.portal.portal_studio import query
from tests.tenants import FILE, ROOT

from api_gateway.auth.oidc import OidcProvider, Verifier, build_fetch
from chassis.egress.addresses import EgressRules
from chassis.endpoint import Endpoint

__all__ = ["installed", "issuer"]  # fixtures

ADA = "user:ada@example.org"
THEIRS = "/daggers/of_delivery"
AS_ROOT = bearer(ROOT)


@dataclass(frozen=True)
class Enforced:
    """A gateway that enforces, and a portal before it."""

    site: str
    channel: grpc.Channel

    def end(self) -> int:
        """The sequence that the log ends at."""
        return max((sequence for sequence, _ in self._read(0)), default=0)

    def written(self, since: int) -> list[str]:
        """The types of the records behind a sequence."""
        return [name.rpartition(".")[2] for _, name in self._read(since)]

    def _read(self, since: int) -> list[tuple[int, str]]:
        asked = gateway_pb2.WatchEventsRequest(since_sequence=since, until_end=True)
        told = gateway_pb2_grpc.DaggerServiceStub(self.channel).WatchEvents(
            asked, timeout=60, metadata=AS_ROOT
        )
        return [(step.event.sequence, step.event.type) for step in told if step.HasField("event")]

    def say(self, role: access_pb2.Role.ValueType) -> None:
        """Give ada this role in pricing instead of another."""
        access = gateway_pb2_grpc.AccessServiceStub(self.channel)
        asked = gateway_pb2.GrantRoleRequest(team="pricing", principal=ADA, role=role)
        access.GrantRole(asked, timeout=60, metadata=AS_ROOT)


@pytest.fixture(scope="module")
def enforced(issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enforced]:
    """Ada edits what is pricing's; a dagger and a stream are delivery's, who alone may read it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    folder = tmp_path_factory.mktemp("teams")
    verifier = Verifier(OidcProvider(issuer, "daggers", "email"), build_fetch(issuer, EgressRules()))
    endpoint, database = Endpoint("127.0.0.1:0", tokens=lambda: FILE), f"sqlite:///{folder}/gateway.db"
    with (
        served(endpoint, database, quarantine=quarantine, verifier=verifier, enforce=True) as port,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        fill(channel, folder, ROOT)
        share(channel)
        with signed_in_at(issuer, f"127.0.0.1:{port}", folder) as address:
            yield Enforced(address, channel)
    structlog.reset_defaults()


def share(channel: grpc.Channel) -> None:
    """Register what is delivery's."""
    access = gateway_pb2_grpc.AccessServiceStub(channel)
    catalog = gateway_pb2_grpc.CatalogServiceStub(channel)
    daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
    delivery = gateway_pb2.RegisterTeamRequest(team=access_pb2.Team(name="delivery"))
    access.RegisterTeam(delivery, timeout=60, metadata=AS_ROOT)
    stream = spec_pb2.Stream(
        name="parcels", cluster="local", topics=["parcel-log"], message="examples.v1.Booking"
    )
    stream.time_field = "event_timestamp"
    registered = gateway_pb2.RegisterStreamRequest(stream=stream)
    catalog.RegisterStream(registered, timeout=60, metadata=AS_ROOT)
    grant = access_pb2.StreamGrant(stream="parcels", restricted=True, teams=["delivery"])
    access.SetStreamGrant(gateway_pb2.SetStreamGrantRequest(grant=grant), timeout=60, metadata=AS_ROOT)
    known = gateway_pb2.GetDaggerRequest(name="driver_supply")
    spec = daggers.GetDagger(known, timeout=60, metadata=AS_ROOT).dagger.spec
    spec.team, spec.sinks[0].influx.measurement, spec.consumer_group = "delivery", "of_delivery", ""
    spec.streams[0].stream = "parcels"
    theirs = gateway_pb2.CreateDaggerRequest(name="of_delivery", spec=spec)
    daggers.CreateDagger(theirs, timeout=60, metadata=AS_ROOT)


@pytest.fixture
def ada(chromium: Browser, enforced: Enforced) -> Iterator[Visit]:
    """Ada, who has logged in, and edits what is pricing's."""
    enforced.say(access_pb2.ROLE_EDITOR)
    for opened in visiting(chromium, enforced.site):
        one = opened()
        log_in(one, "ada")
        yield one


def refusal(page: Page, of: str) -> None:
    """Wait until the page says that something is refused, in the gateway's words."""
    told = page.get_by_role("main").get_by_role("alert").filter(has_text="You may not see this").first
    expect(told).to_contain_text(of)


def test_who_logs_in_is_known_and_who_logs_out_stays_out(ada: Visit) -> None:
    """The provider still knows them: it would let them in again at once."""
    ada.refused = {401}  # what the page asks for while its session ends
    page = ada.page
    menu = page.get_by_role("navigation", name="Main")
    expect(menu).to_contain_text(ADA)
    expect(menu).to_contain_text("pricing · editor")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    menu.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("You are logged out of these pages.")).to_be_visible()
    for path in ("/", THEIRS):
        page.goto(f"{ada.site}{path}")
        expect(page.get_by_text("You are logged out of these pages.")).to_be_visible()

    assert page.evaluate("fetch('/auth/me').then(answer => answer.json())")["name"] is None
    assert [url for url in asked if "/auth/login" in url] == []
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Continue").click()  # without a password
    expect(page.get_by_role("heading", level=1, name="of_delivery")).to_be_visible()
    expect(menu).to_contain_text(ADA)


def test_another_teams_dagger_is_seen_and_its_things_are_refused(ada: Visit, enforced: Enforced) -> None:
    ada.refused = {403}
    before = enforced.end()
    page = ada.open(THEIRS, "of_delivery")
    expect(page.get_by_text("Changed by editors of delivery")).to_be_visible()
    for offered in ("Stop", "Restart", "Start", "Delete"):
        expect(page.get_by_role("button", name=offered, exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    refusal(page, "delivery")
    for tab in ("Quarantine", "Log", "Revisions"):
        page.get_by_role("tab", name=tab).click()
        refusal(page.get_by_role("tabpanel").page, "delivery")
    page.get_by_role("tab", name="Query").click()
    expect(page.get_by_text("Specifications are shown to the members of the team.")).to_be_visible()
    page = ada.open(f"{THEIRS}/edit", "Edit of_delivery")
    refusal(page, "Specifications are shown to the members of delivery.")
    expect(page.get_by_role("button", name="Review")).to_have_count(0)

    assert enforced.written(before) == []


def test_a_stream_that_is_closed_is_neither_sampled_nor_previewed(ada: Visit, enforced: Enforced) -> None:
    ada.refused = {403}
    before = enforced.end()
    page = ada.open("/new?message=examples.v1.Booking&streams=parcels&cluster=local", "New dagger")
    query(page, "SELECT order_number FROM `bookings`")
    page.keyboard.press("Control+Enter")
    refusal(page.get_by_role("region", name="Preview", exact=True).page, "parcels")
    page.get_by_placeholder("Name", exact=True).fill("of_parcels")
    page.get_by_role("button", name="Review and create").click()
    refusal(page, "parcels")
    expect(page.get_by_role("button", name="Create of_parcels")).to_have_count(0)

    assert enforced.written(before) == []


def test_a_role_that_is_taken_away_while_a_page_is_open_is_missed_at_the_next_press(
    ada: Visit, enforced: Enforced
) -> None:
    ada.refused = {403}
    page = ada.open("/daggers/driver_supply", "driver_supply")
    page.get_by_role("button", name="Stop", exact=True).click()
    enforced.say(access_pb2.ROLE_VIEWER)
    before = enforced.end()
    page.get_by_role("button", name="Stop it").click()
    refusal(page, "pricing")

    assert enforced.written(before) == []


def test_the_own_teams_dagger_is_stopped(ada: Visit, enforced: Enforced) -> None:
    before = enforced.end()
    page = ada.open("/daggers/driver_supply", "driver_supply")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop it").click()
    expect(page.get_by_role("region", name="History").get_by_text("stop requested")).to_be_visible()

    assert enforced.written(before) == ["StopRequested"]


def test_who_is_no_administrator_makes_daggers_and_no_clusters(ada: Visit) -> None:
    page = ada.open("/clusters", "Clusters")
    expect(page.get_by_role("row").filter(has_text="local")).to_be_visible()
    expect(page.get_by_role("link", name="New cluster")).to_have_count(0)
    page = ada.open("/new?message=examples.v1.Booking&streams=bookings&cluster=local", "New dagger")

    expect(page.get_by_label("Team").get_by_role("option")).to_have_text(["pricing"])


def test_an_editor_silences_alerts_of_the_own_team_alone(ada: Visit, enforced: Enforced) -> None:
    page = ada.open("/new/silence?team=delivery", "New silence")
    expect(page.get_by_label("Alerts of").get_by_role("option")).to_have_text(["pricing"])
    page.get_by_label("Value 1").fill("driver_supply")
    page.get_by_label("Why").fill("new disk")
    page.get_by_role("button", name="Silence", exact=True).click()
    row = page.get_by_role("row").filter(has_text="new disk")
    expect(row).to_contain_text(ADA)
    expect(row.get_by_role("button")).to_be_visible()
    enforced.say(access_pb2.ROLE_VIEWER)
    page = ada.open("/silences", "Silences")
    expect(row).to_contain_text("pricing")
    expect(row.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("link", name="New silence")).to_have_count(0)
    page = ada.open("/new/silence", "New silence")

    expect(page.get_by_text("Editors of a team silence its alerts, and you are one of none.")).to_be_visible()
