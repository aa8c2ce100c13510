"""What a command talks to is said where nobody chose it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from chassis.endpoint import Endpoint
from chassis.tokenfile import read_tokens
from cli.__main__ import run
from cli.framework.lazy_commands import LazyCommand

LAST = Path("/stacks/last")


class Remembering:
    """An extension that remembers a stack whose gateway is at `address`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.token: Path | None = None

    def commands(self) -> Mapping[str, LazyCommand]:
        return {}

    def stack(self, given: Path | None, home: Path) -> Path | None:
        return given or LAST

    def gateway(self, given: Path | None, home: Path) -> str:
        return self.address

    def token_file(self, address: str, given: Path | None, home: Path) -> Path | None:
        return self.token if address == self.address else None

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
    assert said.err == f"asking {gateway}, of the stack that was last started from here (/stacks/last)\n"


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


def test_a_stacks_own_token_is_shown_to_its_gateway_and_to_no_other(
    serve: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (listed := tmp_path / "tokens").write_text("administrator:the-token-of-a-stack\nmine:a-token-of-my-own\n")
    (stacks := tmp_path / "token").write_text("the-token-of-a-stack\n")
    (mine := tmp_path / "mine").write_text("a-token-of-my-own\n")
    endpoint = Endpoint(
        "127.0.0.1:0", tokens=lambda: read_tokens(listed), token_hint="they have it at the desk"
    )
    address = f"127.0.0.1:{serve(endpoint)}"
    stack = Remembering(address)
    stack.token = stacks

    def who(*words: str) -> str:
        run(["whoami", *words], stack)
        said = capsys.readouterr()
        return said.out.partition(":")[0] or said.err

    own, named = who(), who("--gateway", address)
    other = who("--gateway", address.replace("127.0.0.1", "localhost"))
    monkeypatch.setenv("DAGGERS_TOKEN_FILE", str(mine))
    chosen = who()

    assert (own, named, chosen) == ("administrator", "administrator", "mine")
    assert "(they have it at the desk): DAGGERS_TOKEN_FILE" in other
