"""Alerts of a real log, and silences: from an alert to one that holds it back, ended by who may."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from daggers.v1 import access_pb2, alerts_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2
from playwright.sync_api import Browser, expect
from tests.alertcallers import build_alert_log
from tests.portal.axe import violations
from tests.portal.conftest import Visit, quarantine, serving_site, visiting

from eventlog.memory import MemoryLog

Opened = Callable[..., Visit]


def build_log(*facts: alerts_pb2.AlertFired | alerts_pb2.AlertResolved) -> MemoryLog:
    """Build the log of a monitor that has found this."""
    began = datetime.now(UTC) - timedelta(minutes=10)
    return build_alert_log(alerts_pb2.MonitorStarted(monitor_id="one"), *facts, time=began)


def build_alert(dagger: str, condition: alerts_pb2.AlertCondition.ValueType) -> alerts_pb2.AlertFired:
    """Build the first alert of a dagger of pricing."""
    alert = alerts_pb2.AlertFired(
        meta=alerts_pb2.AlertMeta(epoch=0, dagger=dagger, condition=condition, incident=1),
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        team="pricing",
        receivers=["slack"],
        summary="no batch for 5 minutes",
        next="Look at its log.",
    )
    alert.since.FromDatetime(datetime.now(UTC) - timedelta(minutes=10))
    return alert


def give_a_channel(channel: grpc.Channel) -> None:
    """Give the team a channel of Slack: routes name receivers that there are."""
    slack = access_pb2.TeamReceiver(
        kind="slack", secrets={"url": spec_pb2.SecretRef(file="/run/daggers/secret")}
    )
    team = access_pb2.Team(name="pricing", contact="#pricing", receivers=[slack])
    gateway_pb2_grpc.AccessServiceStub(channel).RegisterTeam(
        gateway_pb2.RegisterTeamRequest(team=team), timeout=60
    )


@pytest.fixture(scope="module")
def alerting_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a portal whose gateway knows of two open alerts, and one that is over; yield its address."""
    over = build_alert("driver_supply", alerts_pb2.ALERT_CONDITION_FAILED)
    resolved = alerts_pb2.AlertResolved(meta=over.meta, summary="it runs again")
    log = build_log(
        build_alert("completed_bookings", alerts_pb2.ALERT_CONDITION_NO_PROGRESS),
        build_alert("driver_supply", alerts_pb2.ALERT_CONDITION_LAG_GROWING),
        over,
        resolved,
    )
    folder = tmp_path_factory.mktemp("alerting")
    with serving_site(folder, quarantine, give_a_channel, alerts=lambda: log) as address:
        yield address


@pytest.fixture
def visit_alerting(chromium: Browser, alerting_site: str) -> Iterator[Opened]:
    """Opens a window before that portal."""
    yield from visiting(chromium, alerting_site)


def test_alerts_that_are_over_are_shown_on_request(visit_alerting: Opened) -> None:
    page = visit_alerting().open("/alerts", "Alerts")
    rows = page.get_by_role("row").filter(has_text="no batch for 5 minutes")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("critical")
    page.get_by_label("Show resolved").check()
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="it runs again")).to_have_count(1)
    page.get_by_label("Show resolved").uncheck()

    expect(rows).to_have_count(2)


def test_an_alert_is_silenced_from_its_row_until_somebody_ends_that(
    visit_alerting: Opened, packages: Path
) -> None:
    one = visit_alerting(axe=True)
    one.refused = {400}  # without a reason
    page = one.open("/alerts", "Alerts")
    assert violations(page, packages) == []
    page.get_by_role("link", name="Silence no progress of completed_bookings").click()
    expect(page.get_by_role("heading", level=1, name="New silence")).to_be_visible()
    expect(page.get_by_label("Alerts of")).to_have_value("pricing")
    expect(page.get_by_label("Value 1")).to_have_value("completed_bookings")
    expect(page.get_by_label("Value 2")).to_have_value("no_progress")
    expect(page.get_by_text("It matches 1 open alert.")).to_be_visible()
    assert violations(page, packages) == []

    page.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_text("Say why, for whoever finds it at night.")).to_be_visible()
    page.get_by_role("combobox", name="For", exact=True).select_option("1 hour")
    page.get_by_label("Why").fill("new disk on host 2")
    page.get_by_role("button", name="Silence", exact=True).click()
    row = page.get_by_role("row").filter(has_text="new disk on host 2")
    expect(row).to_contain_text("Silent")
    expect(row).to_contain_text("condition=no_progress")
    expect(row.locator(".num")).to_have_text("1")
    assert violations(page, packages) == []

    page = one.open("/alerts", "Alerts")
    silenced = page.get_by_role("row").filter(has_text="completed_bookings")
    expect(silenced).to_contain_text("new disk on host 2")
    expect(page.get_by_role("link", name="Silence no progress of completed_bookings")).to_have_count(0)
    silenced.get_by_role("link", name="silenced until").click()
    page.get_by_role("button", name="End the silence of").click()
    expect(row).to_contain_text("1 open alert notified then.")
    page.get_by_role("button", name="End it").click()
    expect(page.get_by_text("Nothing is silenced: every alert is notified.")).to_be_visible()
    page.get_by_label("Show ended").check()

    expect(row).to_contain_text("Ended")
    expect(row).to_contain_text("ended by")
    expect(row.get_by_role("button")).to_have_count(0)


