"""Logs of sinks are deleted with their dagger, and none of any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from daggers.v1 import events_pb2, gateway_pb2
from services.scheduler.tests.scheduler_world import DEADLINE_S, META, World, until

from daggerspec.topics import SPOOL
from eventlog import LogUnavailable
from eventlog.admin import ensure_topics, open_admin_client
from eventlog.topics import log_topic
from kafkaclient import Connection
from scheduler.leader.sink_logs import delete_logs


async def test_logs_go_with_their_dagger_and_a_kafka_that_is_away_costs_no_lead(world: World) -> None:
    world.sink_logs = {"d", "other", "unknown"}
    world.log_refusals = [LogUnavailable("It is away.")]
    async with world.serving():
        await world.ask()
        await world.ask(name="other")
        await world.running()
        await world.append(events_pb2.DeleteRequested(meta=META, name="d"))
        await world.until(lambda dagger: dagger.phase == gateway_pb2.DELETED)
        await until(lambda: not world.log_refusals, "nobody deletes the logs")
        before = set(world.sink_logs)
        world.ahead = timedelta(minutes=6)  # until then Kafka is left alone
        await world.append(events_pb2.DeleteRequested(meta=META, name="other"), "other")
        await until(lambda: world.sink_logs == {"unknown"}, "the logs stay")

    assert before == {"d", "other", "unknown"}


async def confirm_nothing() -> None:
    """Say that what is known of daggers is up to date."""


async def test_a_name_that_was_used_again_meanwhile_keeps_its_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted, requests = {"d", "e"}, list[list[str]]()

    async def list_topics() -> list[str]:
        return [f"{SPOOL}{name}.crm" for name in "def"]

    async def delete_topics(topics: list[str]) -> SimpleNamespace:
        requests.append(topics)
        return SimpleNamespace(topic_error_codes=[(topic, 0) for topic in topics])

    @asynccontextmanager
    async def open_fake(_: Connection) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(list_topics=list_topics, delete_topics=delete_topics)

    async def confirm() -> None:
        deleted.discard("d")

    monkeypatch.setattr("scheduler.leader.sink_logs.open_admin_client", open_fake)
    await delete_logs(Connection("kafka:9092"), deleted.__contains__, confirm)

    assert requests == [[f"{SPOOL}e.crm"]]


@pytest.mark.integration
async def test_topics_of_deleted_daggers_alone_are_deleted(kafka: str) -> None:
    gone, stays = f"d{uuid4().hex[:8]}", f"d{uuid4().hex[:8]}"
    topics = [f"{SPOOL}{gone}.crm", f"{SPOOL}{gone}.db", f"{SPOOL}{stays}.crm", f"{SPOOL}{gone}x.crm"]
    connection = Connection(kafka)
    await ensure_topics(connection, tuple(map(log_topic, topics)))
    await delete_logs(connection, lambda name: name == gone, confirm_nothing)
    await delete_logs(connection, lambda name: name == gone, confirm_nothing)

    async with open_admin_client(connection) as admin, asyncio.timeout(DEADLINE_S):
        while (there := set(topics) & set(await admin.list_topics())) != set(topics[2:]):
            assert there >= set(topics[2:])
            await asyncio.sleep(0.1)
