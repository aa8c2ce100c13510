"""Hosts the monitor in Faust: an agent folds the heartbeats topic, timers call the parts of the monitor.

The watches are a table whose changelog is the heartbeats topic. Each start of a monitor has a consumer group
of its own, which `recall.rewind` has moved back by a window; it judges nothing until the agent has read that.
With Faust's own tables and one group for all monitors, no heartbeat would be read until the session of a dead
monitor has timed out (ADR 35). Faust gets no web server and no topic of its own. Kafka deletes an empty group
after a week.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import faust
from aiokafka import TopicPartition

from chassis.logging import logger
from eventlog import LogUnavailable, read_record
from eventlog.heartbeats import unpack
from health_monitor.deliver.watchdog import INTERVAL
from health_monitor.monitor import Monitor
from health_monitor.news import News
from health_monitor.observe.recall import Recall
from kafkaclient import Connection
from kafkaclient.behind import is_behind
from kafkaclient.replacing import Spell

JUDGE_S: Final = 1.0
PROBE_S: Final = 5.0
NOTIFY_S: Final = 0.25
_LEAST_S: Final = 0.1
"""Between two calls that news make: of ten thousand incidents at once each is news to them."""
_STOP_S: Final = 10.0
RECALL_S: Final = 60.0
"""Limit of the recall, in seconds; after it the monitor judges without the rest."""


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
    """Build the Faust application around a monitor. The topic must exist; `datadir` stays empty.

    `recall`: old records, which the group reads first. `deaf` is set when the application's consumer is
    stuck: then replace the application.
    """
    # Faust warns of timers that are late, but a notification may take longer than its timer's interval.
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
        stream_wait_empty=False,  # skip the last commit: nobody resumes this group
        key_serializer="raw",
        value_serializer="raw",
    )
    source = app.topic(topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

    attention = Attention(connection, topic, recall.ends, deaf)

    async def listen(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            attention.note(message.partition, message.offset)
            came = None
            if recall.holds(message.partition, message.offset):
                came = datetime.fromtimestamp(message.timestamp, UTC)
            try:
                for record in unpack(read_record(message.offset, message.headers or (), message.value)):
                    monitor.receive(record, came)
            except Exception as error:  # noqa: BLE001 - Faust would drop the event and end the agent
                log_skipped(message.partition, message.offset, message.value or b"", error)
            recall.read(message.partition, message.offset)
            if recall.done:
                begin()

    async def end_recall() -> None:
        await asyncio.sleep(0 if recall.done else RECALL_S)
        begin()

    def begin() -> None:
        if not monitor.observer.begun:
            monitor.observer.begin()
            logger().info("heartbeats.recalled", records=recall.count, all=recall.done)

    app.agent(source, name="heartbeats")(listen)
    app.task(end_recall)
    every(app, JUDGE_S, "lead", monitor.leadership.lead)
    every(app, JUDGE_S, "judge", monitor.judge)
    every(app, JUDGE_S, "judge platform", monitor.judge_platform)
    every(app, PROBE_S, "probe", monitor.observer.probe)
    every(app, PROBE_S, "check hearing", attention.check)
    every(app, INTERVAL.total_seconds(), "watchdog", monitor.call_watchdog)
    every(app, NOTIFY_S, "notify the platform's team of an outage", monitor.team_deliveries.notify_outage)
    every(app, NOTIFY_S, "test receivers", monitor.receiver_tests.run)
    promptly(app, monitor.observed, "judge rules", monitor.judge_rules)
    promptly(app, monitor.leadership.changed, "notify teams", monitor.team_deliveries.notify)
    deliveries = monitor.deliveries
    for channel in monitor.channels:
        name, notify = f"notify {channel.name}", partial(deliveries.notify, channel)
        promptly(app, monitor.leadership.changed, name, notify)
        notify_outage = partial(deliveries.notify_outage, channel)
        every(app, NOTIFY_S, f"notify {channel.name} of an outage", notify_outage)
    return app


async def stop(app: faust.App) -> None:
    """Stop an application within 2 * _STOP_S, also one whose consumer is stuck or has no Kafka. To stop, the
    consumer commits and leaves its group, and retries that for ever: after _STOP_S all tasks of its thread
    are cancelled, and the application is abandoned. Raises: what the application fails with as it stops.
    """
    stopping = asyncio.create_task(app.stop())
    await asyncio.wait({stopping}, timeout=_STOP_S)
    if stopping.done():
        return stopping.result()
    logger().warning("consumer.abandoned")
    consumer: Any = app.consumer
    thread = consumer._thread  # noqa: SLF001 - Faust has no public access to it
    for task in asyncio.all_tasks(thread.thread_loop):
        thread.thread_loop.call_soon_threadsafe(task.cancel)
    stopping.cancel()
    await asyncio.wait({stopping}, timeout=_STOP_S)
    return None


class Attention:
    """Positions of an application in its topic, to detect that its consumer is stuck."""

    def __init__(
        self, connection: Connection, topic: str, ends: Mapping[int, int], deaf: asyncio.Event
    ) -> None:
        """`ends`: offset behind the old records, by partition. `deaf` is set by `check`."""
        self._connection, self._topic, self._deaf = connection, topic, deaf
        self._positions = {TopicPartition(topic, partition): end for partition, end in ends.items()}
        self._silence = Spell()

    def note(self, partition: int, offset: int) -> None:
        """Note that a record arrived."""
        self._positions[TopicPartition(self._topic, partition)] = offset + 1
        self._silence = Spell()

    async def check(self) -> None:
        """Set `deaf` after half a minute without a record, if a fresh consumer finds that there are more."""
        now = asyncio.get_running_loop().time()
        self._silence = self._silence.fails(now)  # `note` resets it
        if self._silence.due(now):
            self._silence = Spell()
            if await is_behind(self._connection, self._positions):
                logger().warning("consumer.replaced")
                self._deaf.set()


def credentials(connection: Connection) -> faust.auth.Credentials | None:
    """Build the credentials of Kafka in Faust's form; None: plain. Raises: SecretUnreadable."""
    context = connection.ssl_context()
    if connection.authenticated:
        return faust.SASLCredentials(
            username=connection.sasl_username,
            password=connection.password(),
            ssl_context=context,
            mechanism=connection.sasl_mechanism,
        )
    return None if context is None else faust.SSLCredentials(context)