def test_a_silence_of_alerts_that_do_not_fire_yet_is_planned(visit_alerting: Opened) -> None:
    one = visit_alerting()
    page = one.open("/daggers/driver_supply?tab=alerts", "driver_supply")
    page.get_by_role("link", name="Silence its alerts").click()
    expect(page.get_by_text("It matches 1 open alert.")).to_be_visible()
    page.get_by_role("button", name="Add another").click()
    page.get_by_label("Value 2").fill("no_input")
    expect(page.get_by_text("It matches no alert that is open now.")).to_be_visible()
    begin = datetime.now(UTC) + timedelta(hours=3)
    page.get_by_label("From").fill(begin.strftime("%Y-%m-%dT%H:%M"))
    page.get_by_label("Why").fill("its topics move")
    page.get_by_role("button", name="Silence", exact=True).click()
    row = page.get_by_role("row").filter(has_text="its topics move")

    expect(row).to_contain_text("Planned")
    expect(row).to_contain_text(begin.strftime("%H:%M"))


def test_what_is_wrong_with_a_silence_stands_at_its_place(visit_alerting: Opened) -> None:
    one = visit_alerting()
    one.refused = {400}
    page = one.open("/new/silence?matcher=dagger%3Drides&matcher=dagre%3Dx", "New silence")
    expect(page.get_by_label("Value 2")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#fault-1")).to_contain_text("dagre")
    expect(page.get_by_label("Value 1")).to_have_attribute("aria-invalid", "false")
    page.get_by_role("button", name="Take out dagre x").click()
    expect(page.get_by_text("It matches no alert that is open now.")).to_be_visible()
    page.get_by_label("Value 1").fill("")
    page.get_by_role("button", name="Silence", exact=True).click()

    expect(page.get_by_role("alert")).to_contain_text("Say which alerts")


def test_an_alert_is_acknowledged_from_its_row_until_somebody_takes_that_back(
    visit_alerting: Opened, packages: Path
) -> None:
    one = visit_alerting(axe=True)
    page = one.open("/alerts", "Alerts")
    row = page.get_by_role("row").filter(has_text="driver_supply")
    row.get_by_role("button", name="Acknowledge lag growing of driver_supply").click()
    row.get_by_label("What you do").fill("moving its topic")
    row.get_by_role("combobox", name="For", exact=True).select_option("4 hours")
    assert violations(page, packages) == []
    page.set_viewport_size({"width": 1440, "height": 900})
    row.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(row).to_contain_text("moving its topic")
    expect(row).to_contain_text("by anonymous")
    expect(row).to_contain_text("until")
    assert violations(page, packages) == []
    page = one.open("/daggers/driver_supply?tab=alerts", "driver_supply")
    own = page.get_by_role("region", name="Alerts, open ones").get_by_role("row")
    expect(own.filter(has_text="moving its topic")).to_have_count(1)
    own.get_by_role("button", name="Take back: lag growing of driver_supply").click()

    expect(own.filter(has_text="moving its topic")).to_have_count(0)
    expect(own.get_by_role("button", name="Acknowledge lag growing of driver_supply")).to_be_visible()


def test_routes_of_a_team_are_reviewed_applied_and_explained(visit_alerting: Opened, packages: Path) -> None:
    one = visit_alerting(axe=True)
    one.refused = {400}
    page = one.open("/routes", "Routes of alerts")
    expect(page.get_by_role("row").filter(has_text="pricing")).to_contain_text("all receivers at once")
    assert violations(page, packages) == []
    page.get_by_role("link", name="pricing").click()
    expect(page.get_by_role("heading", level=1, name="pricing")).to_be_visible()
    page.get_by_role("button", name="Give it routes …").click()
    text = page.get_by_label("Routes, as JSON")
    text.fill('{"receivers": ["carrier-pigeon"]}')
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_role("alert")).to_contain_text("is no receiver of team pricing")
    text.fill(
        """{"receivers": ["slack"], "groupWait": "30s", "repeatInterval": "14400s", "routes": [
        {"match": ["severity=critical"], "groupBy": {"names": ["dagger"]}, "repeatInterval": "0s"}]}"""
    )
    page.get_by_label("Why").fill("one message for each dagger")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_text("2 open alerts would go elsewhere")).to_be_visible()
    assert violations(page, packages) == []
    page.get_by_role("button", name="Apply to pricing").click()
    tree = page.get_by_role("list", name="Routes")
    expect(tree).to_contain_text("notifies slack · first after 30 s · repeated every 4 h")
    expect(tree.get_by_role("listitem").filter(has_text="severity=critical").last).to_contain_text(
        "one message by dagger · never repeated"
    )
    would = page.get_by_role("region", name="Who would be notified")
    would.get_by_label("Dagger").select_option("driver_supply")
    would.get_by_role("button", name="Who would be notified?").click()
    answer = would.get_by_role("status")
    expect(answer).to_contain_text("pricing/slack")
    expect(answer).to_contain_text("severity=critical")
    expect(answer).to_contain_text("dagger = driver_supply")
    assert violations(page, packages) == []
    page.get_by_role("button", name="Change its routes …").click()
    text.fill("{}")
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Apply to pricing").click()
    revisions = page.get_by_role("listitem").filter(has_text="one message for each dagger")
    page.get_by_role("button", name="Begin with revision 1").click()

    expect(revisions).to_have_count(1)
    expect(text).to_have_value(re.compile('"severity=critical"'))


def test_a_phone_shows_all_of_an_alert_without_moving_it_aside(visit_alerting: Opened) -> None:
    one = visit_alerting()
    one.page.set_viewport_size({"width": 360, "height": 740})
    page = one.open("/alerts", "Alerts")
    row = page.get_by_role("row").filter(has_text="driver_supply")
    silence = row.get_by_role("link", name="Silence lag growing of driver_supply")
    for part in (row.get_by_text("Look at its log."), silence):
        box = part.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 360
