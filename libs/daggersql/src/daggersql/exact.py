"""Sums of floats that do not depend on the order, as Spark adds in the order of arrival.

Each number is cut into parts on ever finer grids. Sums of the parts of one grid are exact within the 53 bits
of a float; they are added together once, at the end. Beyond that they are rounded, as any sum of floats.
"""

from __future__ import annotations

# Multiples of 2**18, 2**-12, 2**-42 and what is left, to 2**-72: 30 bits each, and 23 for 8,000,000 of them.
_GRIDS = (18, -12, -42)
ROUNDERS = tuple(1.5 * 2.0 ** (grid + 52) for grid in _GRIDS)
"""Adding one of these to a number and subtracting it again rounds the number to its grid."""
PARTS = range(len(ROUNDERS) + 1)
