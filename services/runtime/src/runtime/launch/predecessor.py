"""Compute where an edited query begins. Without Spark: plans of reads use it, too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import daggersql
from daggerspec import state
from runtime.source.planner.start_offsets import Predecessor
from runtime.state.checkpoint import Stand
from runtime.state.store import Place


def predecessor_offsets(
    stand: Stand | None, plan: daggersql.Plan, oldest: Callable[[Place], datetime | None]
) -> Predecessor | None:
    """Return the offsets that the query before an edit has read, and since when the edited query needs
    records.

    stand: how far that query has come; None: there is none. oldest: returns the start of the oldest open
    session in a checkpoint. The edited query needs records from a while before the watermark, or before that
    session (`daggerspec.state`): all closed windows are written, and later records belong to open ones. If no
    window was closed, it begins where the query before began.
    """
    if stand is None:
        return None
    begin = state.begin(plan, closed=stand.watermark is not None)
    if begin is state.Begin.BEHIND:
        return Predecessor(stand.next, None, stand.complete_from)
    if stand.watermark is None:
        return Predecessor(stand.begun, None, stand.complete_from)
    since = state.needed_since(plan, min(oldest(stand.path) or stand.watermark, stand.watermark))
    # windows of a fixed size: it is known which are written; of others only that those a horizon ago are
    closed_until = stand.watermark if daggersql.fixed_size(plan.window) else stand.watermark - plan.horizon
    return Predecessor(stand.next, since, stand.complete_from, closed_until)
