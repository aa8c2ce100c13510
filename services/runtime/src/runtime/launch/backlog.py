"""Report the unread records in Kafka while a batch runs.

Spark reports them only when the batch is committed, as they were when it was planned: long ago with a slow
sink.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from chassis import threads
from runtime.errors import JobError
from runtime.launch import progress
from runtime.launch.heartbeat import PERIOD_S
from runtime.launch.launch import Launch
from runtime.source.planner import pace


def follow(launch: Launch) -> None:
    """Measure once per heartbeat while a batch runs for longer than that, until the launch has ended."""
    threads.start(partial(_run, launch), "backlog")


def _run(launch: Launch) -> None:
    while not launch.ended.wait(PERIOD_S):
        current = launch.heartbeat.progress
        since = current.running_since
        if since is None or (datetime.now(UTC) - since).total_seconds() < PERIOD_S:
            continue
        try:
            records = pace.unread(launch.spec.dagger, launch.spec.generation)
        except JobError:  # the next batch fails of it, and reports it
            continue
        if records:  # readers that have not begun report none
            launch.heartbeat.update(partial(progress.behind, batch_id=current.running, records=records))
