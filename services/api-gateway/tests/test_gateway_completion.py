"""WaitCompleted: a service learns when its records are in every sink, or that they will not be."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from google.protobuf.message import Message

from eventlog import Draft

pb = gateway_pb2
Beat = telemetry_pb2.Heartbeat
NAME = "completed_bookings"
AT = {"bookings-1/0": 41}


async def append(log: Any, message: Message) -> int:
    sequence: int = await log.end() + 1
    await log.append(Draft(f"v{sequence}", "/test", NAME, datetime.now(UTC), message))
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


async def beats(harness: Any, generation: int, name: str = NAME, **completed: int) -> None:
    offsets = {f"bookings-1/{partition.removeprefix('p')}": offset for partition, offset in completed.items()}
    beat = Beat(dagger=name, generation=generation, state=Beat.STATE_RUNNING, completed=offsets)
    beat.time.GetCurrentTime()
    await append(harness.heartbeats, beat)


def waits(client: Any, offsets: dict[str, int] = AT, *, timeout: float = 20, **more: Any) -> Any:
    request = pb.WaitCompletedRequest(stream="bookings", offsets=offsets, **more)
    return client.daggers.WaitCompleted(request, timeout=timeout)


async def test_a_call_waits_until_every_dagger_of_the_stream_has_the_records(
    ready: Any, harness: Any
) -> None:
    one, other = await running(ready), await running(ready, "other_bookings")
    await beats(harness, one, p0=42)
    await beats(harness, other, "other_bookings", p0=41)
    call = asyncio.ensure_future(waits(ready))
    await asyncio.sleep(0.6)
    pending = not call.done()
    await beats(harness, other, "other_bookings", p0=42)

    answer = await call

    assert pending
    assert (answer.completed, [*answer.daggers], [*answer.behind]) == (True, [NAME, "other_bookings"], [])


async def test_a_call_about_one_dagger_waits_for_no_other(ready: Any, harness: Any) -> None:
    one = await running(ready)
    await running(ready, "other_bookings")
    await beats(harness, one, p0=42, p1=7)

    answer = await waits(ready, {"bookings-1/0": 41, "bookings-1/1": 6}, dagger=NAME)

    assert (answer.completed, [*answer.daggers]) == (True, [NAME])


async def test_a_wait_that_is_over_says_who_is_behind(ready: Any, harness: Any) -> None:
    await beats(harness, await running(ready), p0=41)

    answer = await waits(ready, {"bookings-1/0": 41, "bookings-2/9": 0}, timeout=2.5)

    assert not answer.completed
    assert [*answer.behind] == [
        pb.CompletionBehind(dagger=NAME, partition="bookings-1/0", offset=41, completed=41),
        pb.CompletionBehind(dagger=NAME, partition="bookings-2/9", offset=0),
    ]


async def test_a_dagger_that_is_stopped_is_an_error_at_once_unless_it_has_them(
    ready: Any, harness: Any, refusal: Any
) -> None:
    generation = await running(ready)
    await beats(harness, generation, p0=42)
    assert (await waits(ready)).completed
    await ready.daggers.StopDagger(pb.StopDaggerRequest(name=NAME), timeout=10)

    error = await refusal(waits(ready, {"bookings-1/0": 42}))

    assert (await waits(ready)).completed
    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "DAGGER_STOPPED")
    assert error.message == f"{NAME} is stopped, and has not completed bookings-1/0 up to 42"
    assert error.metadata == {"dagger": NAME, "partition": "bookings-1/0"}


async def test_a_dagger_that_is_stopped_while_a_call_waits_ends_it(
    ready: Any, harness: Any, refusal: Any
) -> None:
    await running(ready)
    call = asyncio.ensure_future(refusal(waits(ready)))
    await asyncio.sleep(0.3)
    await ready.daggers.StopDagger(pb.StopDaggerRequest(name=NAME), timeout=10)

    assert (await call).reason == "DAGGER_STOPPED"


async def test_a_newer_launch_has_to_say_it_anew(ready: Any, harness: Any) -> None:
    generation = await running(ready)
    await beats(harness, generation, p0=42)
    assert (await waits(ready)).completed
    await beats(harness, generation + 1)

    assert not (await waits(ready, timeout=2.5)).completed


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        ({"stream": "bookings"}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELDS"),
        (
            {"stream": "bookings", "offsets": {"bookings-1": 1}},
            grpc.StatusCode.INVALID_ARGUMENT,
            "INVALID_FIELDS",
        ),
        ({"stream": "bookings", "offsets": {"t/0": 1}}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELDS"),
        (
            {"stream": "bookings", "offsets": {**AT, "x/0": -1}},
            grpc.StatusCode.INVALID_ARGUMENT,
            "INVALID_FIELDS",
        ),
        ({"stream": "booking", "offsets": AT}, grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
        ({"stream": "bookings", "offsets": AT}, grpc.StatusCode.FAILED_PRECONDITION, "NO_READER"),
        ({"stream": "bookings", "offsets": AT, "dagger": "none"}, grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
    ],
)
async def test_what_nobody_can_wait_for_is_refused(
    ready: Any, refusal: Any, request_: dict[str, Any], code: grpc.StatusCode, reason: str
) -> None:
    error = await refusal(ready.daggers.WaitCompleted(pb.WaitCompletedRequest(**request_), timeout=10))

    assert (error.code, error.reason) == (code, reason)


async def test_all_that_is_wrong_is_said_at_once(ready: Any, refusal: Any) -> None:
    error = await refusal(waits(ready, {"a": 1, "bookings-1/0": -1}))

    assert [violation.field for violation in error.violations] == ["offsets[a]", "offsets[bookings-1/0]"]
