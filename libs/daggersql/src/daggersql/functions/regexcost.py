"""What a pattern may cost a matcher that goes back, as Java's and Python's do: in how many ways it can go
over a text before it gives up.

A `Shape` is built for each part of a pattern while it is read, once. A choice between going on and leaving a
repeat, or between alternatives, is none where the next character decides: then no way back is worth taking.
What is not decided so is multiplied. (Weideman et al., Analyzing Matching Time Behavior of Backtracking
Regular Expression Matchers, 2016, decide it exactly; this errs on the side of more.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from daggersql.functions.codepoints import EVERYTHING, NOTHING, CodePoints, meet, union

LENGTH = 1_000
"""Characters of the text that ways are counted for."""
COMPETING = 2
"""How many repeats without bound may compete for the same text."""
MOST_WAYS: int = LENGTH**COMPETING
_BEYOND: Final = MOST_WAYS * LENGTH

Ways = Callable[[CodePoints], int]
"""How many ways there are, by the characters that what follows may begin with."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A part of a pattern."""

    first: CodePoints
    """Characters that it may begin with."""
    empty: bool
    """Whether it may match nothing."""
    longest: int | None
    """Characters that it matches at most; None without bound, or where only Java would know."""
    fixed: bool
    """Whether it has one length and no alternatives. Of what has not, Java keeps each repeat on its stack."""
    ways: Ways

    @property
    def too_costly(self) -> bool:
        """Whether it is refused as a whole pattern."""
        return self.ways(NOTHING) > MOST_WAYS


def one(characters: CodePoints, longest: int | None = 1) -> Shape:
    """One character of these; `longest` for what is taken for one but may be longer."""
    return Shape(characters, False, longest, True, lambda _: 1)


PLACE = Shape(NOTHING, True, 0, True, lambda _: 1)
"""A place between characters."""
REFERENCE = Shape(EVERYTHING, True, None, False, lambda _: 1)
"""What a group matched before."""


def sequence(parts: Sequence[Shape]) -> Shape:
    """One behind the other."""
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
    """One of several."""
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
    """A part, so many times. `possessive`: what it took it never gives back."""
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
    """What is not gone back into once it has matched: an atomic group."""
    return Shape(body.first, body.empty, body.longest, False, lambda _: body.ways(NOTHING))


def look(body: Shape, *, behind: bool) -> Shape:
    """What is looked for and not taken."""
    tried = 1 if not behind or body.fixed or body.longest is None else body.longest + 1
    return Shape(NOTHING, True, 0, True, lambda _: min(tried * body.ways(NOTHING), _BEYOND))


def _begins(part: Shape, follow: CodePoints) -> CodePoints:
    return union(part.first, follow) if part.empty else part.first
