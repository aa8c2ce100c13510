"""The example bots on the real broker: they tell who runs, and stop what FAILED three times."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli
from tests.integration.faults import until

pytestmark = [pytest.mark.integration, pytest.mark.long]

FOLDER = Path(__file__).parents[2] / "examples" / "bots"
BOTS = ("plain_bot", "faust_bot")
NAME = "completed_bookings"


@pytest.fixture
def bots(stack: Stack, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Both bots at work, and what each prints."""
    told = {bot: tmp_path / f"{bot}.txt" for bot in BOTS}
    started = []
    for bot, file in told.items():
        with file.open("wb") as out:
            words = [sys.executable, FOLDER / f"{bot}.py", stack.kafka, stack.gateway, stack.token_file]
            started.append(subprocess.Popen(words, stdout=out, cwd=tmp_path))
    yield told
    for bot in started:
        bot.terminate()
    for bot in started:
        bot.wait(30)


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
