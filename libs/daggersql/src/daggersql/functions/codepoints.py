"""Sets of characters, as the classes of a regular expression are: unions, intersections, complements.

A set is a sorted tuple of ranges of code points, both ends in it. Halves of surrogate pairs are in none: no
text that we match has one.
"""

from __future__ import annotations

import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

CodePoints: TypeAlias = tuple[tuple[int, int], ...]

NOTHING: CodePoints = ()
EVERYTHING: CodePoints = ((0, 0xD7FF), (0xE000, sys.maxunicode))


@lru_cache(maxsize=256)
def union(*sets: CodePoints) -> CodePoints:
    """Unite sets."""
    if len(sets) == 2 and (sets[0] == sets[1] or not sets[1]):
        return sets[0]
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pair for one in sets for pair in one):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


@lru_cache(maxsize=256)
def complement(one: CodePoints) -> CodePoints:
    """Build the set of all other characters; surrogates are in none."""
    gaps, start = [], 0
    for low, high in union(one, ((0xD800, 0xDFFF),)):
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    return (*gaps, (start, sys.maxunicode)) if start <= sys.maxunicode else tuple(gaps)


def intersection(one: CodePoints, other: CodePoints) -> CodePoints:
    """Intersect two sets."""
    return complement(union(complement(one), complement(other)))


def meet(one: CodePoints, other: CodePoints) -> bool:
    """Tell whether two sets have a character in common."""
    here, there = 0, 0
    while here < len(one) and there < len(other):
        if one[here][1] < other[there][0]:
            here += 1
        elif other[there][1] < one[here][0]:
            there += 1
        else:
            return True
    return False


def characters(text: Iterable[str]) -> CodePoints:
    """Build a set of single characters."""
    return union(tuple((ord(character), ord(character)) for character in text))


def both_cases(one: CodePoints) -> CodePoints:
    """Add the other case of every ASCII letter in a set."""
    added = []
    for first, last, other in ((65, 90, 32), (97, 122, -32)):
        for low, high in intersection(one, ((first, last),)):
            added.append((low + other, high + other))
    return union(one, tuple(added))


@lru_cache(maxsize=1)
def by_category() -> dict[str, CodePoints]:
    """Map Unicode's categories, such as `Lu`, and their groups, such as `L`, to sets."""
    categories: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for low, high in EVERYTHING:
        start, before = low, unicodedata.category(chr(low))
        for number in range(low + 1, high + 1):
            category = unicodedata.category(chr(number))
            if category != before:
                categories[before].append((start, number - 1))
                start, before = number, category
        categories[before].append((start, high))
    exact = {name: union(tuple(ranges)) for name, ranges in categories.items()}
    groups = {name[0] for name in exact}
    return exact | {
        group: union(*(ranges for name, ranges in exact.items() if name[0] == group)) for group in groups
    }


@lru_cache(maxsize=256)
def to_class(one: CodePoints) -> str:
    """Write a set as a class that Python and RE2 read alike."""
    if not one:
        return "(?!)"
    return f"[{''.join(_end(low) if low == high else f'{_end(low)}-{_end(high)}' for low, high in one)}]"


def _end(number: int) -> str:
    letter = chr(number)
    return letter if number > 0x7F or letter.isalnum() else f"\\x{number:02x}"
