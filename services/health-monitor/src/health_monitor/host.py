"""Faust hosts the monitor: its agent keeps the watches by the heartbeats topic, its timers do what is due.

The watches are a table whose changelog is the heartbeats topic. A monitor that begins is a consumer group of
its own, which `recall.rewind` has put a window back. It judges nothing until the agent has read what stood
there. With tables of Faust's own and one group for all monitors, heartbeats go unheard until the session of
a dead monitor has timed out (ADR 35). No web server, no topic of its own, raw bytes.
Kafka forgets a group that nobody is in after a week.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import faust
from aiokafka import TopicPartition

from chassis.logging import logger
from eventlog import LogUnavailable, read_record
from health_monitor.deliver.watchdog import INTERVAL
from health_monitor.monitor import Monitor
from health_monitor.observe.recall import Recall
from kafkaclient import Connection
from kafkaclient.behind import is_behind
from kafkaclient.replacing import Spell

JUDGE_S: Final = 1.0
PROBE_S: Final = 5.0
NOTIFY_S: Final = 0.25
_STOP_S: Final = 10.0
RECALL_S: Final = 60.0
"""What could not be recalled by then, in seconds, is not waited for."""


def build(
    monitor: Monitor,
    recall: Recall,
    *,
    connection: Connection,
    topic: str,
    group: str,
    datadir: Path,
    deaf: asyncio.Event,
) -> faust.App:
    """The Faust application around a monitor. The topic must exist; `datadir` stays empty.

    `recall`: what the group is to read first. `deaf` is set when the application hears nothing of what is
    written: its consumer is stuck, and another application is to take its place.
    """
    # A notification may well take longer than the interval of its timer.
    logging.getLogger("mode.timers").setLevel(logging.ERROR)
    app = faust.App(
        group,
        broker=[f"kafka://{address.strip()}" for address in connection.bootstrap_servers.split(",")],
        broker_credentials=credentials(connection),
        store="memory://",
        datadir=datadir,
        web_enabled=False,
        autodiscover=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        worker_redirect_stdouts=False,
        consumer_auto_offset_reset="latest",
        stream_wait_empty=False,  # nobody needs what it would commit: each has a group of its own
        key_serializer="raw",
        value_serializer="raw",
    )
    source = app.topic(topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

    attention = Attention(connection, topic, recall.ends, deaf)

    async def listen(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            attention.hears(message.partition, message.offset)
            came = None
            if recall.holds(message.partition, message.offset):
                came = datetime.fromtimestamp(message.timestamp, UTC)
            try:
                monitor.heard(read_record(message.offset, message.headers or (), message.value), came)
            except Exception as error:  # noqa: BLE001 - Faust would drop the event and end the agent
                set_aside(message.partition, message.offset, message.value or b"", error)
            recall.read(message.partition, message.offset)
            if recall.done:
                begin()

    async def lose_patience() -> None:
        await asyncio.sleep(0 if recall.done else RECALL_S)
        begin()

    def begin() -> None:
        if not monitor.observer.begun:
            monitor.observer.begin()
            logger().info("heartbeats.recalled", records=recall.count, all=recall.done)

    app.agent(source, name="heartbeats")(listen)
    app.task(lose_patience)
    every(app, JUDGE_S, "lead", monitor.leadership.lead)
    every(app, JUDGE_S, "judge", monitor.judge)
    every(app, JUDGE_S, "judge platform", monitor.judge_platform)
    every(app, PROBE_S, "probe", monitor.observer.probe)
    every(app, PROBE_S, "check hearing", attention.check)
    every(app, INTERVAL.total_seconds(), "watchdog", monitor.call_watchdog)
    every(app, NOTIFY_S, "notify teams", monitor.team_deliveries.notify)
    told = monitor.deliveries
    for channel in monitor.channels:
        every(app, NOTIFY_S, f"notify {channel.name}", partial(told.notify, channel))
        every(app, NOTIFY_S, f"notify {channel.name} of an outage", partial(told.notify_outage, channel))
    return app


async def end_stuck(app: faust.App) -> None:
    """Stop an application that is stuck. Its consumer commits and leaves its group first, for which it asks
    for ever: after a while all that its thread does is cancelled, and the application let go of.
    """
    stopping = asyncio.create_task(app.stop())
    await asyncio.wait({stopping}, timeout=_STOP_S)
    if stopping.done():
        return stopping.result()
    logger().warning("consumer.abandoned")
    consumer: Any = app.consumer
    thread = consumer._thread  # noqa: SLF001 - Faust has no other way to it
    for task in asyncio.all_tasks(thread.thread_loop):
        thread.thread_loop.call_soon_threadsafe(task.cancel)
    stopping.cancel()
    await asyncio.wait({stopping}, timeout=_STOP_S)
    return None


class Attention:
    """How far an application has heard its topic, and whether it misses what is written there."""

    def __init__(
        self, connection: Connection, topic: str, ends: Mapping[int, int], deaf: asyncio.Event
    ) -> None:
        """`ends`: by partition, where it ends of what there was to recall. `deaf` is set by `check`."""
        self._connection, self._topic, self._deaf = connection, topic, deaf
        self._positions = {TopicPartition(topic, partition): end for partition, end in ends.items()}
        self._silence = Spell()

    def hears(self, partition: int, offset: int) -> None:
        """A record came."""
        self._positions[TopicPartition(self._topic, partition)] = offset + 1
        self._silence = Spell()

    async def check(self) -> None:
        """Set `deaf` after half a minute without a record, where a fresh consumer knows of further ones."""
        now = asyncio.get_running_loop().time()
        self._silence = self._silence.fails(now)  # until a record comes
        if self._silence.due(now):
            self._silence = Spell()
            if await is_behind(self._connection, self._positions):
                logger().warning("consumer.replaced")
                self._deaf.set()


def credentials(connection: Connection) -> faust.auth.Credentials | None:
    """Who we are to Kafka, as Faust takes it. Raises: SecretUnreadable."""
    context = connection.ssl_context()
    if connection.authenticated:
        return faust.SASLCredentials(
            username=connection.sasl_username,
            password=connection.password(),
            ssl_context=context,
            mechanism=connection.sasl_mechanism,
        )
    return None if context is None else faust.SSLCredentials(context)


def set_aside(partition: int, offset: int, value: bytes, error: Exception) -> None:
    """Say where a record lies that could not be taken in: it stays in its topic, and can be read there."""
    logger().error(
        "heartbeat.skipped",
        partition=partition,
        offset=offset,
        digest=blake2b(value, digest_size=16).hexdigest(),
        error=type(error).__name__,
        detail=str(error),
    )


def every(app: faust.App, seconds: float, name: str, body: Callable[[], Awaitable[None]]) -> None:
    """Run `body` again and again; also when Kafka was away, while any other failure ends the service."""
    lost = False

    async def run() -> None:
        nonlocal lost
        try:
            await body()
        except LogUnavailable as error:
            if not lost:  # once for each outage
                logger().warning("kafka.lost", timer=name, detail=str(error))
            lost = True
        else:
            lost = False

    app.timer(timedelta(seconds=seconds), name=name)(run)
