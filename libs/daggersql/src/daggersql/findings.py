"""What is wrong with a query, where, and what to write instead.

Offsets are 0-based characters of the text, ends are exclusive; only a `Finding` speaks of lines and columns.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import TypeAlias

from daggerspec.violation import Violation
from daggersql.environment import Environment, Reference

Span: TypeAlias = tuple[int, int]
"""Start and end offset of a part of the query."""

# A pathological query must not make its own report a bomb.
MAX_FINDINGS = 100


class Severity(Enum):
    """Whether a query with this finding may run."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say about a query.

    `line` and `column` count from 1, in characters (a tab is one); `end_line` and `end_column` are the place
    just behind the last character. `code` is UPPER_SNAKE and listed in docs/dialect.md.
    """

    code: str
    severity: Severity
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    suggestion: str | None = None

    def violation(self, field: str) -> Violation:
        """It as one of the field that holds the query."""
        return Violation(
            field,
            self.message,
            self.code,
            self.line,
            self.column,
            self.end_line,
            self.end_column,
            self.suggestion,
        )


@dataclass(slots=True)
class Report:
    """Collects the findings about one text."""

    text: str
    environment: Environment = field(default_factory=Environment)
    """What the text may name beside the streams' columns."""
    accepted: bool = False
    """Whether an earlier version took the text and may be running it."""
    references: list[Reference] = field(default_factory=list)
    """Reference tables that the text reads, as they were come across."""
    _findings: list[Finding] = field(default_factory=list)
    _starts: list[int] | None = None

    def error(self, code: str, span: Span, message: str, suggestion: str | None = None) -> None:
        """The query cannot run."""
        self._add(Severity.ERROR, code, span, message, suggestion)

    def warn(self, code: str, span: Span, message: str, suggestion: str | None = None) -> None:
        """The query runs, but someone should know."""
        self._add(Severity.WARNING, code, span, message, suggestion)

    def object_to(self, code: str, span: Span, message: str, suggestion: str | None = None) -> None:
        """What an earlier version let through: an error, but a warning for a text that it accepted.

        For what Spark can run all the same. A query that runs must not end because its check has learnt more.
        """
        severity = Severity.WARNING if self.accepted else Severity.ERROR
        self._add(severity, code, span, message, suggestion)

    def note_reference(self, reference: Reference) -> None:
        """The text reads a reference table."""
        self.references.append(reference)

    @property
    def failed(self) -> bool:
        """Whether an error was found."""
        return any(finding.severity is Severity.ERROR for finding in self._findings)

    def findings(self) -> tuple[Finding, ...]:
        """Every finding once, errors first, each kind in the order of the text."""
        return tuple(
            sorted(
                dict.fromkeys(self._findings),
                key=lambda each: (each.severity is Severity.WARNING, each.line, each.column),
            )
        )

    def _add(self, severity: Severity, code: str, span: Span, message: str, suggestion: str | None) -> None:
        if len(self._findings) < MAX_FINDINGS:
            line, column = self._place(span[0])
            end_line, end_column = self._place(max(span))
            self._findings.append(
                Finding(code, severity, message, line, column, end_line, end_column, suggestion)
            )

    def _place(self, offset: int) -> tuple[int, int]:
        if self._starts is None:
            self._starts = [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", self.text))]
        line = bisect_right(self._starts, min(offset, len(self.text)))
        return line, min(offset, len(self.text)) - self._starts[line - 1] + 1


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The text cannot be read any further; carries the one error that stopped it."""

    def __init__(self, code: str, span: Span, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.span = span
        self.message = message
        self.suggestion = suggestion


def nearest(wrong: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant, whatever its letter case; None when none is near.

    `cutoff` is how alike they must be, from 0 to 1.
    """
    # Comparing long texts costs more than their suggestion is worth; names are at most 128 characters.
    by_folded = {name.lower(): name for name in sorted(known)}
    found = get_close_matches(wrong[:128].lower(), by_folded, n=1, cutoff=cutoff)
    if found:
        return by_folded[found[0]]
    # An abbreviation: lat for latitude.
    start = wrong.lower()
    begun = [name for folded, name in by_folded.items() if len(start) > 1 and folded.startswith(start)]
    return min(begun, key=len) if begun else None
