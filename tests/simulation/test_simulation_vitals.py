"""When WatchVitals tells what: at once what the log brings, every second what is heard, the same to all."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from google.protobuf.message import Message
from tests.simulation.loop import Process, SimulatedLoop

from api_gateway.rpc.watch_vitals import Vitals
from api_gateway.state.fold import Fold
from api_gateway.state.following import read_into
from api_gateway.state.heartbeat_cache import HeartbeatCache
from eventlog import Draft
from eventlog.follower import Follower
from eventlog.memory import MemoryLog
from eventlog.testing import LogTail, subject_of

START = datetime(2026, 1, 1, tzinfo=UTC)
Told = tuple[float, list[str], list[str], list[str]]
"""A step: when it came, whose vitals, who has changed, who is gone."""


def told(*records: tuple[float, Message], watchers: int = 1, seconds: float = 4) -> list[list[Told]]:
    """What each of so many watchers is told, who begin at 0, while these come at those seconds."""
    loop = SimulatedLoop(Random(7))
    steps: list[list[Told]] = [[] for _ in range(watchers)]

    async def life() -> None:
        log, beats = MemoryLog(), MemoryLog()
        fold: Any = Fold()
        follower: Any = Follower(log, fold)
        clock = lambda: START + timedelta(seconds=loop.time())  # noqa: E731 - a word for it
        heard = HeartbeatCache(fold, clock)
        vitals = Vitals(heard, follower, fold)

        async def watched(to: list[Told]) -> None:
            async with aclosing(vitals.watch(gateway_pb2.WatchVitalsRequest())) as answers:
                async for step in answers:
                    names = [each.dagger for each in step.vitals]
                    to.append((round(loop.time(), 2), names, list(step.changed), list(step.gone)))

        for body in (follower.run(), read_into(LogTail(beats), heard), vitals.run(), *map(watched, steps)):
            loop.spawn(Process("gateway"), body)
        for second, message in records:
            await asyncio.sleep(second - loop.time())
            to = beats if isinstance(message, telemetry_pb2.Heartbeat) else log
            await to.append(Draft(f"{second}", "/test", subject_of(message), clock(), message))
        await asyncio.sleep(seconds - loop.time())

    loop.run_until_complete(life())
    loop.close()
    return steps


def asked(name: str) -> events_pb2.DaggerRequested:
    return events_pb2.DaggerRequested(
        meta=events_pb2.RequestMeta(actor="a@b", expected_version=0), name=name, spec={"cluster": "local"}
    )


def beat(name: str, number: int) -> telemetry_pb2.Heartbeat:
    """The heartbeat of a driver that has read so many records, one a second."""
    heartbeat = telemetry_pb2.Heartbeat(dagger=name, generation=9, rows_in=number)
    heartbeat.time.FromDatetime(START + timedelta(seconds=number))
    return heartbeat


def test_what_the_log_brings_is_told_at_once_and_what_comes_with_it_a_tenth_of_a_second_later() -> None:
    (steps,) = told((1.5, asked("one")), (1.52, asked("two")), (1.55, asked("three")), (3.25, asked("four")))

    assert steps == [
        (0, [], [], []),
        (1.5, ["one"], ["one"], []),
        (1.6, ["three", "two"], ["three", "two"], []),
        (3.25, ["four"], ["four"], []),
    ]


def test_what_is_heard_is_told_once_a_second() -> None:
    (steps,) = told((0.2, asked("one")), *((0.3 + 0.1 * number, beat("one", number)) for number in range(20)))

    assert [(second, names, changed) for second, names, changed, _ in steps] == [
        (0, [], []),
        (0.2, ["one"], ["one"]),
        (1, ["one"], []),
        (2, ["one"], []),
        (3, ["one"], []),
    ]


def test_all_who_watch_are_told_the_same_at_the_same_time() -> None:
    steps = told((1.5, asked("one")), (1.9, beat("one", 7)), watchers=5)

    assert len(steps[0]) > 2
    assert all(each == steps[0] for each in steps)
