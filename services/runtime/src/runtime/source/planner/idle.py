"""Decide when an idle source advances its watermark, and how far.

A watermark moves only with rows. When a stream falls silent its last windows would stay open until something
arrives. So a reader that has read everything, and has seen nothing new for `idle_timeout`, emits an idle
advance: a control row whose event time moves the watermark and that is dropped above it.

Its event time is

* at most `now - idle_timeout`: a window closes `idle_timeout` + the watermark's delay after its end, no
  sooner;
* at most what closes the last window that holds a record of any stream. A back-fill of last year's events
  that pauses for a minute has the windows it filled closed, and nothing of what follows becomes late;
* at most what the slowest stream that is not idle allows: running ahead of it would close nothing, and would
  make late what comes when the idle stream wakes up.

An advance that would close no window is not emitted: an idle dagger runs no batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.source.watermark import NEVER, WatermarkState, Windows


def next_advance(
    own: WatermarkState, others: Sequence[WatermarkState], windows: Windows, idle_until: int
) -> int | None:
    """Return the event time (ms) to which an idle reader advances its watermark now, or None.

    `idle_until` is now - idle_timeout. The caller sees to it that the reader has been idle for that long,
    with every partition read to its end.
    """
    newest = max(
        (state.newest_record for state in (own, *others) if state.newest_record is not None), default=None
    )
    if newest is None:
        return None
    allowed = min((state.watermark for state in others if not state.idle), default=None)
    watermark = min(idle_until - own.delay, windows.last_gate(newest))
    if allowed is not None:
        watermark = min(watermark, allowed)
    if watermark <= own.watermark:
        return None
    closes = watermark == windows.last_gate(newest) or windows.closes_one(own.watermark, watermark)
    if own.observed is not None and not closes:
        return None
    return None if watermark == NEVER else watermark + own.delay
