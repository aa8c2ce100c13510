"""One thing that is wrong with one field of what was asked.

A finding in SQL is a violation of the field that holds the SQL; its reason is the finding's code.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")


def lines(text: str) -> list[str]:
    """Split a text into lines, as findings count them."""
    return _LINE_END.split(text)


def line_starts(text: str) -> list[int]:
    """List the offset at which each line of a text begins."""
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


@dataclass(frozen=True, slots=True)
class Edit:
    """A suggestion that can be applied: `text` instead of a part of the SQL, which may be empty.

    Lines and columns count from 1, in code points; the end is just behind the last character.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def apply(self, sql: str) -> str:
        """Return the SQL with the edit applied."""
        starts = line_starts(sql)
        start = starts[self.line - 1] + self.column - 1
        end = starts[self.end_line - 1] + self.end_column - 1
        return sql[:start] + self.text + sql[end:]


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with one field of a request."""

    field: str
    """Path in the request, for example spec.streams[0].watermark_delay."""
    message: str
    """One sentence: what is wrong and what to do."""
    reason: str = ""
    """UPPER_SNAKE; for a finding in SQL, its code."""
    line: int | None = None
    """Line in the SQL, from 1; None outside of SQL, as the next four."""
    column: int | None = None
    """Column in that line, from 1, in code points."""
    end_line: int | None = None
    """Line of the first character behind the place."""
    end_column: int | None = None
    """Column of the first character behind the place."""
    suggestion: str | None = None
    """A change for a person to make; not always at the place."""
    edit: Edit | None = None
    """The suggestion as an edit of the SQL; None where only a person can apply it."""
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False, compare=False)
    """The values of the message for programs, such as a limit."""

    @property
    def description(self) -> str:
        """All of it as text: place, message, and on a second line the suggestion."""
        position = f"line {self.line}, column {self.column}: " if self.line else ""
        last = f"\nsuggestion: {self.suggestion}" if self.suggestion else ""
        return f"{position}{self.message}{last}"


def unregistered_name(field: str, kind: str, name: str) -> Violation:
    """Build the violation of a cluster, stream or message that is not registered."""
    text = f"{kind} {name} is not registered"
    return Violation(field, text, f"UNKNOWN_{kind.upper()}", metadata={"kind": kind, "name": name})
