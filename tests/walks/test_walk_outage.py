"""On-call: Kafka is away while daggers of two teams run. One incident is told, and nothing of each dagger.

It is followed as the message says: acknowledged by the command in it, as soon as there is a log again, and
what follows from it is silenced on the pages. Pictures of the pages at each step are in `.cache/walk-outage`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Stack, running_stack
from playwright.sync_api import Page, expect
from tests.documents.pages import ROOT
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli
from tests.integration.faults import kill, lasting, until
from tests.portal import browser
from tests.portal.portal_stack import LAUNCH_MS, fed, serving_stack
from tests.walks.conftest import Say
from tests.walks.monitors import serving_monitor
from tests.walks.receivers import Page as Message
from tests.walks.receivers import Receivers, receivers

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3000)]

PICTURES = ROOT / ".cache" / "walk-outage"
PROGRESS_S = 60.0
"""Without progress for so long a dagger has an alert of its own, where nothing explains it."""
STARTED_S = 900
"""Two drivers at once, on a busy machine."""
LIMITS = {
    "DAGGERS_MONITOR_HOLD_S": "1",
    "DAGGERS_MONITOR_RESOLVE_HOLD_S": "90",
    "DAGGERS_MONITOR_PROGRESS_S": f"{PROGRESS_S:g}",
    "DAGGERS_MONITOR_KAFKA_AWAY_S": "10",
    "DAGGERS_MONITOR_PORTAL_URL": "https://portal.example",
}
"""Of an impatient on-call, who has time to acknowledge once Kafka is back."""
SQL = """\
SELECT city_id AS tag_city_id, count(1) AS num_of_bookings,
       TUMBLE_END(rowtime, INTERVAL '2' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '2' SECOND), city_id"""
TEAMS = ("pricing", "surge")
REASON = "Kafka is being started again"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Start a stack of its own: its monitor is replaced, and its broker is killed."""
    with running_stack(tmp_path / "stack") as running:
        yield running


def picture(page: Page, name: str) -> None:
    """Take a picture of a page as it is."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def open_page(page: Page, site: str, path: str, heading: str) -> None:
    """Go to a page of the portal."""
    page.goto(f"{site}{path}")
    page.get_by_role("heading", name=heading, level=1).wait_for(timeout=LAUNCH_MS)


def wait_for_message(inbox: Receivers, *, resolved: bool) -> Message:
    """Wait for the first message in Slack of a begin, or of an end."""

    def find() -> list[Message]:
        return [message for message in inbox.pages if message.resolved == resolved]

    until(lambda: bool(find()))
    return find()[0]


def silence(page: Page, site: str) -> None:
    """Silence what follows from the outage for the daggers of one team, on the page of silences."""
    open_page(page, site, "/new/silence?team=pricing&matcher=condition%3Dno_progress", "New silence")
    page.get_by_role("combobox", name="For", exact=True).select_option("1 hour")
    page.get_by_label("Why").fill(REASON)
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_role("row").filter(has_text=REASON)).to_contain_text("Silent")


def writes(dagger: dict[str, object]) -> bool:
    """Tell whether rows of a dagger go to its sinks."""
    vitals = dagger["vitals"]
    return isinstance(vitals, dict) and (vitals.get("rows_per_s") or 0) > 0


def test_an_outage_of_kafka_is_one_incident_that_on_call_follows_to_its_end(
    stack: Stack, tmp_path: Path, say: Say
) -> None:
    cli = Cli(stack.state_dir)
    bookings = Bookings(stack.kafka, cli)
    with ExitStack() as around:
        inbox = around.enter_context(receivers())
        around.enter_context(fed(bookings))
        files = [bookings.dagger(tmp_path, sql=SQL, team=team, start="latest") for team in TEAMS]
        for _, file in files:
            cli("apply", "-f", file)
        names = [name for name, _ in files]
        for name in names:
            cli.until(name, writes, deadline_s=STARTED_S)
        around.enter_context(serving_monitor(stack, inbox, tmp_path, LIMITS))
        site = around.enter_context(serving_stack(stack, tmp_path))
        page = around.enter_context(browser.chromium()).new_page(viewport={"width": 1440, "height": 900})
        open_page(page, site, "/", "Daggers")
        picture(page, "1-all-is-well")
        assert inbox.pages == []

        # Kafka is away, for longer than a dagger may make no progress.
        kill(stack, "kafka")
        fired = wait_for_message(inbox, resolved=False)
        say(f"one message: {fired.condition} of {fired.dagger}")
        lasting(PROGRESS_S)
        page.reload()
        picture(page, "2-kafka-is-away")
        command = fired.facts["acknowledge"].strip("`").removeprefix("daggers ").split()
        refused = cli.try_(*command)

        assert [(one.dagger, one.condition) for one in inbox.pages] == [("platform", "kafka away")]
        assert (refused.code, "Kafka" in refused.err) != (0, False), refused

        # It is back: the incident is in the log, and the command of the message acknowledges it.
        cli("local", "up", "--detach", "--only", "kafka")
        until(lambda: give_command(cli, command))
        until(lambda: [event["event_action"] for event in inbox.events] == ["trigger", "acknowledge"])
        open_page(page, site, "/alerts", "Alerts")
        expect(page.get_by_role("row").filter(has_text="kafka away")).to_contain_text("Take back")
        picture(page, "3-acknowledged")
        silence(page, site)
        picture(page, "4-silenced")

        # It is over, and every dagger goes on.
        wait_for_message(inbox, resolved=True)
        for name in names:
            cli.until(name, writes, deadline_s=STARTED_S)
        open_page(page, site, "/alerts?over=yes", "Alerts")
        expect(page.get_by_role("row").filter(has_text="Kafka takes records again")).to_have_count(1)
        picture(page, "5-over")
        page.goto("about:blank")  # it would ask for what is deleted

        assert [(one.dagger, one.resolved) for one in inbox.pages] == [
            ("platform", False),
            ("platform", True),
        ]
        assert [event["event_action"] for event in inbox.events] == ["trigger", "acknowledge", "resolve"]
        assert len({event["dedup_key"] for event in inbox.events}) == 1
        for name in names:
            cli("delete", name, "--wait")


def give_command(cli: Cli, command: list[str]) -> bool:
    """Give a command; tell whether it was taken."""
    return cli.try_(*command).code == 0
