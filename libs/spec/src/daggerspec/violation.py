"""One thing that is wrong with one field of what was asked.

A finding in SQL is a violation of the field that holds the SQL: its reason is the finding's code, its
description "line 3, column 7: " and the message, and on a second line "suggestion: " and what to write
instead, if anything. `Violation` reads the parts back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FINDING: Final = re.compile(r"line (\d+), column (\d+): (.*?)(?:\nsuggestion: (.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with one field of a request."""

    field: str
    """Path in the request, for example spec.streams[0].watermark_delay."""
    description: str
    """One sentence: what is wrong and what to do."""
    reason: str = ""
    """UPPER_SNAKE; for a finding in SQL, its code."""

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and column, both from 1, of a finding in SQL."""
        found = _FINDING.fullmatch(self.description)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def message(self) -> str:
        """What is wrong, without place and suggestion."""
        found = _FINDING.fullmatch(self.description)
        return found[3] if found else self.description

    @property
    def suggestion(self) -> str | None:
        """What to write at the place of a finding in SQL instead."""
        found = _FINDING.fullmatch(self.description)
        return found[4] if found else None


def sql_violation(
    path: str, *, code: str, line: int, column: int, message: str, suggestion: str | None = None
) -> Violation:
    """The violation that a finding in the SQL of field `path` becomes."""
    last = f"\nsuggestion: {suggestion}" if suggestion else ""
    return Violation(path, f"line {line}, column {column}: {message}{last}", code)
