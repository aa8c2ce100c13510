"""What an analyst does, on the real stack: log in, preview, create, see the chart move, edit, stop.

A gateway of its own that trusts a real provider stands on the stack's log, and a portal before it: people log
in as they do in a deployment. Nothing here is answered in place of the stack.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
from conftest import Stack
from playwright.sync_api import Browser, Page, expect
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli
from tests.oidc.conftest import installed, issuer
from tests.portal.conftest import Visit, running, signed_in_at, visiting
from tests.portal.logins import log_in
from tests.portal.portal_stack import LAUNCH_MS, fed
from tests.portal.portal_studio import query

from devstack import services, state

__all__ = ["installed", "issuer"]  # fixtures

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]  # a stack may start within it

TEAM = "journeys"
QUIET_S = 120
"""What the journey takes at most where nothing else runs; `make bench-portal` judges the way to the chart."""
QUERY = """\
SELECT city_id AS tag_city, count(1) AS orders,
       TUMBLE_END(rowtime, INTERVAL '5' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '5' SECOND), city_id"""
EDITED = QUERY.replace("count(1) AS orders", "count(1) AS orders, sum(fare) AS earned")


@pytest.fixture(scope="module")
def cli(stack: Stack) -> Cli:
    """The `daggers` command on the stack, as its administrator."""
    return Cli(stack.state_dir)


@pytest.fixture(scope="module")
def address(stack: Stack, issuer: str, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A portal with a login on the stack; ada edits what is her team's."""
    folder = tmp_path_factory.mktemp("journey")
    team = folder / "team.yaml"
    team.write_text(f"kind: team\nname: {TEAM}\nmembers: [{{user: ada@example.org, role: editor}}]\n")
    cli("team", "apply", team)
    known = state.load(stack.state_dir)
    assert known is not None
    own = services.gateway_environment(known) | {
        "DAGGERS_GATEWAY_BIND": "127.0.0.1:0",
        "DAGGERS_GATEWAY_HEALTH_BIND": "127.0.0.1:0",  # the stack's gateway has the one of these settings
        "DAGGERS_GATEWAY_DATABASE_URL": f"sqlite:///{folder}/gateway.db",
        "DAGGERS_GATEWAY_OIDC_ISSUER": issuer,
        "DAGGERS_GATEWAY_OIDC_AUDIENCE": "daggers",
        "DAGGERS_GATEWAY_OIDC_NAME_CLAIM": "email",
    }
    with (
        running("api_gateway", own, folder) as gateway,
        signed_in_at(issuer, gateway, folder) as at,
    ):
        yield at


@dataclass
class Journey:
    """A journey, and when it had come how far."""

    begun: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)

    def came(self, step: str) -> None:
        """A step is done."""
        self.seconds[step] = time.monotonic() - self.begun


@contextmanager
def witnessed(page: Page, cli: Cli, name: str) -> Iterator[None]:
    """A failure inside says what the page shows, and what the platform knows of the dagger."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"The page: {page.locator('body').inner_text()[-2000:]}")
        for words in (["get", name], ["rows", name, "--limit", "3"], ["logs", name]):
            done = cli.try_(*words)
            error.add_note(f"{' '.join(words)}: {(done.out + done.err)[-2000:]}")
        raise


def travel(one: Visit, stream: str, name: str) -> Journey:
    """The whole journey; each step waits for what somebody sees."""
    page, journey = one.page, Journey()
    log_in(one, "ada")
    journey.came("logged in")
    page.get_by_role("link", name="New dagger").click()
    page.get_by_role("combobox", name="Cluster").select_option("local")  # others may have registered theirs
    page.get_by_label("Protobuf message").select_option("it.v1.Booking")
    page.get_by_role("checkbox", name=stream).check()
    page.get_by_placeholder("Name", exact=True).fill(name)
    table = stream.replace("-", "_")
    query(page, QUERY.replace("data_stream", table))
    expect(page.get_by_text("Ready to run")).to_be_visible()
    page.keyboard.press("Control+Enter")
    grid = page.get_by_role("region", name="Rows of the preview")
    expect(grid.get_by_role("row").nth(2)).to_be_visible(timeout=LAUNCH_MS)
    expect(page.get_by_role("region", name="Preview", exact=True)).to_contain_text("records ·")
    journey.came("previewed")
    page.get_by_role("button", name="Review and create").click()
    expect(page.get_by_role("region", name="Plan")).to_contain_text(f"This creates {name}")
    page.get_by_role("button", name=f"Create {name}").click()
    expect(page.get_by_role("region", name="Steps")).to_contain_text("✓ Running", timeout=LAUNCH_MS)
    journey.came("running")
    page.get_by_role("link", name=f"Open {name}").click()
    moves(page, {"1", "2", "3"})
    journey.came("on the chart")
    page.get_by_role("link", name="Edit").click()
    expect(page.locator(".cm-content")).to_contain_text("TUMBLE_END")
    query(page, EDITED.replace("data_stream", table))
    page.get_by_role("button", name="Review", exact=True).click()
    expect(page.get_by_role("region", name="Plan")).to_contain_text("earned")
    page.get_by_role("button", name=f"Apply {name}").click()
    expect(page.get_by_role("region", name="Steps")).to_contain_text("✓ Running", timeout=LAUNCH_MS)
    page.get_by_role("link", name=f"Open {name}").click()
    expect(page.get_by_role("columnheader", name="earned")).to_be_visible(timeout=LAUNCH_MS)
    journey.came("edited")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop it").click()
    expect(page.locator("header").get_by_text("Stopped")).to_be_visible(timeout=LAUNCH_MS)
    journey.came("stopped")
    return journey


def moves(page: Page, cities: set[str]) -> None:
    """The chart has the cities, and a row of a later window comes while one looks."""
    live = page.get_by_role("region", name="Live rows")
    legend = live.locator(".legend span")
    expect(legend).to_have_count(len(cities), timeout=LAUNCH_MS)
    assert set(legend.all_inner_texts()) == cities
    newest = page.get_by_role("region", name="Newest rows").get_by_role("row").nth(2).get_by_role("cell").last
    now = newest.inner_text()
    expect(newest).not_to_have_text(now, timeout=LAUNCH_MS)
    assert re.fullmatch(r"\d\d:\d\d:\d\d", newest.inner_text())


@pytest.fixture
def visit(chromium: Browser, address: str) -> Iterator[Callable[..., Visit]]:
    """Opens a window before the portal of the stack."""
    yield from visiting(chromium, address)


@pytest.fixture
def journey(stack: Stack, cli: Cli, visit: Callable[..., Visit], tmp_path: Path) -> Iterator[Journey]:
    """A journey that was made."""
    bookings, name = Bookings(stack.kafka, cli), f"by-ada-{uuid4().hex[:8]}"
    try:
        with fed(bookings):
            one = visit()
            with witnessed(one.page, cli, name):
                made = travel(one, bookings.name, name)
            yield made
    finally:
        cli.try_("delete", name, "--wait")


def test_an_analyst_comes_from_a_login_to_a_dagger_and_stops_it(
    journey: Journey, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        told = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in journey.seconds.items())
        sys.stdout.write(f"\n{told} (quietly within {QUIET_S} s)\n")

    steps = ["logged in", "previewed", "running", "on the chart", "edited", "stopped"]
    assert list(journey.seconds) == steps
