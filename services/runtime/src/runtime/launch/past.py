"""What was read before an edit, and where the edited query begins. Without Spark: plans ask, too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import daggersql
from daggerspec import state
from runtime.source.planner.start_offsets import Predecessor
from runtime.state.checkpoint import Stand
from runtime.state.store import Place


def past(
    stand: Stand | None, plan: daggersql.Plan, oldest: Callable[[Place], datetime | None]
) -> Predecessor | None:
    """What was read before an edit, and from when on the edited query needs records (`daggerspec.state`).

    From that long before the watermark, or before the oldest session that is open, which `oldest` tells of a
    checkpoint: windows that were closed were written, and what came after belonged to windows that were still
    open. Before any was closed the edited query begins where the one before began.
    """
    if stand is None:
        return None
    begin = state.begin(plan, closed=stand.watermark is not None)
    if begin is state.Begin.BEHIND:
        return Predecessor(stand.next, None, stand.complete_from)
    if stand.watermark is None:
        return Predecessor(stand.begun, None, stand.complete_from)
    since = state.needed_since(plan, min(oldest(stand.path) or stand.watermark, stand.watermark))
    # Of one window of a fixed size it is known which were written; of others, that what is older was.
    closed = stand.watermark if daggersql.sized(plan.window) else stand.watermark - plan.horizon
    return Predecessor(stand.next, since, stand.complete_from, closed)
