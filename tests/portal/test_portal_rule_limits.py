"""Limits of a reference table, and templates of conditions, in the form of a rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, preview_pb2, rules_pb2
from playwright.sync_api import Locator, Page, Route, expect
from tests.portal.answers import answer
from tests.portal.axe import violations
from tests.portal.conftest import Visit, quarantine, serving_site
from tests.portal.portal_live import ENVELOPE
from tests.portal.portal_studio import PREVIEW

Opened = Callable[..., Visit]
WRITTEN = rules_pb2.AlertRule(
    name="too_many",
    when="orders > most OR orders < least",
    limits=rules_pb2.RuleLimits(reference="areas", key=["tag_city"], columns=["most", "least"]),
)


def add_rule(channel: grpc.Channel) -> None:
    """Give driver_supply a rule with limits, as a file of it would."""
    daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
    dagger = daggers.GetDagger(gateway_pb2.GetDaggerRequest(name="driver_supply"), timeout=60).dagger
    dagger.spec.alerts.append(WRITTEN)
    request = gateway_pb2.UpdateDaggerRequest(
        name=dagger.name, spec=dagger.spec, expected_version=dagger.version
    )
    daggers.UpdateDagger(request, timeout=60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a portal with a reference table, and a rule that reads it."""
    with serving_site(tmp_path_factory.mktemp("limits"), quarantine, add_rule) as address:
        yield address


def record_tests(page: Page) -> list[preview_pb2.PreviewDaggerRequest]:
    """Answer tests of rules with nothing; return a list of their requests, which goes on."""
    requests: list[preview_pb2.PreviewDaggerRequest] = []

    def record(route: Route) -> None:
        body: Any = route.request.post_data_buffer
        requests.append(preview_pb2.PreviewDaggerRequest.FromString(body[ENVELOPE:]))
        done = preview_pb2.PreviewDone(reason="REASON_END_OF_RANGE")
        answer(route, [preview_pb2.PreviewDaggerResponse(done=done)])

    page.route(PREVIEW, record)
    return requests


def review(page: Page) -> Locator:
    """Ask for the plan of the rules; return where it stands if nothing is wrong with them."""
    page.get_by_role("button", name="Review", exact=True).click()
    return page.get_by_role("group", name="New rules")


def test_a_rule_reads_the_limits_of_a_table(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    requests = record_tests(one.page)
    page = one.open("/daggers/completed_bookings?tab=rules", "completed_bookings")
    page.get_by_role("button", name="Add a rule").click()
    page.get_by_label("Name", exact=True).fill("too_many")
    form = page.get_by_role("region", name="The rule")
    table = form.get_by_role("combobox", name="Limits of a table")
    expect(table.locator("option")).to_have_text(["none", "areas"])
    table.press("ArrowDown")
    key = form.get_by_role("group", name="Key of the table").get_by_label("tag_city")
    expect(key).to_be_checked()  # the only tag
    expect(form.get_by_text("Now: tag_city.")).to_be_visible()
    key.press("Space")
    form.get_by_role("combobox", name="Template").select_option("above the limit of the table")
    when = form.get_by_label("True when")
    expect(when).to_have_value("orders > `limit`")
    expect(form.locator(".bad")).to_have_count(0)  # nobody has chosen a key yet
    review(page)
    expect(form.get_by_text("The key of the table is required")).to_be_visible()
    assert violations(page, packages) == []
    key.check()

    columns = form.get_by_label("Columns of the table")
    columns.fill("orders")
    expect(form.get_by_text("The query has a column orders, too")).to_be_visible()
    columns.fill("most, ")
    expect(form.get_by_text("There is no column limit")).to_be_visible()
    form.get_by_role("combobox", name="Template").select_option("above the limit of the table")
    expect(when).to_have_value("orders > `most`")
    expect(form.locator(".bad")).to_have_count(0)
    page.get_by_role("button", name="Test the rules").click()
    expect(page.get_by_text("0 records read.")).to_be_visible()
    limits = rules_pb2.RuleLimits(reference="areas", key=["tag_city"], columns=["most"])
    assert [request.spec.alerts[0].limits for request in requests] == [limits]

    review(page).get_by_role("button", name="Save the rules").click()
    row = page.get_by_role("region", name="Rules", exact=True).locator("tbody tr")
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(row).to_contain_text("orders > `most`, limits of areas by tag_city")
    page.get_by_role("button", name="Edit too_many").click()
    expect(table).to_have_value("areas")
    expect(columns).to_have_value("most")
    table.select_option("none")
    expect(columns).to_have_count(0)
    expect(form.get_by_text("There is no column most")).to_be_visible()


def test_each_template_is_a_condition_that_nothing_is_wrong_with(visit: Opened) -> None:
    page = visit().open("/daggers/completed_bookings?tab=rules", "completed_bookings")
    page.get_by_role("button", name="Add a rule").click()
    page.get_by_label("Name", exact=True).fill("jump")
    when = page.get_by_label("True when")
    when.fill("orders > 1000")
    template = page.get_by_role("combobox", name="Template")
    expect(template.locator("option")).to_have_count(4)
    for title in template.locator("option").all_text_contents()[1:]:
        template.select_option(title)
        expect(when).to_have_value(re.compile(r"before\('\d+d', orders\)|^outside\(orders"))
        expect(review(page)).to_be_visible()
    template.select_option("none")

    expect(when).to_have_value("orders > 1000")


def test_an_edit_leaves_the_limits_of_a_file_as_they_were(visit: Opened) -> None:
    one = visit()
    requests = record_tests(one.page)
    page = one.open("/daggers/driver_supply?tab=rules", "driver_supply")
    page.get_by_role("button", name="Edit too_many").click()
    expect(page.get_by_label("Columns of the table")).to_have_value("most, least")
    page.get_by_label("Severity").select_option("critical")
    page.get_by_role("button", name="Test the rules").click()
    expect(page.get_by_text("0 records read.")).to_be_visible()

    changed = rules_pb2.AlertRule(severity=rules_pb2.RULE_SEVERITY_CRITICAL)
    changed.MergeFrom(WRITTEN)
    assert [list(request.spec.alerts) for request in requests] == [[changed]]
