from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2

from chassis.errors import from_rpc_error
from eventlog import Draft
from eventlog.testing import START

pb = gateway_pb2


def fact(number: int) -> Draft:
    message = events_pb2.SchedulerStarted(scheduler_id=f"s{number}", host="h")
    return Draft(f"fact-{number}", "/scheduler/s", f"s{number}", START, message)


async def everything(client: Any, **fields: Any) -> list[Any]:
    request = pb.WatchEventsRequest(until_end=True, **fields)
    return [step async for step in client.daggers.WatchEvents(request, timeout=20)]


async def test_every_record_after_a_sequence_comes_in_order_and_ends_at_the_end(ready: Any) -> None:
    await ready.create()

    steps = await everything(ready, since_sequence=0)

    assert [(s.sequence, s.event.type.removeprefix("daggers.v1."), s.event.subject) for s in steps] == [
        (1, "SchemaRegistered", "shop.Booking"),
        (2, "StreamRegistered", "bookings"),
        (3, "DaggerRequested", "completed_bookings"),
    ]


async def test_an_event_carries_the_message_its_id_time_and_source(ready: Any) -> None:
    await ready.create(request_id="mine")

    (step,) = await everything(ready, since_sequence=2)

    message = events_pb2.DaggerRequested()
    unpacked = step.event.data.Unpack(message)
    assert (unpacked, message.name, step.event.id, step.event.source, step.event.time.seconds > 0) == (
        True,
        "completed_bookings",
        "mine",
        "/api-gateway/test",
        True,
    )


async def test_without_a_sequence_a_snapshot_comes_first_and_ends_with_where_it_stands(
    ready: Any, steps: Any
) -> None:
    await ready.create()
    watching = ready.daggers.WatchEvents(pb.WatchEventsRequest())
    snapshot, end = await steps(watching, 2)
    await ready.daggers.StopDagger(pb.StopDaggerRequest(name="completed_bookings"), timeout=10)

    (event,) = await steps(watching, 1)

    assert (
        snapshot.snapshot.name,
        snapshot.sequence,
        end.WhichOneof("step"),
        end.sequence,
        event.event.type,
        event.sequence,
    ) == ("completed_bookings", 3, None, 3, "daggers.v1.StopRequested", 4)


async def test_a_request_has_the_version_that_it_gave_so_that_what_made_a_dagger_is_known(
    ready: Any, steps: Any
) -> None:
    watching = ready.daggers.WatchEvents(pb.WatchEventsRequest(since_sequence=2))
    await ready.create()
    await ready.daggers.StopDagger(pb.StopDaggerRequest(name="completed_bookings"), timeout=10)
    await ready.log.append(fact(1))
    live = await steps(watching, 3)

    replayed = await everything(ready, since_sequence=2)

    assert [step.event.version for step in live] == [1, 2, 0]
    assert [step.event.version for step in replayed] == [1, 2, 0]


async def test_a_watch_of_one_dagger_sees_its_events_only_and_ends_at_the_end(ready: Any) -> None:
    await ready.create()
    await ready.create(name="another_one")

    steps = await everything(ready, since_sequence=-1, name="completed_bookings")

    assert [(step.WhichOneof("step"), step.sequence) for step in steps] == [("event", 3), (None, 4)]


@pytest.mark.parametrize(
    "message",
    [
        events_pb2.ClusterRegistered(cluster={"name": "namesake"}),
        events_pb2.StreamRegistered(stream={"name": "namesake"}),
        events_pb2.ReferenceRegistered(reference={"name": "namesake"}),
        events_pb2.SchedulerStarted(scheduler_id="namesake"),
    ],
)
async def test_a_watch_of_a_dagger_sees_nothing_of_what_is_no_dagger_but_has_its_name(
    ready: Any, message: Any
) -> None:
    await ready.create(name="namesake")
    await ready.log.append(Draft("other", "/somebody", "namesake", START, message))

    steps = await everything(ready, since_sequence=-1, name="namesake")

    assert [(step.WhichOneof("step"), step.sequence) for step in steps] == [("event", 3), (None, 4)]


