"""Who has how much room beside whom on one host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st

from daggerspec.limits import REPLAY_MIB
from fleet.fold.quotas import Room, need_mib
from scheduler.leader.occupancy import Occupancy, for_driver, for_preview, for_replay, for_spare, usual_mib

ROOM = Room(drivers=3, memory_mib=10_000, driver_memory_mib=900)
EACH = need_mib(spec_pb2.DaggerSpec(driver_memory_mib=900))
TAKEN = Occupancy(replays=2, previews=1)
Left = Callable[[Room, Occupancy], Room]


@pytest.mark.parametrize(
    ("left", "drivers", "taken_mib"),
    [
        (for_driver, 3, 2 * REPLAY_MIB),
        (for_replay, None, 2 * REPLAY_MIB),
        (for_preview, None, 2 * REPLAY_MIB + EACH),
        (for_spare, 3, 2 * REPLAY_MIB + EACH),
    ],
)
def test_each_counts_those_that_it_gives_way_to(left: Left, drivers: int | None, taken_mib: int) -> None:
    assert left(ROOM, TAKEN) == Room(drivers=drivers, memory_mib=10_000 - taken_mib, driver_memory_mib=900)
    assert left(Room(), TAKEN).memory_mib is None


@given(st.lists(st.booleans(), max_size=5), st.integers(0, 3), st.integers(0, 30_000))
def test_what_all_may_start_fits_together(replays: list[bool], previews: int, memory_mib: int) -> None:
    """Where the spare fits, so does every preview that runs; where that does, so do the replays."""
    room = Room(memory_mib=memory_mib)
    taken, others = Occupancy.of(replays, previews), Occupancy.of(replays)
    spare, driver = for_spare(room, taken).memory_mib, for_driver(room, taken).memory_mib
    assert spare is not None
    assert driver is not None

    with_spark = sum(replays)
    used = (len(replays) - with_spark) * REPLAY_MIB + (with_spark + previews) * usual_mib(room)
    assert (spare >= usual_mib(room)) == (used + usual_mib(room) <= memory_mib)
    assert for_preview(room, others).memory_mib == driver >= spare
