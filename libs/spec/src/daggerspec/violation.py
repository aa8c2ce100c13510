"""One thing that is wrong with one field of what was asked.

A finding in SQL is a violation of the field that holds the SQL; its reason is the finding's code.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """What to write at the place instead."""

    @property
    def description(self) -> str:
        """All of it as text: place, message, and on a second line the suggestion."""
        position = f"line {self.line}, column {self.column}: " if self.line else ""
        last = f"\nsuggestion: {self.suggestion}" if self.suggestion else ""
        return f"{position}{self.message}{last}"
