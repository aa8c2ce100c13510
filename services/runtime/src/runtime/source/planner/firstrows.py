"""Find the records of a preview that close its first window: they are read before all others.

Somebody waits for the first rows. Pure: `samples` reads from the topics.
"""

from __future__ import annotations

from runtime.source.offsets import Positions
from runtime.source.planner.alignment import oldest, search
from runtime.source.planner.sampling import Samples
from runtime.source.watermark import Windows

WORTH = 100_000
"""Fewer records are read at once: two batches more take as long."""
# Beyond the time that closes a window so much of its size is read, so that there is a record which does.
_BEYOND = 8
_SOONEST_MS = 1_000


def first_part(
    start: Positions, end: Positions, windows: Windows, delay: int, whole_from: int, samples: Samples
) -> Positions | None:
    """Find the end of the records of [start, end) that close the first whole window.

    Windows that begin at `whole_from` (ms) or later are whole. None where these records are more than half of
    all, or that cannot be estimated.

    Each partition ends at the same event time, as each batch of a dagger does: what is left behind it is late
    only if it would have been late anyway.
    """
    heads = oldest(samples({p: offset for p, offset in start.items() if offset < end[p]}))
    if not heads:
        return None
    closes = windows.next_end(max(min(heads.values()), whole_from - 1 + windows.size))
    horizon = closes + delay + max(windows.size // _BEYOND, _SOONEST_MS)
    until = {**end, **search(horizon, start, end, samples)}
    part = sum(until[p] - start[p] for p in end)
    return until if 0 < 2 * part <= sum(end[p] - start[p] for p in end) else None
