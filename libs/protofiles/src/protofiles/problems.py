"""One thing that is wrong with what was brought."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MOST: Final = 200
"""Problems that are told; of more the last one gives the number."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong with one file."""

    file: str
    """The file as it was brought; empty where it is about all of them."""
    line: int
    """Line in it, from 1; 0 where it is about the file as a whole."""
    column: int
    """Column in that line, from 1; 0 as `line`."""
    reason: str
    """UPPER_SNAKE."""
    message: str
    """One sentence: what is wrong, and what to do."""


def ordered(problems: Iterable[Problem]) -> list[Problem]:
    """Each once, by file and place; at most `MOST`."""
    every = sorted(set(problems))
    if len(every) <= MOST:
        return every
    more = len(every) - MOST + 1
    return [*every[: MOST - 1], Problem("", 0, 0, "MORE", f"and {more} more problems")]