async def test_why_a_record_is_not_applied_stands_beside_it(ready: Any) -> None:
    stale = events_pb2.Running(meta=events_pb2.FactMeta(epoch=-5, name="completed_bookings", generation=1))
    await ready.log.append(fact(1))
    await ready.log.append(Draft("stale", "/scheduler/old", "completed_bookings", START, stale))

    applied, refused = await everything(ready, since_sequence=2)

    assert (applied.event.refused, refused.event.refused) == ("", "it is of epoch -5, the newest is 3")


async def test_a_watch_is_resumed_where_it_was_left_without_a_gap_while_records_come(
    ready: Any, steps: Any
) -> None:
    async def write() -> None:
        for number in range(300):
            await ready.log.append(fact(number))
            await asyncio.sleep(0)

    writing = asyncio.create_task(write())
    seen: list[int] = []
    since = 2
    while len(seen) < 300:
        watching = ready.daggers.WatchEvents(pb.WatchEventsRequest(since_sequence=since))
        got = await steps(watching, min(37, 300 - len(seen)))
        watching.cancel()
        seen += [step.event.sequence for step in got]
        since = got[-1].sequence
    await writing

    assert seen == list(range(3, 303))


async def test_a_watch_that_falls_far_behind_still_sees_everything(ready: Any, steps: Any) -> None:
    watching = ready.daggers.WatchEvents(pb.WatchEventsRequest(since_sequence=2))
    await ready.log.append(fact(0))
    first = await steps(watching, 1)
    for number in range(1, 3000):  # without a pause: more than a watch holds
        await ready.log.append(fact(number))

    rest = await steps(watching, 2999)

    assert [step.sequence for step in first + rest] == list(range(3, 3003))


async def test_a_drained_watch_ends_with_where_to_resume(ready: Any, steps: Any) -> None:
    await ready.create()
    watching = ready.daggers.WatchEvents(pb.WatchEventsRequest(since_sequence=2))
    await steps(watching, 1)
    ready.gateway.follower.drain()

    (last,) = await steps(watching, 1)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watching.read()

    error = from_rpc_error(caught.value)
    assert (last.WhichOneof("step"), last.sequence, error.code, error.reason, error.metadata) == (
        None,
        3,
        grpc.StatusCode.UNAVAILABLE,
        "DRAINING",
        {"since_sequence": "3"},
    )


@pytest.mark.parametrize(
    ("since", "code"), [(-2, grpc.StatusCode.INVALID_ARGUMENT), (99, grpc.StatusCode.OUT_OF_RANGE)]
)
async def test_a_sequence_that_cannot_be_is_refused(ready: Any, since: int, code: grpc.StatusCode) -> None:
    watching = ready.daggers.WatchEvents(pb.WatchEventsRequest(since_sequence=since), timeout=10)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watching.read()

    assert caught.value.code() == code


async def test_a_record_that_cannot_be_read_is_shown_with_its_bytes_and_does_not_end_the_watch(
    ready: Any,
) -> None:
    ready.log.place([("ce_id", b"x"), ("ce_type", b"daggers.v1.Running"), ("ce_subject", b"a")], b"\xff")
    await ready.log.append(fact(1))

    broken, after = await everything(ready, since_sequence=2)

    assert (broken.event.data.value, broken.event.refused, after.event.id) == (
        b"\xff",
        "it cannot be read",
        "fact-1",
    )


async def test_the_history_of_a_stream_is_its_registrations_and_those_of_its_message(
    ready: Any, samples: Any
) -> None:
    await ready.create()
    stream = samples.stream()
    stream.sensitive.append("city")
    await ready.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10)
    request = pb.WatchEventsRequest(since_sequence=-1, until_end=True, stream="bookings")

    events = [step.event async for step in ready.daggers.WatchEvents(request, timeout=10) if step.event.id]

    assert [event.type.rpartition(".")[2] for event in events] == [
        "SchemaRegistered", "StreamRegistered", "StreamRegistered"
    ]  # fmt: skip
