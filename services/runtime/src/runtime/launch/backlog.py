"""What waits in Kafka while a batch runs.

Spark tells of that once the batch is committed, and as it was when the batch was planned: long ago, where a
sink is slow.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from functools import partial

from runtime.errors import JobError
from runtime.launch import progress
from runtime.launch.heartbeat import PERIOD_S
from runtime.launch.launch import Launch
from runtime.source.planner import pace


def follow(launch: Launch) -> None:
    """Look as often as a heartbeat tells of it, while a batch runs for longer; until the launch has ended."""
    threading.Thread(target=_run, args=(launch,), name="backlog", daemon=True).start()


def _run(launch: Launch) -> None:
    while not launch.ended.wait(PERIOD_S):
        known = launch.heartbeat.progress
        since = known.running_since
        if since is None or (datetime.now(UTC) - since).total_seconds() < PERIOD_S:
            continue
        try:
            records = pace.unread(launch.spec.dagger, launch.spec.generation)
        except JobError:  # the next batch meets it, and says so
            continue
        if records:  # of readers that have not begun nothing is known
            launch.heartbeat.update(partial(progress.behind, batch_id=known.running, records=records))
