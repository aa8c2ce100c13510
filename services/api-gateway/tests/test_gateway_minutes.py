"""ReadMetrics: what daggers did in each minute of the last day, kept over a restart, and bounded; and what
conditions would have done by them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import (
    access_pb2,
    alerts_pb2,
    events_pb2,
    gateway_pb2,
    gateway_pb2_grpc,
    rules_pb2,
    telemetry_pb2,
)
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from api_gateway.state.database import Database
from api_gateway.state.fold import Fold
from api_gateway.state.minute_sums import MinuteCache
from api_gateway.state.minute_table import Block, MinuteTable
from eventlog import Draft, Record
from eventlog.memory import MemoryLog
from eventlog.tail import Arrival
from fleet.health.minutes import FIELDS, MINUTES, MinuteSums, minute_of

pb = gateway_pb2
NAME = "completed_bookings"
NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


async def append(log: Any, message: Message, *, ago: timedelta = timedelta()) -> int:
    sequence: int = await log.end() + 1
    time = datetime.now(UTC) - ago
    await log.append(Draft(f"m{sequence}", "/test", NAME, time, message))
    return sequence


async def running(client: Any) -> int:
    """Create a dagger, and have a scheduler launch it; its generation."""
    await client.create(name=NAME)
    epoch = await append(client.log, events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    meta = events_pb2.FactMeta(name=NAME, epoch=epoch)
    generation = await append(client.log, events_pb2.LaunchIntended(meta=meta, version=1))
    meta.generation = generation
    await append(client.log, events_pb2.Launched(meta=meta, driver={"host": "a", "pid": 7}))
    await client.gateway.follower.wait_for(await append(client.log, events_pb2.Running(meta=meta)))
    return generation


async def beats(harness: Any, generation: int, *, ago: float = 0, **fields: Any) -> None:
    time = datetime.now(UTC) - ago * SECOND
    heartbeat = telemetry_pb2.Heartbeat(dagger=NAME, generation=generation, **fields)
    heartbeat.time.FromDatetime(time)
    await append(harness.heartbeats, heartbeat, ago=ago * SECOND)


async def metrics(client: Any, **fields: Any) -> pb.ReadMetricsResponse:
    request = pb.ReadMetricsRequest(name=NAME, **fields)
    answer: pb.ReadMetricsResponse = await client.daggers.ReadMetrics(request, timeout=10)
    return answer


async def until(client: Any, records: int) -> pb.ReadMetricsResponse:
    """Return the metrics once they have so many records."""
    async with asyncio.timeout(20):
        while True:  # a call is asked again
            answer = await metrics(client)
            if sum(number for number in answer.records if number > 0) >= records:
                return answer
            await asyncio.sleep(0.01)


async def test_minutes_of_before_the_start_are_read_again(harness: Any, samples: Any) -> None:
    first = await harness.start()
    await samples.fill(first)
    generation = await running(first)
    await beats(harness, generation, ago=3 * 3_600, rows_in=5)
    await beats(harness, generation, ago=2 * 3_600, rows_in=65, lag={"a/0": 4})
    await beats(harness, generation, ago=0, rows_in=70, rows_out=[9], cpu_seconds=3_600, age_ms=3_600_000)

    second = await harness.start(first.log, database_url=f"{harness.database_url}2")

    answer = await until(second, 65)
    began = answer.begin.ToDatetime(tzinfo=UTC)
    assert timedelta(hours=2, minutes=59) < datetime.now(UTC) - began < timedelta(hours=3, minutes=2)
    assert [number for number in answer.records if number >= 0] == [0, 60, 5]
    assert [number for number in answer.lag if number >= 0] == [4]
    assert {len(getattr(answer, name)) for name in FIELDS} == {len(answer.records)}
    assert answer.cost.cpu_seconds_per_day == pytest.approx(24 * 3_600)


async def test_metrics_are_asked_for_from_a_minute_on(ready: Any, harness: Any) -> None:
    generation = await running(ready)
    await beats(harness, generation, ago=600, rows_in=5)
    await beats(harness, generation, ago=300, rows_in=10)
    await beats(harness, generation, ago=0, rows_in=70)
    await until(ready, 60)
    since = Timestamp()
    since.FromDatetime(datetime.now(UTC) - timedelta(minutes=2))

    answer = await metrics(ready, since=since)

    assert [number for number in answer.records if number >= 0] == [60]


async def test_a_dagger_that_was_not_heard_has_no_minutes(ready: Any) -> None:
    await running(ready)

    answer = await metrics(ready)

    assert (answer.HasField("begin"), list(answer.records), answer.cost.dagger) == (False, [], NAME)


async def test_metrics_of_an_unknown_dagger_are_not_found(ready: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await ready.daggers.ReadMetrics(pb.ReadMetricsRequest(name="nobody"), timeout=10)

    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


class SavingWorld:
    """A fold with one dagger, and a database beside it."""

    def __init__(self, url: str) -> None:
        self.database, self.fold, self.now = Database(url), Fold(), NOON
        self.table = MinuteTable(self.database)

    async def fill(self) -> None:
        log = MemoryLog()
        request = events_pb2.DaggerRequested(name=NAME)
        request.meta.actor = "ana"
        await log.append(Draft("a", "/test", NAME, NOON, request))
        async with aclosing(log.replay()) as records:
            async for record in records:
                self.fold.apply(record)

    def cache(self) -> MinuteCache:
        return MinuteCache(self.fold, self.table, lambda: self.now)

    def heartbeat(self, second: int, records: int) -> Arrival:
        """Build a heartbeat of so many seconds after noon."""
        self.now = NOON + second * SECOND
        message = telemetry_pb2.Heartbeat(dagger=NAME, generation=9, rows_in=records)
        message.time.FromDatetime(self.now)
        record = Record(0, f"h{second}", "/test", NAME, self.now, "", message, b"")
        return Arrival(record, past=False)


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[SavingWorld]:
    """Yield a world with one dagger."""
    saving = SavingWorld(database_url)
    await saving.fill()
    yield saving
    saving.database.close()


async def test_saved_minutes_go_on_after_a_restart_as_if_there_had_been_none(world: SavingWorld) -> None:
    arrivals = [world.heartbeat(second, second * 3) for second in range(0, 7_200, 5)]
    living = world.fold.fleet.daggers[NAME]
    whole, before = world.cache(), world.cache()
    await before.load()
    for number, arrival in enumerate(arrivals):
        whole.take(arrival)
        if number < 1_000:
            before.take(arrival)
        if number in (300, 999):
            await before.save()
    after = world.cache()

    await after.load()
    since = after.since
    for arrival in arrivals:
        if arrival.record.time >= since:
            after.take(arrival)

    assert arrivals[800].record.time < since < arrivals[1_000].record.time
    assert after.sums_of(living).since(0) == whole.sums_of(living).since(0)


async def test_a_save_drops_what_is_older_than_a_day(world: SavingWorld) -> None:
    hour = minute_of(NOON) // 60
    world.table.write([Block(NAME, hour - 30, 0, b"old")], before_hour=0)

    await world.cache().save()

    assert world.table.hours(0) == []


async def test_a_thousand_daggers_take_less_than_200_mib_on_disk(world: SavingWorld) -> None:
    """Multiply what one dagger takes, in a full day, by a thousand."""
    sums = MinuteSums()
    for minute in range(MINUTES):
        heartbeat = world.heartbeat(minute * 60, minute * 1_000).record.message
        assert isinstance(heartbeat, telemetry_pb2.Heartbeat)
        sums.add(heartbeat, world.now)
    first = minute_of(NOON) // 60

    blocks = [sums.block(hour) for hour in range(first, first + 25)]

    assert 1_000 * sum(len(block) for block in blocks) < 200 * 2**20
    assert sum(number >= 0 for number in sums.since(0)[1][0]) == MINUTES


async def explain(client: Any, condition: alerts_pb2.AlertCondition.ValueType) -> pb.ExplainConditionResponse:
    stub = gateway_pb2_grpc.AlertServiceStub(client.channel)
    request = pb.ExplainConditionRequest(dagger=NAME, condition=condition)
    answer: pb.ExplainConditionResponse = await stub.ExplainCondition(request, timeout=10)
    return answer


async def test_a_condition_is_explained_by_whose_word_counts_and_what_the_minutes_tell(
    ready: Any, harness: Any
) -> None:
    message = rules_pb2.ConditionLimits
    monitor = alerts_pb2.MonitorStarted(
        monitor_id="one", conditions={"late_rows": message(limit=0.01, hold=Duration(seconds=10))}
    )
    await harness.alerts.append(Draft("m", "/test", "health-monitor", NOON, monitor))
    platform = access_pb2.Team(name="platform", conditions={"late_rows": message(limit=0.05)})
    stub = gateway_pb2_grpc.AccessServiceStub(ready.channel)
    await stub.RegisterTeam(pb.RegisterTeamRequest(team=platform), timeout=10)
    generation = await running(ready)
    await beats(harness, generation, ago=600, rows_in=5)
    await beats(harness, generation, ago=300, rows_in=105, late_rows=20)
    await beats(harness, generation, ago=0, rows_in=305, late_rows=20)
    await until(ready, 300)

    late = await explain(ready, alerts_pb2.ALERT_CONDITION_LATE_ROWS)
    failed = await explain(ready, alerts_pb2.ALERT_CONDITION_FAILED)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await explain(ready, alerts_pb2.ALERT_CONDITION_KAFKA_AWAY)

    settings = {setting.name: (setting.value, setting.whose) for setting in late.settings}
    assert settings == {
        "limit": (0.05, "platform"),
        "clear": (0.025, "default"),
        "hold": (10, "health monitor"),
    }
    assert (late.unit, late.holds) == ("share", False)
    assert (late.history.fired, late.history.greatest) == (1, pytest.approx(0.2))
    assert late.history.minutes >= 3
    assert not late.HasField("alert")
    assert not failed.HasField("history")
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
