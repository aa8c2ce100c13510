"""Print a command's result: text for people, or one JSON document, on stdout; all else goes to stderr.

rich, which draws on terminals, is imported only where something is drawn: its import takes as long as a call.
All output passes through here, and invisible characters in texts of others are escaped (`visible`).
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeVar

from cli.errors import CliError, MisusedError
from cli.output import visible
from cli.output.hints import COMMAND, in_place
from daggerspec.exactjson import dumps
from daggerspec.nearest import hint

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from cli.output.progress import Steps

PIPE_WIDTH = 10_000
T = TypeVar("T")
_STANDARD_OUTPUT = Path("-")


class Format(StrEnum):
    """Format of a command's result."""

    TEXT = "text"
    JSON = "json"
    WIDE = "wide"
    """Text, with all columns."""


class Printer:
    """Prints a command's result in the requested format.

    terminal: draw on it instead of stdout. command: name of the command in hints.
    """

    def __init__(self, form: Format, terminal: "Console | None" = None, *, command: str = COMMAND) -> None:
        self.json = form is Format.JSON
        self.wide = form is Format.WIDE
        self._terminal = terminal
        self._command = command

    @property
    def terminal(self) -> bool:
        """True where a person watches the result as it is printed."""
        return self._terminal is not None or sys.stdout.isatty()

    @cached_property
    def console(self) -> "Console":
        """Console on stdout."""
        from cli.output.console import Console

        # a pipe has no width: what reads it wants a row on a line
        return self._terminal or Console(width=None if self.terminal else PIPE_WIDTH)

    @cached_property
    def messages(self) -> "Console":
        """Console on stderr."""
        from cli.output.console import Console

        return Console(stderr=True)

    @cached_property
    def steps(self) -> "Steps":
        """Reporter of running steps, on stderr."""
        from cli.output.progress import Steps

        return Steps(self.messages)

    def show(self, document: Any, text: Callable[[Self], None]) -> None:
        """Print the document, or let `text` print for people."""
        if self.json:
            print_json(document)
        else:
            text(self)

    def is_standard_output(self, file: Path) -> bool:
        """Return whether a command's file is `-`. Raises: MisusedError where a JSON document goes to stdout,
        too.
        """
        if file != _STANDARD_OUTPUT:
            return False
        if self.json:
            raise MisusedError("the file and a JSON document cannot both be standard output: name a file")
        return True

    def document(self, document: Any) -> None:
        """Print a JSON document on one line, and flush it."""
        _write_json(f"{dumps(document)}\n")

    def stream(self, items: Iterable[T], text: Callable[[T], str], document: Callable[[T], Any]) -> int:
        """Print each item on a line as it arrives; in JSON one array, closed however the items end. Return
        their number.
        """
        count = 0
        if not self.json:
            for item in items:
                self.line(text(item))
                count += 1
            return count
        failed = False
        try:
            for item in items:
                _write_json(f"{',' if count else '['}\n{dumps(document(item))}")
                count += 1
        except CliError as error:
            failed, error.answered = True, count > 0
            raise
        finally:
            if count or not failed:
                _write_json(f"{'' if count else '['}\n]\n")
        return count

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
        """Print a table, or the sentence `empty` where it has no rows."""
        listed = [[visible.visible(self._rewrite_hints(str(cell))) for cell in row] for row in rows]
        if not listed:
            self.note(empty)
        elif self.terminal:
            self._draw(columns, listed)
        else:
            self.lines(align([columns, *listed] if any(columns) else listed))

    def _draw(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table that fits the terminal."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)

    def drawing(self, drawn: "RenderableType") -> None:
        """Print what was drawn."""
        self.console.print(drawn)

    def clear(self) -> None:
        """Clear the screen; print an empty line where there is no terminal."""
        if self.terminal:
            self.console.clear()
        else:
            self.line("")

    def line(self, text: str) -> None:
        """Print one or several lines of any length; markup in texts of others is printed as it is."""
        print_text(self._rewrite_hints(text))

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines."""
        for line in lines:
            self.line(line)

    def findings(self, findings: Iterable[Mapping[str, Any]]) -> None:
        """Print findings as a part of the result."""
        print_findings(self.console, findings, self._command)

    def note(self, sentence: str) -> None:
        """Print a line on stderr beside the result."""
        _write(sys.stderr, self._rewrite_hints(sentence))

    def warn(self, sentence: str) -> None:
        """Print a warning on stderr, in both formats."""
        from rich.text import Text

        warning = Text.assemble(("warning: ", "yellow"), self._rewrite_hints(sentence))
        self.messages.print(warning, highlight=False, soft_wrap=True)

    def print_result(self, document: Any, sentence: str) -> None:
        """Print one sentence, or the document."""
        self.show(document, lambda _: self.line(sentence))

    def _rewrite_hints(self, text: str) -> str:
        return in_place(text, self._command)


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows as lines with aligned columns; a cell may have several lines."""
    from rich.cells import cell_len

    cells = [[visible.visible(cell).split("\n") for cell in row] for row in rows]
    widths = [max(cell_len(line) for cell in column for line in cell) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            part + " " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True)
        ).rstrip()
        for row in cells
        for parts in zip_longest(*row, fillvalue="")
    ]


