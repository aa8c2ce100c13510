"""The example bots on the real stack: who runs, what FAILED three times, and an edit that is rolled back."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from conftest import Stack
from tests.integration.bookings import COUNT_SQL, Bookings, booking
from tests.integration.cli import Cli
from tests.integration.faults import until

pytestmark = [pytest.mark.integration, pytest.mark.long]

FOLDER = Path(__file__).parents[2] / "examples" / "bots"
BOTS = ("plain_bot", "faust_bot")
NAME = "completed_bookings"


@contextmanager
def running(bot: str, folder: Path, *arguments: str | Path) -> Iterator[Path]:
    """Run a bot; yield the file of what it prints."""
    file = folder / f"{bot}.txt"
    with file.open("wb") as out:
        process = subprocess.Popen([sys.executable, FOLDER / f"{bot}.py", *arguments], stdout=out, cwd=folder)
    try:
        yield file
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def bots(stack: Stack, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Both bots at work, and what each prints."""
    with ExitStack() as started:
        yield {
            bot: started.enter_context(running(bot, tmp_path, stack.kafka, stack.gateway, stack.token_file))
            for bot in BOTS
        }


def test_the_bots_tell_who_runs_and_stop_what_failed_three_times(
    stack: Stack, cli: Cli, tmp_path: Path, bots: dict[str, Path]
) -> None:
    secret = tmp_path / "token"
    secret.write_text(stack.influx["token"])
    _, file = Bookings(stack.kafka, cli).dagger(
        tmp_path, name=NAME, sinks=[{"influx": {"token": {"file": str(secret)}}}]
    )
    cli("apply", "-f", file, "--wait")
    secret.unlink()
    cli("restart", NAME)
    for _ in range(2):
        cli.until(NAME, lambda dagger: dagger["phase"] == "FAILED")
        cli("start", NAME)
    stopped = cli.until(NAME, lambda dagger: dagger["phase"] == "STOPPED")
    until(lambda: all("three times" in file.read_text() for file in bots.values()))
    said = [file.read_text() for file in bots.values()]
    cli("delete", NAME, "--wait")

    assert stopped["desired"] == "STOPPED"
    assert [f"{NAME} is RUNNING\n" in text for text in said] == [True, True]
    assert [f"{NAME} FAILED three times: stopped\n" in text for text in said] == [True, True]


def test_an_edit_is_rolled_back_when_a_rule_fires_soon_after_it(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    name = "bookings-of-a-bot"
    rule = {"name": "too-many", "when": "num_of_bookings > 5", "key": ["tag_city_id"]}
    stream, seconds = Bookings(stack.kafka, cli), itertools.count(0, 20)
    _, file = stream.dagger(tmp_path, name=name, alerts=[rule], idle_timeout="0s")

    def write_until(done: Callable[[], bool]) -> None:
        """Write three bookings a minute of event time: window after window closes."""

        def write() -> bool:
            stream.write([booking(next(seconds))])
            return done()

        until(write)

    arguments = (stack.gateway, stack.token_file, rule["name"], "30")
    with running("rollback_on_alert", tmp_path, *arguments) as printed:
        cli("apply", "-f", file, "--wait")
        write_until(lambda: cli("rows", name) != [])
        edited = {"sql": COUNT_SQL.replace("count(1)", "count(1) * 3")}
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | edited))
        cli("apply", "-f", file, "--wait")
        write_until(lambda: "rolled back to version 1" in printed.read_text())
        rolled_back = cli.until(name, lambda dagger: dagger["version"] == 3)
        history = cli("history", name)
    cli("delete", name, "--wait")

    assert rolled_back["spec"]["sql"] == COUNT_SQL
    assert history[0]["message"].startswith("rollback: too-many fired")
