"""A rule on the rows of a dagger that runs, from a limit on its chart to what fires, on the real stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from conftest import Stack
from playwright.sync_api import Browser, Page, expect
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli, runs
from tests.portal.conftest import Visit, visiting
from tests.portal.portal_stack import LAUNCH_MS, fed, serving_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]  # a stack may start within it

QUERY = """\
SELECT city_id AS tag_city, count(1) AS orders,
       TUMBLE_END(rowtime, INTERVAL '5' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '5' SECOND), city_id"""
CITIES = {"tag_city=1", "tag_city=2", "tag_city=3"}


@pytest.fixture(scope="module")
def address(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a portal on the stack; give its address."""
    with serving_stack(stack, tmp_path_factory.mktemp("rules")) as at:
        yield at


@pytest.fixture
def visit(chromium: Browser, address: str) -> Iterator[Callable[..., Visit]]:
    """Opens a window before that portal."""
    yield from visiting(chromium, address)


def limit_to_rule(page: Page) -> None:
    """Draw a limit that all rows are above, and make a rule of it."""
    page.get_by_role("button", name="Draw a limit").click(timeout=LAUNCH_MS)
    typed = page.get_by_role("spinbutton", name="Limit of orders")
    typed.fill("0")
    typed.press("Tab")
    expect(page.get_by_role("slider", name="Limit of orders")).to_have_attribute("aria-valuenow", "0")
    page.get_by_role("button", name="Alert above this line").click()
    expect(page.get_by_label("True when")).to_have_value("orders > 0")


def try_rule(page: Page) -> set[str]:
    """Test the rule over the last hour; return the keys that it would have fired for."""
    page.get_by_role("button", name="Test the rules").click()
    trial = page.get_by_role("region", name="Would have fired", exact=True)
    expect(trial).to_contain_text("orders_high would have fired 3 times", timeout=LAUNCH_MS)
    expect(trial.locator(".legend")).to_contain_text("would have fired")
    cells = trial.get_by_role("region", name="Firings").locator("tbody td:nth-child(2)")
    return set(cells.all_inner_texts())


def save(page: Page) -> None:
    """Save the rules by their plan, which says that nothing restarts."""
    page.get_by_role("button", name="Review", exact=True).click()
    plan = page.get_by_role("group", name="New rules")
    expect(plan).to_contain_text("The query is not restarted")
    plan.get_by_role("button", name="Save the rules").click()
    expect(page.get_by_text("Saved. The query is not restarted")).to_be_visible()


def test_a_limit_on_the_chart_becomes_a_rule_that_fires(
    stack: Stack, visit: Callable[..., Visit], tmp_path: Path
) -> None:
    cli = Cli(stack.state_dir)
    bookings = Bookings(stack.kafka, cli)
    name, path = bookings.dagger(tmp_path, sql=QUERY)
    with fed(bookings):
        try:
            cli("apply", path)
            generation = cli.until(name, runs)["generation"]
            page = visit().open(f"/daggers/{name}", name)
            limit_to_rule(page)
            keys = try_rule(page)
            save(page)
            row = page.get_by_role("region", name="Rules", exact=True).locator("tbody tr")
            for key in CITIES:
                expect(row).to_contain_text(key, timeout=LAUNCH_MS)  # what fires now

            with_rule = yaml.safe_load(path.read_text())
            with_rule["alerts"] = [{"name": "orders_high", "when": "orders > 0"}]
            path.write_text(yaml.safe_dump(with_rule, sort_keys=False))
            [tested] = cli("alerts", "test", path, "--last", "1h")["rules"]
            assert {f"tag_city={one['key']['tag_city']}" for one in tested["fired"]} == keys == CITIES
            assert cli("get", name)["generation"] == generation
            page.goto("about:blank")  # it would ask for what is deleted
        finally:
            cli.try_("delete", name, "--wait")
