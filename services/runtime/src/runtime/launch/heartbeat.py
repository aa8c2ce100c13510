"""Send heartbeats of a launch to `daggers.heartbeats`, every few seconds and at each change of state.

While the scheduler of the host collects them, those of every few seconds are left for it in a file.

It has a thread of its own, because Spark's listener is silent while a batch hangs: a stuck driver would look
dead. A broker that is away costs heartbeats, never the job.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from daggers.v1 import spec_pb2
from daggers.v1.telemetry_pb2 import Heartbeat

from chassis import pressure, processes, threads
from chassis.files import replace_bytes
from chassis.logging import logger
from daggerspec import cloudevents, rundir
from daggerspec.topics import HEARTBEATS
from kafkaclient.replacing import Replaceable, answers, discard
from runtime import members
from runtime.clients.kafka import PropertiesKey, client, client_properties, key_of
from runtime.launch import progress
from runtime.launch.progress import Progress
from runtime.launch.usage_share import UsageShare
from runtime.recent import cache_in_use

PERIOD_S = 5.0
_LAST_WORDS_S = 3.0
_TYPE = Heartbeat.DESCRIPTOR.full_name


_PROPERTIES = {
    "linger.ms": 0,
    "acks": 1,
    "message.timeout.ms": 30_000,
    # of all members: as many as they send while one is waited for
    "queue.buffering.max.messages": 1_000,
}


@cache_in_use
def _producers_of(properties: PropertiesKey) -> Replaceable[Producer]:
    """Open the producer of a Kafka: one for all members of this process."""
    return Replaceable(
        lambda _: client(Producer, {**dict(properties), **_PROPERTIES}),
        lambda: answers(dict(properties)),
        discard,
    )


class SessionMeter:
    """Measures this process's session for all its members: that looks at every process of the host."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used, self._until = processes.SessionUsage(0, 0.0), 0.0

    def measure(self) -> processes.SessionUsage:
        """Return what the session uses, as it was half a period ago at most."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._used = processes.measure_session(os.getsid(0))
                self._until = time.monotonic() + PERIOD_S / 2
            return self._used


_session = SessionMeter()


class HeartbeatSender:
    """Holds a launch's progress and sends it while the context is open. Thread-safe."""

    def __init__(
        self, platform: spec_pb2.KafkaAddress, start: Progress, *, run_dir: Path, quiet: bool = False
    ) -> None:
        """Begin at `start`. run_dir: of the launch. quiet: sends nothing until `start` is called."""
        self._run_dir = run_dir
        self._progress = start
        self._quiet = quiet
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._sent = 0
        self._usage = UsageShare(members.count, is_first=members.is_first())
        self._thread: threading.Thread | None = None
        self._producers = _producers_of(key_of(client_properties(platform)))

    def __enter__(self) -> HeartbeatSender:
        if not self._quiet:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.update(progress.exiting)
        if self._thread is not None:
            self._thread.join(_LAST_WORDS_S)
            self._producers.current.flush(_LAST_WORDS_S)

    def start(self) -> None:
        """Start sending, of a quiet sender; once, while the context is open."""
        self._thread = threads.start(self._run, "heartbeat")

    @property
    def sent(self) -> int:
        """Number of heartbeats that were sent; what was left for the host is not among them."""
        return self._sent

    @property
    def progress(self) -> Progress:
        """Progress of the launch."""
        return self._progress

    def update(self, change: Callable[[Progress], Progress]) -> None:
        """Apply a step of `progress.py`; a change of state, troubles or outages is sent at once."""
        with self._lock:
            before, self._progress = self._progress.beat, change(self._progress)
            after = self._progress.beat
        if (before.state, before.retrying, before.outages) != (after.state, after.retrying, after.outages):
            self._changed.set()

    def _run(self) -> None:
        has_changed = True
        while self._send_judged(has_changed=has_changed):
            has_changed = self._changed.wait(PERIOD_S)
            self._changed.clear()

    def _send_judged(self, *, has_changed: bool) -> bool:
        """Send a snapshot, once it is judged by the time; return whether more will follow."""
        now = datetime.now(UTC)
        self.update(partial(progress.judge_freshness, now=now))
        return self._send(self._progress, now, has_changed=has_changed)

    def _send(self, done: Progress, now: datetime, *, has_changed: bool) -> bool:
        """Send a snapshot of the progress at `now`, or leave it for the host.

        has_changed: whether it has to be known at once. Returns: whether more will follow.
        """
        beat = progress.heartbeat_at(done, now)
        leader = os.getsid(0)
        share = self._usage.measure(_session.measure())
        beat.memory_bytes, beat.cpu_seconds = share.resident_bytes, share.cpu_seconds
        beat.overload = pressure.overload()
        beat.age_ms = processes.age_ms(leader) or processes.age_ms(os.getpid())
        if self._leave(beat) and not has_changed and beat.state != Heartbeat.STATE_EXITING:
            return True
        self._sent += 1
        headers = cloudevents.headers(
            ce_id=f"{beat.dagger}/{beat.generation}/{beat.pid}/{self._sent}",
            ce_type=_TYPE,
            source=f"/runtime/{beat.dagger}/{beat.generation}",
            subject=beat.dagger,
            time=cloudevents.timestamp(now),
        )
        try:
            producer = self._producers.current
            producer.produce(
                HEARTBEATS,
                beat.SerializeToString(),
                beat.dagger,
                headers=[*headers],
                on_delivery=self._on_delivery,
            )
            producer.poll(0)
        except (BufferError, KafkaException) as problem:
            logger().warning("heartbeat.not_sent", why=str(problem))
        return beat.state != Heartbeat.STATE_EXITING

    def _leave(self, beat: Heartbeat) -> bool:
        """Leave a heartbeat for the scheduler of this host; return whether that collects it."""
        try:
            collected = (self._run_dir / rundir.COLLECTED).stat().st_mtime
            if time.time() - collected >= rundir.COLLECTED_WITHIN_S:
                return False
            replace_bytes(self._run_dir / rundir.HEARTBEAT, beat.SerializeToString())
        except OSError:  # nobody ever collected, or the disk is full
            return False
        return True

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._producers.note_success()
        elif self._producers.note_failure():
            logger().warning("kafka.producer_replaced")
