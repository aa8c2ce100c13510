"""Who leads: claims, beats, and deaths that are proven."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest
from daggers.v1 import alerts_pb2

from election import Election, ElectionEvents, Holder, LeadershipLost, host_name, identity, proven_dead
from eventlog import LogPosition, Record, extend_history
from eventlog.follower import Follower
from eventlog.memory import MemoryLog
from eventlog.testing import START

SECOND = timedelta(seconds=1)


class Claims:
    """A fold that knows the newest claim."""

    def __init__(self) -> None:
        self.holder: Holder | None = None
        self.position = LogPosition()

    def apply(self, record: Record) -> None:
        self.position = LogPosition(record.sequence, extend_history(self.position.history, record))
        if isinstance(record.message, alerts_pb2.MonitorStarted):
            self.holder = Holder(record.sequence, record.message.monitor_id)


class World:
    """A log, a topic of beats and a clock; candidates are told what they hear."""

    def __init__(self) -> None:
        self.log, self.beats, self.now = MemoryLog(), MemoryLog(), START
        self.dead: set[str] = set()

    @asynccontextmanager
    async def candidate(self, id_: str) -> AsyncIterator[Election]:
        fold = Claims()
        follower = Follower(self.log, fold, on_step=lambda _: election.note_claim())
        events = ElectionEvents(
            "health-monitor",
            claim=lambda me, host: alerts_pb2.MonitorStarted(monitor_id=me, host=host),
            beat=lambda epoch, me: alerts_pb2.MonitorBeat(epoch=epoch, monitor_id=me),
            holder=lambda: fold.holder,
        )
        election = Election(
            events,
            follower,
            self.beats,
            id=id_,
            host="h",
            patience=10 * SECOND,
            clock=lambda: self.now,
            dead=self.dead.__contains__,
        )
        running = asyncio.create_task(follower.run())
        try:
            async with asyncio.timeout(10):
                await follower.catch_up()
                yield election
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def folded(election: Election) -> None:
    await election._follower.catch_up()


async def test_the_first_candidate_waits_a_moment_and_leads() -> None:
    world = World()
    async with world.candidate("one") as one:
        at_once = one.may_claim()
        world.now += SECOND
        await one.claim()

    assert (at_once, one.leads, one.epoch) == (False, True, 0)


async def test_of_two_claims_at_once_the_newer_leads_and_the_older_is_deposed() -> None:
    world = World()
    async with world.candidate("one") as one, world.candidate("two") as two:
        world.now += SECOND
        ended = await asyncio.gather(one.claim(), two.claim(), return_exceptions=True)
        await folded(one)

    assert sorted(type(each).__name__ for each in ended) == ["LeadershipLost", "NoneType"]
    assert [one.leads, two.leads] == [isinstance(end, type(None)) for end in ended]


async def test_a_beat_holds_the_others_back_and_its_absence_lets_them_claim() -> None:
    world = World()
    async with world.candidate("one") as one, world.candidate("two") as two:
        world.now += SECOND
        await one.claim()
        await folded(two)
        world.now += 9 * SECOND
        two.note_beat(one.epoch)
        world.now += 9 * SECOND
        early = two.may_claim()
        world.now += SECOND
        await two.claim()
        await folded(one)

        with pytest.raises(LeadershipLost):
            one.ensure_leading()

    assert (early, two.leads, two.epoch) == (False, True, 1)


async def test_the_beat_of_a_leader_that_was_replaced_holds_nobody_back() -> None:
    world = World()
    async with (
        world.candidate("one") as one,
        world.candidate("two") as two,
        world.candidate("three") as three,
    ):
        world.now += SECOND
        await one.claim()
        world.now += 10 * SECOND
        await folded(two)
        world.now += 10 * SECOND
        await two.claim()
        await folded(three)
        world.now += 10 * SECOND
        three.note_beat(one.epoch)

        assert three.may_claim()


async def test_a_leader_that_is_proven_dead_is_replaced_at_once() -> None:
    world = World()
    async with world.candidate("one") as one, world.candidate("two") as two:
        world.now += SECOND
        await one.claim()
        await folded(two)
        alive = two.may_claim()
        world.dead.add("one")
        await two.claim()

    assert (alive, two.leads) == (False, True)


async def test_a_leader_beats_five_times_in_the_time_it_is_waited_for() -> None:
    world = World()
    async with world.candidate("one") as one:
        world.now += SECOND
        await one.claim()
        for _ in range(100):
            await one.beat()
            world.now += SECOND / 10
        beats = [record.message async for record in world.beats.replay()]

    assert beats == [alerts_pb2.MonitorBeat(epoch=0, monitor_id="one")] * 5


def test_a_candidate_is_proven_dead_only_where_its_process_can_be_looked_up() -> None:
    mine = identity()
    space, _, process = mine.rpartition("@")
    pid, ticks, rest = process.split("-", maxsplit=2)

    assert not proven_dead(mine)
    assert proven_dead(f"{space}@{pid}-{int(ticks) - 1}-{rest}")
    assert not proven_dead(f"elsewhere@{pid}-{int(ticks) - 1}-{rest}")
    assert not proven_dead("somebody")
    assert host_name() == socket.gethostname()
