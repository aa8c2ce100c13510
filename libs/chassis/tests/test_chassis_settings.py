from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict

from chassis.settings import ServiceSettings, load, own_directory


class Oven(ServiceSettings):
    """Bakes bread."""

    model_config = SettingsConfigDict(env_prefix="TEST_OVEN_")

    heat_c: int = Field(default=220, ge=50, le=300)
    """Temperature, in °C."""

    name: str
    """What it is called."""

    key: SecretStr | None = None
    """Opens the door."""

    pantry: Path | None = None
    """Where flour is."""

    @model_validator(mode="after")
    def _cold_ovens_have_no_key(self) -> Oven:
        if self.heat_c < 60 and self.key:
            raise ValueError("a cold oven needs no TEST_OVEN_KEY: unset it")
        return self


def test_a_directory_is_made_and_one_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    made, file = tmp_path / "a" / "b", tmp_path / "file"
    file.touch()
    own_directory(Oven(name="big"), "pantry")
    own_directory(Oven(name="big", pantry=made), "pantry")

    assert (made.is_dir(), list(made.iterdir())) == (True, [])
    for wrong, why in ((file, "File exists"), (file / "below", "Not a directory")):
        with pytest.raises(ValueError, match=f"^TEST_OVEN_PANTRY: {wrong} cannot be written to: {why}$"):
            own_directory(Oven(name="big", pantry=wrong), "pantry")


def test_settings_are_read_from_the_environment_and_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_OVEN_NAME", "big")
    monkeypatch.setenv("TEST_OVEN_HEAT_C", "")
    oven = load(Oven, [], prog="oven")

    with pytest.raises(ValidationError):
        oven.name = "small"  # type: ignore[misc] # what the test is about

    assert (oven.name, oven.heat_c) == ("big", 220)


def test_every_bad_setting_is_named_and_no_value_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEST_OVEN_HEAT_C", "scorching-secret")
    with pytest.raises(SystemExit) as ended:
        load(Oven, [], prog="oven")

    said = capsys.readouterr().err

    assert (ended.value.code, said.splitlines()) == (
        2,
        [
            "oven: bad settings:",
            "  TEST_OVEN_HEAT_C: Input should be a valid integer, unable to parse string as an integer",
            "  TEST_OVEN_NAME: Field required",
            "`oven --help` explains each setting.",
        ],
    )


def test_a_rule_over_several_settings_is_said_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEST_OVEN_NAME", "big")
    monkeypatch.setenv("TEST_OVEN_HEAT_C", "55")
    monkeypatch.setenv("TEST_OVEN_KEY", "hunter2")
    with pytest.raises(SystemExit):
        load(Oven, [], prog="oven")

    said = capsys.readouterr().err

    assert said.splitlines()[1] == "  a cold oven needs no TEST_OVEN_KEY: unset it"


def test_help_explains_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load(Oven, ["--help"], prog="oven")

    said = capsys.readouterr().out

    assert (ended.value.code, said[said.index("Bakes") :]) == (
        0,
        "Bakes bread.\n\noptions:\n  -h, --help  show this help message and exit\n\n"
        "environment variables:\n"
        "  TEST_OVEN_HEAT_C  (default: 220)\n      Temperature, in °C.\n"
        "  TEST_OVEN_NAME  (required)\n      What it is called.\n"
        "  TEST_OVEN_KEY  (not set)\n      Opens the door.\n"
        "  TEST_OVEN_PANTRY  (not set)\n      Where flour is.\n",
    )


class Page(ServiceSettings):
    """Is shown."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_PORTAL_")

    title: str
    """Above it."""


def test_a_setting_that_is_gone_is_refused_with_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGGERS_PORTAL_OIDC_SCOPE", "openid canary")
    monkeypatch.setenv("DAGGERS_PORTAL_DRAIN_S", "")  # as good as unset
    monkeypatch.setenv("DAGGERS_MONITOR_RESTARTS", "3")  # another service's, in the file that both read

    with pytest.raises(SystemExit) as ended:
        load(Page, [], prog="page")
    told = capsys.readouterr().err.splitlines()
    monkeypatch.setenv("DAGGERS_PORTAL_TITLE", "a")
    with pytest.raises(SystemExit):
        load(Page, [], prog="page")

    gone = "  DAGGERS_PORTAL_OIDC_SCOPE is no setting any more: set DAGGERS_OIDC_SCOPE instead"
    assert ended.value.code == 2
    assert told == [
        "page: bad settings:",
        "  DAGGERS_PORTAL_TITLE: Field required",
        gone,
        "`page --help` explains each setting.",
    ]
    assert capsys.readouterr().err.splitlines()[1:-1] == [gone]
