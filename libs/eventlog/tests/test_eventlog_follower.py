"""A fold at the end of a log, and those who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from daggers.v1 import events_pb2

from eventlog import Draft, LogDamaged, LogPosition, LogReplaced, LogUnavailable, Record, extend_history
from eventlog.fold import BACKLOG, LogBaseline
from eventlog.follower import Follower
from eventlog.memory import MemoryLog
from eventlog.testing import START

DEADLINE_S = 10


class Ids:
    """A fold that remembers ids, and says whether one is new."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.position = LogPosition()

    def apply(self, record: Record) -> bool:
        new = record.id not in self.ids
        self.ids.append(record.id)
        self.position = LogPosition(record.sequence, extend_history(self.position.history, record))
        return new


class Away(MemoryLog):
    """A log that does not answer so many times; a record may land all the same."""

    def __init__(self, times: int, *, lands: bool = False, mute: bool = False) -> None:
        super().__init__()
        self.times, self.lands, self.mute = times, lands, mute

    def _fail(self) -> None:
        self.times -= 1
        if self.times >= 0:
            raise LogUnavailable("it does not answer")

    async def append(self, draft: Draft) -> None:
        if self.times > 0 and self.lands:
            await super().append(draft)
        self._fail()
        if not self.mute:
            await super().append(draft)

    async def end(self) -> int:
        self._fail()
        return await super().end()


def draft(id_: str) -> Draft:
    return Draft(id_, "/test", "d", START, events_pb2.StopRequested(name="d"))


async def written(*ids: str) -> MemoryLog:
    log = MemoryLog()
    for id_ in ids:
        await log.append(draft(id_))
    return log


@asynccontextmanager
async def running(follower: Follower[bool]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, LogDamaged, LogUnavailable):
            await task


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventlog.follower._RETRY_S", 0.01)


async def test_what_stands_in_the_log_is_folded_and_then_what_comes() -> None:
    log, ids = await written("a", "b"), Ids()
    follower = Follower(log, ids)
    async with running(follower):
        await follower.catch_up()
        before = list(ids.ids)
        await log.append(draft("c"))
        await follower.wait_for(2)

    assert (before, ids.ids) == (["a", "b"], ["a", "b", "c"])


async def test_an_appended_record_is_read_back_with_what_the_fold_made_of_it() -> None:
    follower = Follower(await written("a"), Ids())
    async with running(follower):
        new = await follower.append(draft("b"))
        again = await follower.append(draft("b"))

    assert [(step.record.sequence, step.applied) for step in (new, again)] == [(1, True), (2, False)]


async def test_two_who_append_under_the_same_id_are_both_answered() -> None:
    follower = Follower(MemoryLog(), Ids())
    async with running(follower):
        steps = await asyncio.gather(follower.append(draft("a")), follower.append(draft("a")))

    assert {step.record.id for step in steps} == {"a"}


@pytest.mark.parametrize("lands", [False, True])
async def test_without_a_limit_an_append_is_repeated_until_its_record_comes_back(lands: bool) -> None:
    follower = Follower(Away(3, lands=lands), Ids())
    async with running(follower):
        step = await follower.append(draft("a"))

    assert (step.record.id, step.record.sequence) == ("a", 0)


async def test_with_a_limit_a_log_that_is_away_is_said_at_once() -> None:
    follower = Follower(Away(3), Ids(), patience_s=5)
    async with running(follower):
        with pytest.raises(LogUnavailable):
            await follower.append(draft("a"))
        with pytest.raises(LogUnavailable):
            await follower.catch_up()


async def test_a_record_that_does_not_come_back_in_time_may_stand_in_the_log() -> None:
    follower = Follower(Away(0, mute=True), Ids(), patience_s=0.05)
    async with running(follower):
        with pytest.raises(LogUnavailable, match="did not come back"):
            await follower.append(draft("a"))