def print_text(text: str) -> None:
    """Print one or several lines on stdout."""
    _write(sys.stdout, text)


def _write(file: TextIO, text: str) -> None:
    file.write(f"{visible.visible(text)}\n")
    file.flush()


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    _write_json(f"{dumps(document, indent=2)}\n")


def _write_json(text: str) -> None:
    """Write a part of a document to stdout; characters that its encoding lacks are escaped
    as JSON does it.
    """
    sys.stdout.write(visible.json(text, sys.stdout.encoding or "utf-8"))
    sys.stdout.flush()


def print_error(error: CliError, *, as_json: bool, command: str = COMMAND) -> None:
    """Print on stderr, or as the JSON document on stdout, why the command ends early.

    `command`: name of the command in hints.
    """
    try:
        if as_json and not error.answered:
            print_json(error.document())
    finally:
        _print_error(error, command)


def _print_error(error: CliError, command: str) -> None:
    from rich.text import Text

    from cli.output.console import Console

    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), in_place(_beside_findings(error), command)))
    print_findings(console, error.findings, command)


def _beside_findings(error: CliError) -> str:
    """Return the reason why the command ends early; where findings stand below it, only their number."""
    if not error.findings:
        return error.message
    from daggerclient.findings import headline

    wrong = [finding for finding in error.findings if finding.get("severity") != "warning"]
    return error.message.replace(headline(wrong or error.findings), amount(len(wrong)), 1)


def amount(things: int) -> str:
    """Format the number of problems."""
    return "one thing is wrong" if things == 1 else f"{things} things are wrong"


def print_findings(console: "Console", findings: Iterable[Mapping[str, Any]], command: str = COMMAND) -> None:
    """Print each finding on a line, with its place and code; then the line of the query, and
    the suggestion.
    """
    from rich.text import Text

    for finding in findings:
        style = "yellow" if finding.get("severity") == "warning" else ""
        console.print(Text(in_place(_sentence(finding), command), style=style), soft_wrap=True)
        if source := finding.get("source"):
            console.print(Text(source, style="dim"), soft_wrap=True)
        suggestion = finding.get("suggestion")
        if suggestion and not _ends_with_suggestion(finding["message"], suggestion):
            console.print(Text(f"    suggestion: {suggestion}"), soft_wrap=True)


def _ends_with_suggestion(message: str, suggestion: str) -> bool:
    """Return whether a message ends with the suggestion; elsewhere the same characters may mean something
    else.
    """
    return message.endswith((hint(suggestion), f": {suggestion}."))


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
