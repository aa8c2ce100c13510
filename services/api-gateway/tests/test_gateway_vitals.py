"""What daggers do now, in get, list and a watch, as drivers might have told it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from google.protobuf.message import Message

from eventlog import Draft

pb = gateway_pb2
Beat = telemetry_pb2.Heartbeat
NAME = "completed_bookings"
SECOND = timedelta(seconds=1)
AWAY = events_pb2.DaggerError(
    domain=events_pb2.ERROR_DOMAIN_EXTERNAL,
    reason="SINK_UNAVAILABLE",
    detail="influx: InfluxDB at http://db:8086 does not answer (NewConnectionError).",
    retryable=True,
)


async def append(log: Any, message: Message, *, ago: timedelta = timedelta()) -> int:
    sequence: int = await log.end() + 1
    time = datetime.now(UTC) - ago
    await log.append(Draft(f"v{sequence}", "/test", NAME, time, message))
    return sequence


async def running(client: Any, name: str = NAME) -> int:
    """Creates a dagger, and has a scheduler launch it; its generation."""
    await client.create(name=name)
    epoch = await append(client.log, events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    meta = events_pb2.FactMeta(name=name, epoch=epoch)
    generation = await append(client.log, events_pb2.LaunchIntended(meta=meta, version=1))
    meta.generation = generation
    await append(client.log, events_pb2.Launched(meta=meta, driver={"host": "a", "pid": 7}))
    await client.gateway.follower.wait_for(await append(client.log, events_pb2.Running(meta=meta)))
    return generation


async def beats(harness: Any, generation: int, *, ago: float = 0, name: str = NAME, **fields: Any) -> None:
    now = datetime.now(UTC) - ago * SECOND
    heartbeat = Beat(dagger=name, generation=generation, state=Beat.STATE_RUNNING, **fields)
    heartbeat.time.FromDatetime(now)
    heartbeat.last_progress.FromDatetime(now)
    heartbeat.last_commit.FromDatetime(now - SECOND)
    await append(harness.heartbeats, heartbeat, ago=ago * SECOND)


async def got(client: Any, name: str = NAME) -> pb.Dagger:
    answer: pb.GetDaggerResponse = await client.daggers.GetDagger(pb.GetDaggerRequest(name=name), timeout=10)
    return answer.dagger


async def until(client: Any, met: Any) -> pb.Dagger:
    """The dagger once that is so of it: what is heard is heard in its own time."""
    async with asyncio.timeout(20):
        while not met(dagger := await got(client)):  # noqa: ASYNC110 - a call is asked again
            await asyncio.sleep(0.01)
    return dagger


async def test_get_shows_what_a_driver_said_last(ready: Any, harness: Any) -> None:
    generation = await running(ready)
    await beats(harness, generation, rows_in=70, rows_out=[9], lag={"a/0": 2}, memory_bytes=5_000)

    vitals = (await until(ready, lambda dagger: dagger.vitals.generation)).vitals

    assert (vitals.generation, vitals.records, vitals.rows, vitals.lag) == (generation, 70, 9, 2)
    assert vitals.heard_time.ToDatetime() - vitals.last_commit.ToDatetime() == SECOND
    assert (vitals.memory_bytes, list(vitals.warnings)) == (5_000, [])


async def test_list_shows_the_same_of_each_dagger(ready: Any, harness: Any) -> None:
    generation = await running(ready)
    await ready.create(name="other")
    await beats(harness, generation, rows_in=70)
    shown = (await until(ready, lambda dagger: dagger.vitals.generation)).vitals

    listed = await ready.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)

    assert [dagger.vitals.records for dagger in listed.daggers] == [shown.records, 0]
    assert [dagger.vitals.dagger for dagger in listed.daggers] == [NAME, "other"]


async def test_a_sink_that_does_not_answer_is_named_as_soon_as_its_driver_says_so(
    ready: Any, harness: Any
) -> None:
    generation = await running(ready)
    await beats(harness, generation, retrying=[AWAY])

    dagger = await until(ready, lambda dagger: dagger.vitals.warnings)

    (warning,) = dagger.vitals.warnings
    assert dagger.phase == pb.RUNNING  # as long as the scheduler holds it
    assert (warning.code, warning.object, warning.domain) == (
        "SINK_UNAVAILABLE", "influx", events_pb2.ERROR_DOMAIN_EXTERNAL,
    )  # fmt: skip
    assert warning.message.startswith("influx: InfluxDB at http://db:8086 does not answer")


async def test_a_gateway_that_starts_hears_the_last_minutes_again(harness: Any, samples: Any) -> None:
    first = await harness.start()
    await samples.fill(first)
    generation = await running(first)
    await beats(harness, generation, ago=60, rows_in=0)
    await beats(harness, generation, ago=0, rows_in=600)

    second = await harness.start(first.log, database_url=f"{harness.database_url}2")

    vitals = (await until(second, lambda dagger: dagger.vitals.HasField("records_per_s"))).vitals
    assert vitals.records_per_s == pytest.approx(10, abs=1)


async def test_what_was_said_before_those_minutes_is_not_heard(harness: Any, samples: Any) -> None:
    first = await harness.start()
    await samples.fill(first)
    generation = await running(first)
    await beats(harness, generation, ago=3_600, rows_in=7)
    await beats(harness, generation, ago=1, rows_in=9, name="nobody")

    second = await harness.start(first.log, database_url=f"{harness.database_url}2")
    await beats(harness, generation, rows_in=10)

    assert (await until(second, lambda dagger: dagger.vitals.generation)).vitals.records == 10


async def test_a_dagger_of_a_name_that_was_another_ones_begins_with_nothing(ready: Any, harness: Any) -> None:
    generation = await running(ready)
    await beats(harness, generation, rows_in=70)
    await until(ready, lambda dagger: dagger.vitals.records == 70)
    await ready.daggers.DeleteDagger(pb.DeleteDaggerRequest(name=NAME), timeout=10)
    epoch = await append(ready.log, events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    meta = events_pb2.FactMeta(name=NAME, epoch=epoch, generation=generation)
    issued = events_pb2.StopIssued(meta=meta, mode=events_pb2.STOP_MODE_DRAIN)
    for fact in (issued, events_pb2.Exited(meta=meta, code=0), events_pb2.Deleted(meta=meta)):
        await ready.gateway.follower.wait_for(await append(ready.log, fact))
    await ready.create()
    await beats(harness, generation, rows_in=71)  # the last words of the one before

    assert (await got(ready)).vitals == pb.Vitals(dagger=NAME)


async def test_a_list_of_clusters_says_what_runs_there_and_for_how_many_more_there_is_room(
    ready: Any, harness: Any, samples: Any
) -> None:
    kafka = samples.cluster()
    kafka.name, kafka.spark_master = "kafka-only", ""
    await ready.catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=kafka), timeout=10)
    generation = await running(ready)
    await ready.create(name="other")

    async def listed() -> list[tuple[str, int, int, int | None]]:
        answer = await ready.catalog.ListClusters(pb.ListClustersRequest(), timeout=10)
        assert [use.cluster for use in answer.uses] == [cluster.name for cluster in answer.clusters]
        return [
            (use.cluster, use.daggers, use.drivers, use.room if use.HasField("room") else None)
            for use in answer.uses
        ]

    before = await listed()
    for beat in ({"epoch": 7, "room": 4}, {"epoch": 5, "room": 9}):  # the last words of a leader before
        await append(harness.heartbeats, telemetry_pb2.SchedulerBeat(scheduler_id="s", **beat))
    await beats(harness, generation, rows_in=70)
    await until(ready, lambda dagger: dagger.vitals.records == 70)  # heard behind them
    after = await listed()

    assert before == [("kafka-only", 0, 0, None), ("local", 2, 1, None)]
    assert after == [("kafka-only", 0, 0, None), ("local", 2, 1, 4)]


# ---- WatchVitals -------------------------------------------------------------------------------------------


async def test_a_watch_tells_all_daggers_and_then_what_changes(ready: Any, harness: Any, steps: Any) -> None:
    generation = await running(ready)
    await ready.create(name="other")
    watch = ready.daggers.WatchVitals(pb.WatchVitalsRequest())
    (first,) = await steps(watch, 1)
    await beats(harness, generation, rows_in=70)
    (second,) = await steps(watch, 1)
    watch.cancel()

    assert [vital.dagger for vital in first.vitals] == [NAME, "other"]
    assert [(vital.dagger, vital.records) for vital in second.vitals] == [(NAME, 70)]


async def test_a_watch_of_no_dagger_at_all_says_so_at_once(ready: Any, steps: Any) -> None:
    watch = ready.daggers.WatchVitals(pb.WatchVitalsRequest())
    (first,) = await steps(watch, 1)
    watch.cancel()

    assert (list(first.vitals), list(first.gone), list(first.changed)) == ([], [], [])


async def test_a_watch_names_who_is_new_and_of_whom_something_else_has_changed(
    ready: Any, harness: Any, steps: Any
) -> None:
    generation = await running(ready)
    watch = ready.daggers.WatchVitals(pb.WatchVitalsRequest())
    (first,) = await steps(watch, 1)
    await beats(harness, generation, rows_in=70)
    (vital,) = await steps(watch, 1)
    await ready.create(name="other")
    (new,) = await steps(watch, 1)
    stopped = await ready.daggers.StopDagger(pb.StopDaggerRequest(name=NAME), timeout=10)
    (stop,) = await steps(watch, 1)
    watch.cancel()
    listed = await ready.daggers.ListDaggers(pb.ListDaggersRequest(min_sequence=first.sequence), timeout=10)

    assert [list(step.changed) for step in (first, vital, new, stop)] == [[], [], ["other"], [NAME]]
    assert first.sequence < new.sequence < stop.sequence == stopped.sequence <= listed.sequence


async def test_a_watch_of_one_dagger_tells_of_it_alone_and_ends_when_it_is_deleted(
    ready: Any, steps: Any
) -> None:
    await ready.create()
    await ready.create(name="other")
    watch = ready.daggers.WatchVitals(pb.WatchVitalsRequest(name="other"))
    (first,) = await steps(watch, 1)
    await ready.daggers.DeleteDagger(pb.DeleteDaggerRequest(name="other"), timeout=10)
    epoch = await append(ready.log, events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    await append(ready.log, events_pb2.Deleted(meta=events_pb2.FactMeta(name="other", epoch=epoch)))
    async with asyncio.timeout(20):
        last, code = await watch.read(), await watch.code()

    assert [vital.dagger for vital in first.vitals] == ["other"]
    assert (last.gone, code) == (["other"], grpc.StatusCode.OK)


async def test_a_watch_ends_with_the_gateway(harness: Any, steps: Any, refusal: Any) -> None:
    async with harness.running() as client:
        watch = client.daggers.WatchVitals(pb.WatchVitalsRequest())
        await steps(watch, 1)
        client.gateway.follower.drain()
        error = await refusal(watch.read())

    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")


# ---- Names that are not there ------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["get", "stop", "update", "watch"])
async def test_a_name_that_is_not_there_comes_with_the_one_that_may_be_meant(
    ready: Any, samples: Any, refusal: Any, call: str
) -> None:
    await ready.create()
    name, daggers = "completed_booking", ready.daggers
    calls = {
        "get": lambda: daggers.GetDagger(pb.GetDaggerRequest(name=name), timeout=10),
        "stop": lambda: daggers.StopDagger(pb.StopDaggerRequest(name=name), timeout=10),
        "update": lambda: daggers.UpdateDagger(
            pb.UpdateDaggerRequest(name=name, spec=samples.spec()), timeout=10
        ),
        "watch": lambda: daggers.WatchVitals(pb.WatchVitalsRequest(name=name)).read(),
    }

    error = await refusal(calls[call]())

    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
    assert error.message == f"there is no dagger {name}: did you mean {NAME}?"
    assert error.metadata["suggestion"] == NAME


async def test_a_name_like_no_other_has_no_suggestion(ready: Any, refusal: Any) -> None:
    await ready.create()

    error = await refusal(ready.daggers.GetDagger(pb.GetDaggerRequest(name="xyz"), timeout=10))

    assert error.message == "there is no dagger xyz"


async def test_a_list_says_how_many_there_are_on_all_pages(ready: Any) -> None:
    for name in ("abc", "abd", "xyz"):
        await ready.create(name=name)

    paged = await ready.daggers.ListDaggers(pb.ListDaggersRequest(page_size=1, filter="name=ab*"), timeout=10)
    none = await ready.daggers.ListDaggers(pb.ListDaggersRequest(filter="team=nobody"), timeout=10)

    assert (len(paged.daggers), paged.total_size, none.total_size) == (1, 2, 0)


async def test_a_launch_that_waits_for_a_core_of_its_host_says_so(ready: Any) -> None:
    await ready.create(name="first")
    await ready.create(name="second")
    await append(ready.log, events_pb2.HostRegistered(host="a", scheduler_id="s", cores=1))
    epoch = await append(ready.log, events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    meta = events_pb2.FactMeta(name="first", epoch=epoch)
    intended = await append(ready.log, events_pb2.LaunchIntended(meta=meta, version=1, host="a"))
    await ready.gateway.follower.wait_for(intended)
    waits, starts = await got(ready, "second"), await got(ready, "first")

    assert [warning.code for warning in waits.vitals.warnings] == ["WAITS_FOR_TURN"]
    assert "host a starts as many daggers as there are cores" in waits.vitals.warnings[0].message
    assert list(starts.vitals.warnings) == []