async def test_catching_up_takes_as_long_as_records_come() -> None:
    class Slow(MemoryLog):
        async def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
            async for record in super().follow(since):
                await asyncio.sleep(0.02)
                yield record

    log = Slow()
    for number in range(10):
        await log.append(draft(str(number)))
    follower = Follower(log, Ids(), patience_s=0.1)
    async with running(follower):
        await follower.catch_up()

    assert follower.sequence == 9


async def test_a_log_that_ends_before_what_was_read_is_damage_and_everybody_who_waits_hears_it() -> None:
    follower = Follower(
        await written("a"), Ids(), baseline=LogBaseline(LogPosition(5, b"x"), "remove the file")
    )
    async with running(follower) as task:
        with pytest.raises(LogDamaged, match=r"ends at sequence 0, but 5 was read.*remove the file"):
            await follower.wait_for(5)
        with pytest.raises(LogDamaged):
            await task
        with pytest.raises(LogDamaged):
            await follower.append(draft("b"))

    assert "ends at sequence 0" in follower.damage


async def test_a_log_with_other_records_where_it_was_read_is_replaced_and_nobody_sees_that_step() -> None:
    told: list[int] = []
    log = await written("a", "b", "c")
    known = LogBaseline(LogPosition(1, b"of another log"))
    follower = Follower(log, Ids(), baseline=known, on_step=lambda step: told.append(step.record.sequence))
    async with running(follower) as task:
        with pytest.raises(LogReplaced, match="was made anew"):
            await follower.wait_for(2)
        with pytest.raises(LogReplaced):
            await task

    assert told == [0]


async def test_the_log_that_was_read_before_is_followed_on() -> None:
    first, again = Ids(), Ids()
    log = await written("a", "b")
    before = Follower(log, first)
    async with running(before):
        await before.catch_up()
    follower = Follower(log, again, baseline=LogBaseline(first.position))
    async with running(follower):
        step = await follower.append(draft("c"))

    assert (step.record.sequence, follower.damage) == (2, "")


async def test_a_subscriber_gets_the_steps_from_now_on_and_overflows_alone() -> None:
    follower = Follower(await written("a"), Ids())
    async with running(follower):
        await follower.catch_up()
        slow = follower.subscribe()
        for number in range(BACKLOG + 1):
            await follower.append(draft(str(number)))
        quick = follower.subscribe()
        await follower.append(draft("last"))
        follower.unsubscribe(quick)
        await follower.append(draft("behind"))

    assert (len(slow.steps), slow.overflowed) == (BACKLOG, True)
    assert ([step.record.id for step in quick.steps], quick.overflowed) == (["last"], False)


async def test_a_drain_wakes_whoever_waits_for_steps() -> None:
    follower = Follower(MemoryLog(), Ids())
    async with running(follower):
        leaving = asyncio.create_task(follower.until(lambda: follower.draining))
        await asyncio.sleep(0)
        follower.drain()
        await leaving

    assert follower.draining


async def test_who_waits_goes_on_once_it_has_what_it_waits_for_and_not_before() -> None:
    asked, ids = list[int](), Ids()
    follower = Follower(await written(), ids)

    def met() -> bool:
        asked.append(len(ids.ids))
        return len(ids.ids) == 2

    async with running(follower):
        waiting = asyncio.create_task(follower.until(met))
        await follower.append(draft("a"))
        early = waiting.done()
        await follower.append(draft("b"))
        await waiting

    assert not early
    assert asked[-1] == 2


async def test_what_a_wait_raises_is_raised_there_and_the_fold_goes_on() -> None:
    ids = Ids()
    follower = Follower(await written(), ids)

    def met() -> bool:
        if ids.ids:
            raise ValueError("no such route")
        return False

    async with running(follower):
        waiting = asyncio.create_task(follower.until(met))
        await follower.append(draft("a"))
        with pytest.raises(ValueError, match="no such route"):
            await waiting
        await follower.append(draft("b"))

    assert ids.ids == ["a", "b"]
