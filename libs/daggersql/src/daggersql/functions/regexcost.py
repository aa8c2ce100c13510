"""Cost of a pattern for a backtracking matcher, as Java's and Python's are: the number of ways in which it
can try a text before it gives up.

A `Shape` is built for each part of a pattern while it is read, once. Where the next character decides between
repeating and leaving a repeat, or between alternatives, backtracking fails at once and costs nothing. All
other choices multiply the ways. (Weideman et al., Analyzing Matching Time Behavior of Backtracking Regular
Expression Matchers, 2016, compute it exactly; this is an upper bound.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from daggersql.functions.codepoints import EVERYTHING, NOTHING, CodePoints, meet, union

LENGTH = 1_000
"""Characters of the text that ways are counted for."""
COMPETING = 2
"""Maximum of unbounded repeats that may compete for the same text."""
MOST_WAYS: int = LENGTH**COMPETING
_BEYOND: Final = MOST_WAYS * LENGTH

Ways = Callable[[CodePoints], int]
"""Computes the number of ways, from the characters with which the rest of the pattern may begin."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A part of a pattern."""

    first: CodePoints
    """Characters that it may begin with."""
    empty: bool
    """True if it may match the empty text."""
    longest: int | None
    """Characters that it matches at most; None without bound, or where only Java would know."""
    fixed: bool
    """True if it has one length and no alternatives: otherwise Java uses stack for each repetition."""
    ways: Ways

    @property
    def too_costly(self) -> bool:
        """True if it is refused as a whole pattern."""
        return self.ways(NOTHING) > MOST_WAYS


def one(characters: CodePoints, longest: int | None = 1) -> Shape:
    """Build the shape of one character of a set; `longest`: of an element that may be longer."""
    return Shape(characters, False, longest, True, lambda _: 1)


PLACE = Shape(NOTHING, True, 0, True, lambda _: 1)
"""A place between characters."""
REFERENCE = Shape(EVERYTHING, True, None, False, lambda _: 1)
"""Shape of a back reference."""


def sequence(parts: Sequence[Shape]) -> Shape:
    """Build the shape of consecutive parts."""
    if len(parts) == 1:
        return parts[0]

    def ways(follow: CodePoints) -> int:
        product = 1
        for part in reversed(parts):
            product = min(product * part.ways(follow), _BEYOND)
            follow = _begins(part, follow)
        return product

    first = NOTHING
    for part in reversed(parts):
        first = _begins(part, first)
    lengths = [part.longest for part in parts]
    longest = None if None in lengths else sum(length or 0 for length in lengths)
    return Shape(first, all(part.empty for part in parts), longest, all(part.fixed for part in parts), ways)


def choice(branches: Sequence[Shape]) -> Shape:
    """Build the shape of alternatives."""
    if len(branches) == 1:
        return branches[0]

    def ways(follow: CodePoints) -> int:
        counted = [branch.ways(follow) for branch in branches]
        seen, decided = NOTHING, True
        for branch in branches:
            begins = _begins(branch, follow)
            decided = decided and not meet(seen, begins)
            seen = union(seen, begins) if decided else seen
        # Two that both match nothing are two ways, whatever follows.
        decided = decided and sum(branch.empty for branch in branches) < 2
        return max(counted) if decided else min(sum(counted), _BEYOND)

    lengths = [branch.longest for branch in branches]
    longest = None if None in lengths else max(length or 0 for length in lengths)
    first = union(*(branch.first for branch in branches))
    return Shape(first, any(branch.empty for branch in branches), longest, False, ways)


def repeat(body: Shape, least: int, most: int | None, *, possessive: bool) -> Shape:
    """Build the shape of a repeat. `possessive`: it never gives back what it matched."""
    times = LENGTH if most is None else min(most, LENGTH)
    endless = most is None or most > LENGTH

    def ways(follow: CodePoints) -> int:
        if possessive:
            return min(max(times, 1) * body.ways(NOTHING), _BEYOND)
        if endless and not body.fixed:
            return _BEYOND
        inner = body.ways(union(body.first, follow) if times > 1 else follow)
        undecided = body.empty or meet(body.first, follow)
        exits = min(times - min(least, times) + 1, LENGTH) if undecided and least != most else 1
        if inner == 1:
            return exits
        total = exits
        for _ in range(times):
            total *= inner
            if total > _BEYOND:
                return _BEYOND
        return total

    longest = None if endless or body.longest is None else body.longest * times
    fixed = body.fixed and least == most and not possessive
    return Shape(body.first if times else NOTHING, body.empty or least == 0, longest, fixed, ways)


def apart(body: Shape) -> Shape:
    """Build the shape of an atomic group, into which the matcher never backtracks."""
    return Shape(body.first, body.empty, body.longest, False, lambda _: body.ways(NOTHING))


def look(body: Shape, *, behind: bool) -> Shape:
    """Build the shape of a lookahead or, with `behind`, a lookbehind."""
    tried = 1 if not behind or body.fixed or body.longest is None else body.longest + 1
    return Shape(NOTHING, True, 0, True, lambda _: min(tried * body.ways(NOTHING), _BEYOND))


def _begins(part: Shape, follow: CodePoints) -> CodePoints:
    return union(part.first, follow) if part.empty else part.first