def log_skipped(partition: int, offset: int, value: bytes, error: Exception) -> None:
    """Log the place of a record that could not be folded, so that it can be read in its topic."""
    logger().error(
        "heartbeat.skipped",
        partition=partition,
        offset=offset,
        digest=blake2b(value, digest_size=16).hexdigest(),
        error=type(error).__name__,
        detail=str(error),
    )


def every(app: faust.App, seconds: float, name: str, body: Callable[[], Awaitable[None]]) -> None:
    """Call `body` at an interval. LogUnavailable is logged once per outage; other errors end the service."""
    app.timer(timedelta(seconds=seconds), name=name)(_tolerant(name, body))


def promptly(app: faust.App, news: News, name: str, body: Callable[[], Awaitable[None]]) -> None:
    """Call `body` at news, _LEAST_S apart, and every NOTIFY_S without: time alone makes things due, too.
    Errors: as `every`.
    """
    run = _tolerant(name, body)

    async def follow() -> None:
        while True:
            arrives = news.expect()  # before the call: what comes meanwhile is another one's
            await run()
            await asyncio.sleep(_LEAST_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(arrives.wait(), NOTIFY_S - _LEAST_S)

    app.task(follow)


def _tolerant(name: str, body: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return a call of `body` that logs LogUnavailable, once per outage."""
    lost = False

    async def run() -> None:
        nonlocal lost
        try:
            await body()
        except LogUnavailable as error:
            if not lost:
                logger().warning("kafka.lost", timer=name, detail=str(error))
            lost = True
        else:
            lost = False

    return run
