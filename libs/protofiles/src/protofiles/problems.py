"""Problems of uploaded files: their form, order and greatest number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MAX_PROBLEMS: Final = 200
"""Length of a list of problems; where there are more, the last entry gives their number."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Error in one file, or in all of them together."""

    file: str
    """Its path as uploaded; empty for all files together."""
    line: int
    """From 1; 0 for the file as a whole."""
    column: int
    """From 1, in code points; 0 for the file as a whole."""
    reason: str
    """Machine-readable, in UPPER_SNAKE."""
    message: str
    """One sentence: what is wrong, and what to do."""


def order_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems by file and place, without repetitions; cut the list to MAX_PROBLEMS."""
    unique = sorted(set(problems))
    if len(unique) <= MAX_PROBLEMS:
        return unique
    more = len(unique) - MAX_PROBLEMS + 1
    return [*unique[: MAX_PROBLEMS - 1], Problem("", 0, 0, "MORE", f"and {more} more problems")]
