"""What a command talks to is said where nobody chose it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cli.__main__ import run
from cli.listed import Listed

LAST = Path("/stacks/last")


class Remembering:
    """An extension that remembers a stack whose gateway is at `address`."""

    def __init__(self, address: str) -> None:
        self.address = address

    def commands(self) -> Mapping[str, Listed]:
        return {}

    def stack(self, given: Path | None, home: Path) -> Path | None:
        return given or LAST

    def gateway(self, given: Path | None, home: Path) -> str:
        return self.address

    def kafka(self, given: Path | None, home: Path) -> str:
        return self.address

    def versions(self) -> Mapping[str, str]:
        return {}


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGGERS_GATEWAY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_the_stack_that_a_command_chose_by_itself_is_named_on_one_line(
    gateway: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["list", "-o", "json"], Remembering(gateway))
    said = capsys.readouterr()

    assert (code, said.out) == (0, "[]\n")
    assert said.err == f"asking {gateway}, of the stack that was started last (/stacks/last)\n"


@pytest.mark.parametrize("chosen", [["--gateway", "HERE"], ["--state-dir", "/stacks/mine"]])
def test_what_was_chosen_is_not_repeated(
    gateway: str, capsys: pytest.CaptureFixture[str], chosen: list[str]
) -> None:
    words = [gateway if each == "HERE" else each for each in chosen]

    code = run(["list", "-o", "json", *words], Remembering(gateway))

    assert (code, capsys.readouterr().err) == (0, "")


def test_a_gateway_that_the_environment_names_is_not_repeated(
    gateway: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGGERS_GATEWAY", gateway)

    code = run(["list", "-o", "json"], Remembering("127.0.0.1:1"))

    assert (code, capsys.readouterr().err) == (0, "")
