"""One place prints, and what others wrote is shown as it is."""

import re
from pathlib import Path

import pytest

import cli
import devstack.commands
from cli.output.printer import Format, Printer

PRINTS = re.compile(r"\.print\(|\bprint\(|(?<!class )\bConsole\(|stdout\.write|\becho\(")
# reference.py prints a page of the documentation, for `make commands-doc`.
PRINTERS = {"printer.py", "progress.py", "reference.py"}


def test_commands_print_through_one_place() -> None:
    folders = [Path(*cli.__path__), Path(*devstack.commands.__path__)]
    files = [file for folder in folders for file in folder.rglob("*.py")]

    found = {file.name for file in files if PRINTS.search(file.read_text())}

    assert found == PRINTERS


@pytest.mark.parametrize("text", ["$.a[1:-1] is no path", "[red]no colour[/red]", "x" * 500])
def test_a_line_is_printed_as_it_is(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = Printer(Format.TEXT)
    out.line(text)
    out.note(text)

    said = capsys.readouterr()

    assert (said.out, said.err) == (f"{text}\n", f"{text}\n")
