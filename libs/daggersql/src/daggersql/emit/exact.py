"""SQL of sums of floats that are the same in any order; see `daggersql.exact`."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.exact import ROUNDERS


def part(value: str, number: int) -> str:
    """SQL of one part of a DOUBLE; NULL of NULL. `value` is SQL; it is there up to four times."""
    upper, lower = _round_to_grid(value, number), _round_to_grid(value, number - 1)
    # Infinity is in the first part, and no part of it is in the others.
    return f"nanvl({upper} - {lower}, 0D)" if lower else upper


def total(sums: Sequence[str]) -> str:
    """SQL of the sum of all, given that of each part; NULL when there was none."""
    first, *others = reversed(sums)
    for other in others:
        first = f"({first} + {other})"
    return first


def _round_to_grid(value: str, number: int) -> str:
    if number < 0:
        return ""
    if number == len(ROUNDERS):
        return value
    return f"(({value} + {ROUNDERS[number]!r}D) - {ROUNDERS[number]!r}D)"
