"""With -o json every command puts one document on stdout, whatever becomes of it."""

import io
import json
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.golden.commands import ARGUMENTS

from cli import reference
from cli.__main__ import run
from cli.errors import UnreachableError
from cli.output.printer import Format, Printer, print_error

# These start, or change, what a unit test must not.
NOT_RUN = {"local setup", "local up", "demo"}
LOCAL = {"version", "completion", "local status", "local down", "local dump", "sql check", "sql functions"}
# These end with Ctrl-C only.
ENDLESS = {"alerts watch"}
# These read the broker.
ASK_NO_GATEWAY = LOCAL | {"logout", "sink kinds", "log clean", "log export", "log verify", "log restore"}


def every_command() -> list[str]:
    found = [
        name.removeprefix("daggers ")
        for name, command in reference.commands()
        if not hasattr(command, "commands")
    ]
    return sorted(set(found) - NOT_RUN)


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _folder(shell: Any, monkeypatch: pytest.MonkeyPatch, dagger_file: str) -> None:
    """The files that the command lines name, in the working directory; no state of the user's."""
    shell.file("dagger.yaml", dagger_file)
    shell.file("tested.yaml", dagger_file + "tests: [{name: nothing, expect: {rows: []}}]\n")
    shell.file("ruled.yaml", dagger_file + "alerts: [{name: busy, when: orders > 8}]\n")
    shell.file("team.yaml", "kind: team\nname: pricing\n")
    shell.file("routes.yaml", "kind: routes\nname: pricing\nreceivers: [slack]\n")
    shell.file("secret.yaml", "kind: secret\nname: crm\nplace: {env: CRM}\naddresses: [crm:1]\n")
    shell.file("sink.yaml", "kind: sink\nname: crm\nkafka: {cluster: local}\n")
    shell.file("shop.proto", 'syntax = "proto3"; message Order {}')
    shell.file("streams.json", '{"t": {"schema": "shop.proto", "message": "Order", "time_field": "t"}}')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 1")))
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(shell.folder))


@pytest.mark.parametrize("name", sorted(set(every_command()) - ENDLESS))
def test_a_command_answers_with_one_document(shell: Any, name: str) -> None:
    code, out, _ = shell(*name.split(), *ARGUMENTS.get(name, []), "-o", "json")

    assert (code in (0, 1, 2), json.loads(out) is not None) == (True, True)


@pytest.mark.parametrize("name", every_command())
def test_an_unknown_flag_is_one_document_with_exit_code_2(shell: Any, name: str) -> None:
    code, out, _ = shell(*name.split(), "--bogus", "-o", "json")

    assert (code, json.loads(out)["error"]["reason"]) == (2, "USAGE")


@pytest.mark.parametrize("name", sorted(set(every_command()) - ASK_NO_GATEWAY))
def test_a_gateway_that_is_not_there_is_one_document_with_exit_code_3(
    name: str, silent_address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*name.split(), *ARGUMENTS.get(name, []), "--gateway", silent_address, "-o", "json"]
    code = run(words)

    assert (code, json.loads(capsys.readouterr().out)["error"]["reason"]) == (3, "UNAVAILABLE")


@pytest.mark.parametrize(("items", "document"), [([], dict), ([{"n": 1}], list)])
def test_a_stream_that_breaks_leaves_one_document(
    items: list[Any], document: type, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Iterator[Any]:
        yield from items
        raise UnreachableError("gone")

    with pytest.raises(UnreachableError) as caught:
        Printer(Format.JSON).stream(broken(), str, dict)
    print_error(caught.value, as_json=True)

    assert type(json.loads(capsys.readouterr().out)) is document
