"""What was said before a monitor began: it judges as one that heard it all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from health_monitor.observe.recall import Recall

SECOND = timedelta(seconds=1)

# ---- What there is to read again ---------------------------------------------------------------------------


def test_all_is_read_when_the_last_record_of_each_partition_was() -> None:
    recall = Recall({0: 12, 3: 40})
    recall.read(3, 39)
    before = recall.done
    recall.read(0, 11)

    assert (before, recall.done) == (False, True)


def test_nothing_to_recall_is_done_at_once_and_a_hole_at_the_end_is_passed() -> None:
    holed = Recall({0: 12})
    holed.read(0, 57)

    assert (Recall({}).done, holed.done) == (True, True)
    assert [Recall({0: 12}).holds(*place) for place in ((0, 11), (0, 12), (1, 0))] == [True, False, False]


# ---- What it makes of it -----------------------------------------------------------------------------------


async def fired(world: Any) -> list[str]:
    return [event for event in await world.events() if event.startswith("Alert")]


@pytest.mark.parametrize(("recalls", "told"), [(True, ["AlertFired"]), (False, [])])
async def test_records_that_were_set_aside_before_a_monitor_began_are_told(
    world: Any, recalls: bool, told: list[str]
) -> None:
    for bad in (0, 0, 40, 80, 80):
        await world.beat(rows_in=1_000, quarantined={"MALFORMED": bad})
        world.now += 5 * SECOND
    async with world.monitor(recalls=recalls) as running:
        for _ in range(4):
            await world.beat(rows_in=1_000, quarantined={"MALFORMED": 80})
            await running.step(2)

        assert await fired(world) == told


async def test_an_incident_is_not_over_because_the_monitor_was_started_again(world: Any) -> None:
    bad = 0
    async with world.monitor("one") as running:
        for _ in range(6):
            await world.beat(rows_in=1_000, quarantined={"MALFORMED": (bad := bad + 20)})
            await running.step(2)
        before = await fired(world)
    world.now += 20 * SECOND
    async with world.monitor("two") as running:
        for _ in range(10):
            await world.beat(rows_in=1_000, quarantined={"MALFORMED": bad})
            await running.step(2)

        assert (before, await fired(world)) == (["AlertFired"], ["AlertFired"])


async def test_a_driver_that_was_silent_before_is_unreachable_without_waiting_anew(world: Any) -> None:
    for _ in range(5):
        await world.beat()
        world.now += 5 * SECOND
    for _ in range(7):  # others are heard
        await world.leader_beat()
        world.now += 4 * SECOND
    async with world.monitor() as running:
        for _ in range(6):
            await world.leader_beat()
            await running.step(2)

        assert await fired(world) == ["AlertFired"]


async def test_while_nobody_was_heard_no_silence_counts(world: Any) -> None:
    for _ in range(5):
        await world.beat()
        world.now += 5 * SECOND
    world.now += 60 * SECOND
    async with world.monitor() as running:
        for _ in range(10):
            await world.leader_beat()
            await running.step(2)

        assert await fired(world) == []


@pytest.mark.parametrize("skew_s", [-600, -40, -10, 0, 10, 40, 600])
async def test_a_clock_that_is_wrong_alarms_nobody_while_drivers_speak(world: Any, skew_s: int) -> None:
    """Kafka says when a record came by the clock of who wrote it."""
    for _ in range(10):
        await world.beat(skew=skew_s * SECOND)
        await world.leader_beat()
        world.now += 5 * SECOND
    async with world.monitor() as running:
        for _ in range(20):
            await world.beat(skew=skew_s * SECOND)
            await running.step(2)

        assert await fired(world) == []


async def test_what_an_earlier_dagger_of_the_name_said_is_not_recalled(world: Any) -> None:
    await world.beat(rows_in=1_000, quarantined={"MALFORMED": 0})
    world.now += 5 * SECOND
    await world.beat(rows_in=1_000, quarantined={"MALFORMED": 500})
    await world.delete_dagger()
    await world.run_dagger()
    async with world.monitor() as running:
        for _ in range(4):
            await world.beat(rows_in=1_000)
            await running.step(2)

        assert await fired(world) == []
