"""Patterns of dates and times, as Java's SimpleDateFormat reads them (https://docs.oracle.com/javase/8/docs/api/java/text/SimpleDateFormat.html).

English only: the letters whose meaning depends on a locale (weeks: Y w W F) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from daggersql.findings import Report, Span, instead, instead_of_constant
from daggersql.functions.checks import is_null
from daggersql.functions.signature import Check
from daggersql.ir.expr import Expr

LETTERS = "GyMLdDEuaHkKhmsSzZX"
_BY_LOCALE = "YwWF"
_LONGEST_OF = {"X": 3, "z": 3}
MAX_PATTERN = 256
_PARTS = re.compile(r"''|'(?:[^']|'')*'|'|([A-Za-z])\1*|[^A-Za-z']+")


class PatternPart(NamedTuple):
    """A run of one letter, or text that stands for itself (`letter` is empty then)."""

    letter: str
    text: str

    @property
    def width(self) -> int:
        """Number of repetitions of the letter."""
        return len(self.text)


def parse(pattern: str) -> tuple[PatternPart, ...]:
    """Split a pattern into parts. Raises: `ValueError` with a sentence about the first error."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"A pattern has at most {MAX_PATTERN} characters.")
    parts = []
    for part in _PARTS.finditer(pattern):
        text, letter = part[0], part[1] or ""
        if text == "'":
            raise ValueError("A quote is not closed in this pattern.")
        if not letter:
            plain = "'" if text == "''" else text[1:-1].replace("''", "'") if text[0] == "'" else text
            parts.append(PatternPart("", plain))
            continue
        if letter in _BY_LOCALE:
            raise ValueError(f"{letter} depends on a locale's weeks and is not supported.")
        if letter not in LETTERS:
            raise ValueError(f"{letter} is no letter of a pattern; text is quoted, as in 'T'.")
        if len(text) > _LONGEST_OF.get(letter, MAX_PATTERN):
            raise ValueError(f"{letter} stands at most {_LONGEST_OF[letter]} times in a row.")
        parts.append(PatternPart(letter, text))
    return tuple(parts)


def check_pattern(number: int) -> Check:
    """Check that argument `number` is a constant pattern."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        pattern = arguments[number]
        if pattern.wrong or is_null(pattern):
            return
        if not isinstance(pattern.value, str):
            report.error(
                "INVALID_ARGUMENT",
                pattern.span,
                "The pattern is written as a constant.",
                instead(pattern.span, "'HH:mm'"),
            )
            return
        try:
            parse(pattern.value)
        except ValueError as wrong:
            report.error(
                "INVALID_FORMAT_PATTERN",
                pattern.span,
                str(wrong),
                instead_of_constant(pattern.span, "yyyy-MM-dd HH:mm:ss"),
            )

    return check
