"""Hints name the command as it is called where they are read."""

from __future__ import annotations

import pytest

from cli.__main__ import run
from cli.output.hints import COMMAND, in_place

IN_COMPOSE = "docker compose run --rm daggers"
HINT = "start the stack by `daggers local up`, or read `daggers logs NAME`"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (COMMAND, HINT),
        (
            IN_COMPOSE,
            "start the stack by `docker compose up --detach --wait`, or read"
            " `docker compose run --rm daggers logs NAME`",
        ),
    ],
)
def test_a_hint_can_be_typed_where_it_is_read(command: str, hint: str) -> None:
    assert in_place(HINT, command) == hint


def test_an_error_names_the_command_as_its_environment_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGGERS_COMMAND", IN_COMPOSE)
    monkeypatch.setenv("DAGGERS_GATEWAY", "127.0.0.1:1")
    codes = run(["list"]), run(["get"])
    printed = capsys.readouterr().err

    assert codes == (3, 2)
    assert "`docker compose up --detach --wait`" in printed
    assert "`docker compose run --rm daggers get --help` shows how" in printed
    assert "`daggers " not in printed
