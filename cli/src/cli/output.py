"""What a command prints: text for people, or one JSON document, on stdout; everything else goes to stderr."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.errors import CliError
from cli.progress import Steps

PIPE_WIDTH = 10_000
T = TypeVar("T")


class Format(StrEnum):
    """How a command answers."""

    TEXT = "text"
    JSON = "json"


class Printer:
    """Prints a command's answer in the format that was asked for."""

    def __init__(self, form: Format) -> None:
        self.json = form is Format.JSON
        # a pipe has no width: what reads it wants a row on a line
        self.console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
        self.messages = Console(stderr=True)
        self.steps = Steps(self.messages)

    def show(self, document: Any, text: Callable[[Console], None]) -> None:
        """Print the document, or what `text` makes of it."""
        if self.json:
            print_json(document)
        else:
            text(self.console)

    def stream(self, items: Iterable[T], text: Callable[[T], str], document: Callable[[T], Any]) -> None:
        """Print each item on a line as it comes; in JSON one array, closed however they end."""
        if not self.json:
            for item in items:
                print_line(self.console, text(item))
            return
        begun = failed = False
        try:
            for item in items:
                sys.stdout.write(f"{',' if begun else '['}\n{_dump(document(item))}")
                sys.stdout.flush()
                begun = True
        except CliError as error:
            failed, error.answered = True, begun
            raise
        finally:
            if begun or not failed:
                sys.stdout.write(f"{'' if begun else '['}\n]\n")
                sys.stdout.flush()

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
        """Print a table, or the sentence that says why there is none."""
        listed = [[str(cell) for cell in row] for row in rows]
        if not listed:
            self.messages.print(empty, highlight=False, soft_wrap=True, markup=False)
            return
        table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in listed:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)

    def line(self, text: str) -> None:
        """Print a line, or several, as they are."""
        print_line(self.console, text)

    def findings(self, findings: Iterable[Mapping[str, Any]]) -> None:
        """Print what was found, as a part of the answer."""
        print_findings(self.console, findings)

    def note(self, sentence: str) -> None:
        """A line on stderr beside the answer."""
        self.steps.note(sentence)

    def warn(self, sentence: str) -> None:
        """A warning on stderr, in both formats."""
        self.messages.print(Text.assemble(("warning: ", "yellow"), sentence), highlight=False, soft_wrap=True)

    def done(self, document: Any, sentence: str) -> None:
        """Answer with one sentence, or the document."""
        self.show(document, lambda _: self.line(sentence))


def print_line(console: Console, line: str) -> None:
    """One line as it is, however long: what others wrote is no markup."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(f"{json.dumps(document, ensure_ascii=False, indent=2)}\n")
    sys.stdout.flush()


def print_error(error: CliError, *, as_json: bool) -> None:
    """Say on stderr, or as the JSON document on stdout, why the command ends early."""
    if as_json and not error.answered:
        print_json(error.document())
    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), error.message))
    print_findings(console, error.findings)


def print_findings(console: Console, findings: Iterable[Mapping[str, Any]]) -> None:
    """Each finding in a line: where, of what, what, and its code; the line of the query; what to write."""
    for finding in findings:
        style = "yellow" if finding.get("severity") == "warning" else ""
        console.print(Text(_sentence(finding), style=style), soft_wrap=True)
        if source := finding.get("source"):
            console.print(Text(source, style="dim"), soft_wrap=True)
        suggestion = finding.get("suggestion")
        if suggestion and suggestion not in finding["message"]:
            console.print(Text(f"    suggestion: {suggestion}"), soft_wrap=True)


def _sentence(finding: Mapping[str, Any]) -> str:
    line, column = finding.get("line"), finding.get("column")
    place = ":".join(str(part) for part in (finding.get("file"), line, column) if part)
    if "source" in finding:  # line and column are the query's own; the file's line is beside them
        file = ":".join(str(finding[key]) for key in ("file", "file_line") if key in finding)
        place = f"SQL line {line}, column {column}" + (f" ({file})" if file else "")
    code = f" [{finding['code']}]" if finding.get("code") else ""
    message = finding["message"]
    named = "source" in finding or message.startswith(finding.get("field") or "")
    severity = "warning" if finding.get("severity") == "warning" else ""
    parts = (place, severity, "" if named else finding["field"], message)
    return "  " + ": ".join(part for part in parts if part) + code


def _dump(item: Any) -> str:
    return json.dumps(item, ensure_ascii=False)
