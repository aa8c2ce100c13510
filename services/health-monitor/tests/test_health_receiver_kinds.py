"""A kind of receiver is one file: whoever lists kinds looks into the folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chassis.settings import explain
from daggerspec import receivers as of_teams
from health_monitor import receivers, reference
from health_monitor.settings import monitor_settings

TESTS = Path(__file__).parent
REFERENCE = TESTS.parents[2] / "docs" / "receivers.md"
PIGEON = '''"""A carrier pigeon: it takes a slip of paper, and one at a time."""

from datetime import timedelta

from pydantic import Field, SecretStr

from health_monitor.receivers import (
    HttpAnswer, HttpRequest, ReceiverSettings, SecretUrl, Success, classify_failure
)

IN_SETTINGS = True
PACE = timedelta(seconds=60)
TAKEN = HttpAnswer(204)


class Settings(ReceiverSettings):
    """One loft."""

    url: SecretUrl = Field(examples=["https://loft.example"])
    """Where the loft is."""
    ring: SecretStr = Field(examples=["DE-2026-1"])
    """What stands on the ring of the pigeon."""
    paper: str = "grey"
    """Colour of the slip."""


def request(page, settings):
    slip = f"{settings.paper}: {page.alert.dagger}".encode()
    ring = settings.ring.get_secret_value()
    return HttpRequest(settings.url.get_secret_value(), slip, "PUT", {"x-ring": ring})


def outcome(answer):
    return Success() if answer.status == 204 else classify_failure(answer, "")
'''


@pytest.fixture
def pigeon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a kind that nothing else in this project knows of."""
    (tmp_path / "pigeon.py").write_text(PIGEON)
    monkeypatch.setattr(receivers, "__path__", [*receivers.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "health_monitor.receivers.pigeon", None)
    monkeypatch.delitem(sys.modules, "health_monitor.receivers.pigeon")
    return tmp_path


@pytest.mark.usefixtures("pigeon")
def test_settings_of_a_new_kind_are_read_checked_and_explained(tmp_path: Path) -> None:
    (tmp_path / "ring").write_text("DE-7\n")
    found = monitor_settings().model_validate(
        {
            "kafka_bootstrap_servers": "k:9092",
            "pigeon_url": "https://loft.example/7",
            "pigeon_ring_file": str(tmp_path / "ring"),
        }
    )
    (channel,) = found.channels()
    told = explain(monitor_settings())

    settings = channel.settings.model_dump()
    assert (channel.name, settings["ring"].get_secret_value(), settings["paper"]) == (
        "pigeon",
        "DE-7",
        "grey",
    )
    assert "DAGGERS_MONITOR_PIGEON_RING_FILE  (not set)" in told
    assert "DAGGERS_MONITOR_PIGEON_PAPER  (default: grey)\n      Colour of the slip." in told


@pytest.mark.usefixtures("pigeon")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "loft"}, "DAGGERS_MONITOR_PIGEON_URL: it is not an http or https URL"),
        ({"url": "https://loft.example"}, "DAGGERS_MONITOR_PIGEON_RING: Field required"),
        ({"ring": " "}, "DAGGERS_MONITOR_PIGEON_RING: there is nothing in it"),
    ],
)
def test_a_bad_setting_of_a_new_kind_is_named_by_its_variable(given: dict[str, str], said: str) -> None:
    fields = {f"pigeon_{name}": value for name, value in given.items()}
    found = monitor_settings().model_validate({"kafka_bootstrap_servers": "k:9092", **fields})

    with pytest.raises(ValueError, match=f"^{said}"):
        found.channels()


@pytest.mark.usefixtures("pigeon")
def test_a_new_kind_is_in_the_reference() -> None:
    section = reference.text().partition("## pigeon\n")[2].partition("## ")[0].splitlines()

    assert section[0] == "A carrier pigeon: it takes a slip of paper, and one at a time."
    assert section[4:7] == [
        "| `url`, a secret | Where the loft is. |",
        "| `ring`, a secret | What stands on the ring of the pigeon. |",
        "| `paper`, optional | Colour of the slip. |",
    ]
    assert section[10:13] == [
        "| `DAGGERS_MONITOR_PIGEON_URL`, or `DAGGERS_MONITOR_PIGEON_URL_FILE` | Where the loft is."
        " For example `https://loft.example` |",
        "| `DAGGERS_MONITOR_PIGEON_RING`, or `DAGGERS_MONITOR_PIGEON_RING_FILE` | What stands on the ring of"
        " the pigeon. For example `DE-2026-1` |",
        "| `DAGGERS_MONITOR_PIGEON_PAPER` (`grey`) | Colour of the slip. |",
    ]


def test_the_reference_is_up_to_date() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference.text(), "run `make receivers-doc`"


def test_the_contract_suite_finds_a_new_kind(pigeon: Path) -> None:
    code = (
        "import sys, pytest, health_monitor.receivers as receivers\n"
        "receivers.__path__.append(sys.argv[1])\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-k', 'pigeon', sys.argv[2]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(pigeon), str(TESTS / "test_health_receiver_contract.py")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout.splitlines()[-1]


def test_what_a_team_may_say_of_a_receiver_is_what_it_takes() -> None:
    fields = {kind: receivers.kind(kind).Settings.model_fields.items() for kind in receivers.names()}
    secrets = {
        kind: {name: field.is_required() for name, field in of if receivers.is_secret(field)}
        for kind, of in fields.items()
    }
    others = {
        kind: {name: field.is_required() for name, field in of if not receivers.is_secret(field)}
        for kind, of in fields.items()
    }

    assert {kind: of_teams.secrets(kind) for kind in of_teams.names()} == secrets
    assert {
        kind: {name: setting.required for name, setting in of_teams.settings(kind).items()}
        for kind in of_teams.names()
    } == others
