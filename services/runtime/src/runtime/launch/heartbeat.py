"""Tells `daggers.heartbeats` every few seconds, and at each change of state, what the driver is doing.

A thread of its own, because Spark's listener is silent while a batch hangs and stuck would look dead. A
broker that is away costs heartbeats, never the job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from confluent_kafka import KafkaException, Producer
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2

from chassis.logging import logger
from daggerspec import cloudevents
from daggerspec.topics import HEARTBEATS
from runtime.clients.kafka import client_properties
from runtime.launch import progress
from runtime.launch.progress import Progress

PERIOD_S = 5.0
_LAST_WORDS_S = 3.0
_TYPE = telemetry_pb2.Heartbeat.DESCRIPTOR.full_name


@dataclass(frozen=True, slots=True)
class Identity:
    """Which driver speaks."""

    dagger: str
    generation: int
    host: str
    pid: int
    """Process id of the Python half."""


def message(
    identity: Identity,
    done: Progress,
    now: datetime,
    ui_url: str = "",
    error: events_pb2.DaggerError | None = None,
) -> telemetry_pb2.Heartbeat:
    """The heartbeat that says `done` at `now`."""
    beat = telemetry_pb2.Heartbeat(
        dagger=identity.dagger,
        generation=identity.generation,
        host=identity.host,
        pid=identity.pid,
        ui_url=ui_url,
        state=done.state,
        batch_id=done.batch_id,
        batch_duration_ms=done.batch_duration_ms,
        rows_in=done.rows_in,
        rows_out=done.rows_out,
        late_rows=done.late_rows,
        quarantined=done.quarantined,
        refused_rows=done.refused_rows,
        bad_values=done.bad_values,
        references=done.references,
        lag=done.lag,
        state_rows=done.state_rows,
        retrying=done.retrying,
        warnings=[*done.warnings, *progress.floods(done)],
        measures=done.measures,
        error=error,
    )
    beat.time.FromDatetime(now)
    if done.running_since is not None:
        age = (now - done.running_since).total_seconds()
        beat.running_batch_age_ms = max(1, round(age * 1000))
        beat.running_batch_id = done.running
    if done.last_progress is not None:
        beat.last_progress.FromDatetime(done.last_progress)
    if done.watermark is not None:
        beat.watermark.FromDatetime(done.watermark)
    return beat


class Heart:
    """Keeps the job's progress and says it. Thread-safe; a context manager: beats while it is open."""

    def __init__(self, platform: spec_pb2.KafkaAddress, identity: Identity, start: Progress) -> None:
        self.ui_url = ""
        self._identity = identity
        self._progress = start
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._error: events_pb2.DaggerError | None = None
        self._said = 0
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._producer = Producer(
            client_properties(platform)
            | {"linger.ms": 0, "acks": 1, "message.timeout.ms": 30_000, "queue.buffering.max.messages": 100}
        )

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.note(progress.exiting)
        self._thread.join(_LAST_WORDS_S)
        self._producer.flush(_LAST_WORDS_S)

    @property
    def progress(self) -> Progress:
        """How far the job has come."""
        return self._progress

    def note(self, change: Callable[[Progress], Progress]) -> None:
        """Apply a step of `progress.py`; a new state, or another set of troubles, is said at once."""
        with self._lock:
            before, self._progress = self._progress, change(self._progress)
            after = self._progress
        if (before.state, before.retrying) != (after.state, after.retrying):
            self._changed.set()

    def dying_of(self, error: events_pb2.DaggerError) -> None:
        """Why the driver ends: part of its last words."""
        self._error = error

    def _run(self) -> None:
        while self._say(self._progress):
            self._changed.wait(PERIOD_S)
            self._changed.clear()

    def _say(self, done: Progress) -> bool:
        """Say `done`; whether there will be more to say. One value throughout: the job goes on meanwhile."""
        now = datetime.now(UTC)
        last = done.state == telemetry_pb2.Heartbeat.STATE_EXITING
        beat = message(self._identity, done, now, self.ui_url, self._error if last else None)
        self._said += 1
        headers = cloudevents.headers(
            ce_id=f"{self._identity.dagger}/{self._identity.generation}/{self._identity.pid}/{self._said}",
            ce_type=_TYPE,
            source=f"/runtime/{self._identity.dagger}/{self._identity.generation}",
            subject=self._identity.dagger,
            time=cloudevents.timestamp(now),
        )
        try:
            self._producer.produce(
                HEARTBEATS, beat.SerializeToString(), self._identity.dagger, headers=[*headers]
            )
            self._producer.poll(0)
        except (BufferError, KafkaException) as problem:
            logger().warning("heartbeat not sent", why=str(problem))
        return not last
