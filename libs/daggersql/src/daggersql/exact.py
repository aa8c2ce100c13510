"""Sums of floats that are the same in any order: Spark adds up in the order in which things come.

Each number is cut into parts on grids, one finer than the other. As long as the sum of such parts keeps to
the 53 bits of a float, nothing is rounded; the parts' sums are put together once, in the end. What is beyond
that is rounded on the way, as in any sum of floats.
"""

from __future__ import annotations

from collections.abc import Sequence

# Multiples of 2**18, 2**-12, 2**-42 and what is left, to 2**-72: 30 bits each, and 23 for 8,000,000 of them.
_GRIDS = (18, -12, -42)
ROUNDERS = tuple(1.5 * 2.0 ** (grid + 52) for grid in _GRIDS)
"""To add one to a number and take it away again rounds to the grid."""
PARTS = range(len(ROUNDERS) + 1)


def part(value: str, number: int) -> str:
    """SQL of one part of a DOUBLE; NULL of NULL. `value` is SQL; it is there up to four times."""
    upper, lower = _rounded(value, number), _rounded(value, number - 1)
    # Infinity is in the first part, and no part of it is in the others.
    return f"nanvl({upper} - {lower}, 0D)" if lower else upper


def total(sums: Sequence[str]) -> str:
    """SQL of the sum of all, given that of each part; NULL when there was none."""
    first, *others = reversed(sums)
    for other in others:
        first = f"({first} + {other})"
    return first


def _rounded(value: str, number: int) -> str:
    if number < 0:
        return ""
    if number == len(ROUNDERS):
        return value
    return f"(({value} + {ROUNDERS[number]!r}D) - {ROUNDERS[number]!r}D)"
