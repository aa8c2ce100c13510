"""Sums of floats that are the same in any order: Spark adds up in the order in which things come.

Each number is cut into parts on grids, one finer than the other. As long as the sum of such parts keeps to
the 53 bits of a float, nothing is rounded; the parts' sums are put together once, in the end. What is beyond
that is rounded on the way, as in any sum of floats.
"""

from __future__ import annotations

# Multiples of 2**18, 2**-12, 2**-42 and what is left, to 2**-72: 30 bits each, and 23 for 8,000,000 of them.
_GRIDS = (18, -12, -42)
ROUNDERS = tuple(1.5 * 2.0 ** (grid + 52) for grid in _GRIDS)
"""To add one to a number and take it away again rounds to the grid."""
PARTS = range(len(ROUNDERS) + 1)
