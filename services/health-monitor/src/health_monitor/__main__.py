"""`python -m health_monitor`: reads settings, and runs the monitor with real adapters in its Faust host."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from chassis import logging, service
from chassis.egress.addresses import INSIDE
from chassis.egress.transport import CheckedTransport
from chassis.metrics import Metrics
from chassis.settings import own_directory
from election import host_name, identity
from eventlog import LogError, LogUnavailable
from eventlog.admin import await_topics, ensure_topics
from eventlog.kafka import KafkaLog
from eventlog.tail import KafkaTail
from eventlog.topics import ALERTS, AUDIT, AUDITS, CONTROL, HEARTBEATS, OBSERVATIONS, OBSERVED, Topic
from fleet.health.degradation import Limits
from fleet.health.watch import RECALL
from health_monitor import host
from health_monitor.alerts.journal import FileJournal
from health_monitor.alerts.leadership import Identity
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.listen import listener
from health_monitor.listen.acknowledgements import Acknowledgements
from health_monitor.metrics import CALLBACKS, gauges
from health_monitor.monitor import Monitor
from health_monitor.observe import recall
from health_monitor.settings import MonitorSettings, monitor_settings
from kafkaclient import Connection

_AGAIN_S: Final = 5.0
_GRACE: Final = timedelta(seconds=15)
_PATIENCE: Final = timedelta(seconds=15)
"""Default time without a leader's beat after which another monitor takes over."""


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    kind = monitor_settings()
    return service.run("health-monitor", kind, argv, read=_read, serve=_serve, away=(LogError,))


def _read(configured: MonitorSettings) -> tuple[MonitorSettings, Sequence[Channel]]:
    """Read the settings, and build the receivers. Raises: ValueError."""
    configured.watchdog()
    own_directory(configured, "state_dir")
    return configured, configured.channels()


async def _serve(parts: tuple[MonitorSettings, Sequence[Channel]], stop: asyncio.Event) -> None:
    await serve(*parts, stop)


async def serve(
    configured: MonitorSettings,
    channels: Sequence[Channel],
    stop: asyncio.Event,
    *,
    control_topic: str = CONTROL,
    alerts_topic: str = ALERTS,
    heartbeats_topic: str = HEARTBEATS,
    audit_topic: str = AUDIT,
    observations_topic: str = OBSERVATIONS,
    limits: Limits | None = None,
) -> None:
    """Run the monitor until `stop` is set.

    limits: of healthy daggers; None: those of the settings and of `fleet.health`.
    Raises: LogError; any error that ends a part of the monitor.
    """
    kafka, clock = configured.kafka(), partial(datetime.now, UTC)
    log = logging.logger()
    if not await await_topics(kafka, stop):
        return
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(KafkaLog(kafka, control_topic))
        alerts = await stack.enter_async_context(KafkaLog(kafka, alerts_topic))
        beats = await stack.enter_async_context(KafkaLog(kafka, heartbeats_topic))
        # Spark UIs are inside the platform, at addresses from heartbeats: use no proxy, follow no redirect.
        inside = CheckedTransport(INSIDE, httpx.create_ssl_context(trust_env=False))
        spark = await stack.enter_async_context(httpx.AsyncClient(transport=inside, trust_env=False))
        webhooks = Webhooks(
            configured.allowed,
            portal=configured.portal_url,
            runbook=configured.runbook_url,
            proxies=configured.proxies,
        )
        monitor = Monitor(
            Identity(monitor_id=identity(), host=host_name()),
            control=control,
            alerts=alerts,
            beats=beats,
            channels=channels,
            webhooks=webhooks,
            spark=spark,
            limits=limits or configured.limits(),
            policy=configured.policy(),
            patience=_PATIENCE
            if configured.leader_timeout_s is None
            else timedelta(seconds=configured.leader_timeout_s),
            clock=clock,
            journal=FileJournal(configured.state_dir),
            watchdog=configured.watchdog(),
        )
        metrics = Metrics("health-monitor")
        answers = metrics.counter(CALLBACKS)
        await stack.enter_async_context(metrics.serving(configured.metrics_bind, lambda: gauges(monitor)))
        following = [asyncio.create_task(follower.run()) for follower in monitor.followers]
        audits = replace(AUDITS, name=audit_topic)
        following.append(
            asyncio.create_task(_follow(monitor.follow_audit, kafka, audits, "audit.follow_failed"))
        )
        observed = replace(OBSERVED, name=observations_topic)
        following.append(
            asyncio.create_task(
                _follow(monitor.follow_observations, kafka, observed, "observations.follow_failed")
            )
        )
        try:
            await monitor.catch_up()
            if not channels:
                log.warning("receivers.not_configured", detail="nobody is notified: alerts are only recorded")
            monitor.observer.recall(datetime.now(UTC) - RECALL)
            stopping = asyncio.create_task(stop.wait())
            acknowledgements = Acknowledgements(monitor.leadership, monitor.fleet, webhooks, clock)
            async with listener.serving(
                configured.callbacks_bind,
                acknowledgements,
                lambda kind, result: answers.labels(kind, result).inc(),
            ):
                while await _host(monitor, kafka, heartbeats_topic, [*following, stopping]):
                    pass  # the consumer was stuck: the next application recalls what arrived meanwhile
            await monitor.drain(_GRACE)
            for task in following:  # raise the error of one that failed
                if task.done():
                    task.result()
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)


async def _follow(
    follow: Callable[[KafkaTail], Awaitable[None]], kafka: Connection, topic: Topic, failed: str
) -> None:
    """Follow a topic for ever, as soon as it exists and may be read; log each new error once, as `failed`."""
    logged_error = ""
    while True:
        try:
            try:
                await ensure_topics(kafka, (topic,))
            except LogUnavailable:
                raise
            except LogError:
                pass  # the monitor may lack the right to create topics: somebody else creates it
            await follow(KafkaTail(kafka, topic.name))
        except LogError as error:
            if str(error) != logged_error:
                logged_error = str(error)
                logging.logger().warning(failed, why=logged_error)
        await asyncio.sleep(_AGAIN_S)


async def _host(monitor: Monitor, kafka: Connection, topic: str, others: Sequence[asyncio.Task[Any]]) -> bool:
    """Run the monitor in a Faust application until that or one of the others ends; True: run another one, as
    its consumer was stuck.

    Raises: LogUnavailable; what the application failed with.
    """
    group = f"daggers.health-monitor.{uuid.uuid4().hex[:12]}"
    recalled = await recall.rewind(kafka, topic=topic, group=group, since=datetime.now(UTC) - RECALL)
    deaf = asyncio.Event()
    # Faust needs a directory at the start; without tables it stays empty.
    with tempfile.TemporaryDirectory(prefix="health-monitor-") as datadir:
        app = host.build(
            monitor, recalled, connection=kafka, topic=topic, group=group, datadir=Path(datadir), deaf=deaf
        )
        await app.start()
    receivers = [channel.name for channel in monitor.channels]
    logging.logger().info("service.started", daggers=len(monitor.fleet.daggers), receivers=receivers)
    ends = [asyncio.create_task(app.wait_until_stopped()), asyncio.create_task(deaf.wait())]
    await asyncio.wait([*others, *ends], return_when=asyncio.FIRST_COMPLETED)
    hosted, _ = ends
    await host.stop(app)
    for task in ends:
        if not task.done():
            task.cancel()
    if hosted.done() and not hosted.cancelled():
        hosted.result()
    if app.crash_reason is not None:
        raise app.crash_reason
    return deaf.is_set() and not any(task.done() for task in others)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
