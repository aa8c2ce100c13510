"""Settings: secrets by reference, all of them refused or read without being shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from health_monitor import receiver
from health_monitor.receivers import pagerduty, slack
from health_monitor.settings import MonitorSettings, monitor_settings

KEY = "0123456789abcdef0123456789abcdef"
CANARY = "https://hooks.slack.example/services/T0/B0/canary"


def settings(**fields: object) -> MonitorSettings:
    return monitor_settings().model_validate({"kafka_bootstrap_servers": "k:9092", **fields})


def test_without_a_secret_nobody_is_told() -> None:
    assert settings().channels() == []


def test_secrets_come_from_variables() -> None:
    channels = settings(slack_url=CANARY, pagerduty_routing_key=KEY).channels()

    assert {channel.name: channel.settings for channel in channels} == {
        "slack": slack.Settings(url=SecretStr(CANARY)),
        "pagerduty": pagerduty.Settings(routing_key=SecretStr(KEY)),
    }


def test_secrets_come_from_files_without_their_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "slack"
    file.write_text(f"{CANARY}\n")

    (channel,) = settings(slack_url_file=file).channels()

    assert channel.settings.url.get_secret_value() == CANARY


def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"DAGGERS_MONITOR_SLACK_URL_FILE: /nowhere cannot be read: No such file"
    ):
        settings(slack_url_file="/nowhere").channels()


def test_a_routing_key_of_another_length_is_refused_and_not_shown() -> None:
    with pytest.raises(
        ValueError, match=r"^DAGGERS_MONITOR_PAGERDUTY_ROUTING_KEY: it has 31 characters, not 32$"
    ):
        settings(pagerduty_routing_key=KEY[1:]).channels()


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("\n")

    with pytest.raises(ValueError, match="DAGGERS_MONITOR_PAGERDUTY_ROUTING_KEY: there is nothing in it"):
        settings(pagerduty_routing_key_file=file).channels()


@pytest.mark.parametrize(
    "url", ["hooks.slack.example", "ftp://a/canary", "https://a b/canary", "https://ä/canary"]
)
def test_what_is_no_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match="it is not an http or https URL") as error:
        settings(slack_url=url).channels()

    assert url not in str(error.value)


def test_a_secret_given_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="not both"):
        settings(slack_url=CANARY, slack_url_file="/file")


def test_the_watchdog_is_called_where_a_file_says(tmp_path: Path) -> None:
    file = tmp_path / "watchdog"
    file.write_text(f"{CANARY}\n")

    assert settings(watchdog_url_file=file).watchdog() == SecretStr(CANARY)
    assert settings().watchdog() is None


def test_a_watchdog_that_is_no_url_is_refused_without_being_shown(tmp_path: Path) -> None:
    file = tmp_path / "watchdog"
    file.write_text("hc-ping.example/canary")

    with pytest.raises(ValueError, match=r"^DAGGERS_MONITOR_WATCHDOG_URL_FILE: .* not an http") as error:
        settings(watchdog_url_file=file).watchdog()

    assert "canary" not in str(error.value)


@pytest.mark.parametrize("url", ["daggers.example", "https://daggers.example/<b>", "https://a|b"])
@pytest.mark.parametrize("name", ["portal_url", "runbook_url"])
def test_an_address_that_would_break_a_message_is_refused(name: str, url: str) -> None:
    with pytest.raises(ValidationError, match="it is not an http or https URL"):
        settings(**{name: url})


def test_no_secret_is_in_what_settings_and_channels_look_like() -> None:
    configured = settings(slack_url=CANARY, pagerduty_routing_key=KEY)

    shown = f"{configured!r} {configured.channels()!r}"
    assert [secret for secret in ("canary", KEY) if secret in shown] == []


@pytest.mark.parametrize("port", ["-1", "65536", "here"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        receiver.main([f"--port={port}"])

    assert (ended.value.code, "must be a number from 0 to 65535" in capsys.readouterr().err) == (2, True)


def test_the_receiver_that_finds_an_old_setting_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGGERS_RECEIVER_PORT", "9199")

    with pytest.raises(SystemExit) as ended:
        receiver.main([])

    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "DAGGERS_RECEIVER_PORT is no setting any more: start the receiver with --port instead" in told


def test_every_bad_setting_is_named_by_its_variable_and_the_process_ends_with_2() -> None:
    environment = [
        f"DAGGERS_MONITOR_SLACK_URL={CANARY}",
        "DAGGERS_MONITOR_HOLD_S=-1",
        "DAGGERS_MONITOR_CALLBACKS_BIND=nowhere",
        "DAGGERS_ALLOWED_HOSTS=not a host",
    ]
    done = subprocess.run(
        ["/usr/bin/env", *environment, sys.executable, "-m", "health_monitor"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    lines = [line.split(":")[0].strip() for line in done.stderr.splitlines()[1:-1]]
    assert (done.returncode, lines) == (
        2,
        [
            "DAGGERS_MONITOR_KAFKA_BOOTSTRAP_SERVERS",
            "DAGGERS_ALLOWED_HOSTS",
            "DAGGERS_MONITOR_HOLD_S",
            "DAGGERS_MONITOR_CALLBACKS_BIND",
        ],
    )
    assert "canary" not in done.stderr
