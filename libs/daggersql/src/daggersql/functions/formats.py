"""Formats with one text to put in, as Java's String.format reads them
(https://docs.oracle.com/javase/8/docs/api/java/util/Formatter.html): the patterns of DartContains.

`%s` is the text, `%S` the same in capitals, with `1$` in front if one likes, a width, `-` to fill up on the
right, a precision to cut it; `%%` is a percent sign, `%n` a line break.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# Any number of `%s` takes the one text there is; `%2$s` names another.
_FORMAT = re.compile(
    r"%(?:(?P<place>1\$|<)?(?P<left>-)?(?P<width>[1-9]\d*)?(?:\.(?P<most>\d+))?)(?P<what>[sS%n])", re.ASCII
)
_LONGEST = 1_000
"""Characters that a text is filled up to at most."""


class Hole(NamedTuple):
    """A place for the text."""

    upper: bool
    left: bool
    width: int
    most: int | None
    """Characters of the text that are taken; None is all."""


def parse(pattern: str) -> tuple[tuple[str | Hole, ...], tuple[str, ...]]:
    """Split a pattern into plain texts and holes for the text; and list the percent signs that begin no
    format, with the text behind each: these are plain.
    """
    parts: list[str | Hole] = []
    odd, offset = [], 0
    while (begin := pattern.find("%", offset)) >= 0:
        parts.append(pattern[offset:begin])
        match = _FORMAT.match(pattern, begin)
        part = None if match is None else _part(match)
        if match is None or part is None:
            odd.append(pattern[begin : begin + 2])
        parts.append("%" if part is None else part)
        offset = begin + 1 if match is None or part is None else match.end()
    parts.append(pattern[offset:])
    return tuple(parts), tuple(odd)


def fill(parts: Sequence[str | Hole], text: str) -> str:
    """Put a text into the holes of a pattern."""
    return "".join(part if isinstance(part, str) else _put(part, text) for part in parts)


def _part(match: re.Match[str]) -> str | Hole | None:
    """Parse a format; None for text that is no format to Java."""
    width, left = int(match["width"] or 0), bool(match["left"])
    if width > _LONGEST or (left and not width):
        return None
    if match["what"] in "sS":
        most = None if match["most"] is None else int(match["most"])
        return Hole(match["what"] == "S", left, width, most)
    if match["place"] or match["most"] or (match["what"] == "n" and width):
        return None
    return "\n" if match["what"] == "n" else _pad("%", left, width)


def _put(hole: Hole, text: str) -> str:
    cut = text[: hole.most]
    return _pad(cut.upper() if hole.upper else cut, hole.left, hole.width)


def _pad(text: str, left: bool, width: int) -> str:
    return text.ljust(width) if left else text.rjust(width)
