"""Topics of a real broker become points of a real InfluxDB, and reading them again changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from uuid import uuid4

import pytest
from daggers.v1 import alerts_pb2
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write.point import Point
from tests.integration.faults import until
from tests.proxy import Proxy, port_of

from chassis import logging
from eventlog import Draft, LogUnavailable
from eventlog.kafka import KafkaLog
from kafkaclient import Connection
from telemetry import points
from telemetry.projector import Database, project

TIME = datetime(2026, 1, 1, tzinfo=UTC)
INCIDENTS = 20


@pytest.mark.integration
async def test_reading_a_topic_twice_writes_each_point_once(kafka: str, influx: dict[str, str]) -> None:
    name = uuid4().hex
    topic = f"telemetry-{name}"
    await incidents(kafka, topic, name)
    database = Database(**influx)

    for _ in range(2):
        await project_until(kafka, topic, database, INCIDENTS)

    with InfluxDBClient(url=influx["url"], token=influx["token"], org=influx["org"]) as client:
        found = client.query_api().query(
            f'from(bucket: "{influx["bucket"]}")'
            " |> range(start: 2025-12-31T00:00:00Z, stop: 2026-01-02T00:00:00Z)"
            ' |> filter(fn: (r) => r._measurement == "alert" and r._field == "open")'
            f' |> filter(fn: (r) => r.dagger == "{name}")'
        )

    assert [row.get_value() for table in found for row in table.records] == [1] * INCIDENTS


@pytest.mark.integration
async def test_a_database_that_does_not_answer_is_waited_for_and_loses_nothing(
    kafka: str, influx: dict[str, str]
) -> None:
    topic = f"telemetry-{uuid4().hex}"
    await incidents(kafka, topic, topic)
    logged = StringIO()
    logging.configure("telemetry", stream=logged)
    with Proxy(port_of(influx["url"])) as way:
        way.cut()
        database = Database(**{**influx, "url": way.url})
        projecting = asyncio.create_task(project_until(kafka, topic, database, INCIDENTS))
        async with asyncio.timeout(60):
            await asyncio.to_thread(until, lambda: "influxdb.awaited" in logged.getvalue())
            way.open()
            await projecting

    assert logged.getvalue().count(f"InfluxDB at {way.url} does not answer") == 1


@pytest.mark.integration
async def test_a_broker_that_does_not_answer_ends_it() -> None:
    with pytest.raises(LogUnavailable, match=r"Kafka at 127\.0\.0\.1:1 does not answer"):
        await asyncio.wait_for(project(Connection("127.0.0.1:1"), {"alerts": points.of_alert}, print), 60)


async def incidents(kafka: str, topic: str, dagger: str) -> None:
    """A topic with as many alerts of one instant."""
    async with KafkaLog(Connection(kafka), topic) as log:
        for number in range(INCIDENTS):
            meta = alerts_pb2.AlertMeta(dagger=dagger, condition=alerts_pb2.ALERT_CONDITION_FAILED)
            fired = alerts_pb2.AlertFired(meta=meta, summary=f"incident {number}")
            await log.append(Draft(f"{dagger}/{number}", "/test", dagger, TIME, fired))


async def project_until(kafka: str, topic: str, database: Database, lines: int) -> None:
    """Project the topic until this many lines are written."""
    write, written, done = database.writer(), [0], asyncio.Event()
    loop = asyncio.get_running_loop()

    def counted(batch: Sequence[Point]) -> None:
        write(batch)
        written[0] += len(batch)
        if written[0] >= lines:
            loop.call_soon_threadsafe(done.set)

    projecting = asyncio.create_task(project(Connection(kafka), {topic: points.of_alert}, counted))
    finished = asyncio.create_task(done.wait())
    try:
        async with asyncio.timeout(60):
            await asyncio.wait([projecting, finished], return_when=asyncio.FIRST_COMPLETED)
        if projecting.done():
            projecting.result()
    finally:
        for task in (projecting, finished):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
