"""Medians and spreads by hour: what they are, what is forgotten, and that calls may be divided."""

from __future__ import annotations

import random
from collections.abc import Mapping
from statistics import median
from typing import Final

import pytest

from daggersql.rules.sketch import HOUR, SEASONS, SeasonalSketch, Usual

MINUTE: Final = 60_000_000
A: Final = ("a",)
NOON: Final = 493_260 * HOUR
"""An hour's end."""


def begin(season: str = "", slide: int = MINUTE) -> SeasonalSketch:
    return SeasonalSketch(SEASONS[season], slide)


def take(
    sketch: SeasonalSketch,
    window: int,
    numbers: Mapping[tuple[str | None, ...], float],
    room: int = 1_000_000,
) -> None:
    list(sketch.merge(window, room - sketch.size, 100))
    sketch.add(window, numbers)


def fill(sketch: SeasonalSketch, hours: int, step: int, number: float, first: int = 1) -> int:
    """Give so many hours a window a minute, each `step` behind the one before; return the next window."""
    for place in range(hours):
        for minute in range(60):
            take(sketch, NOON + place * step * HOUR + (minute + first) * MINUTE, {A: number + minute % 5})
    window = NOON + hours * step * HOUR + MINUTE
    list(sketch.merge(window, 1_000_000, 100))
    return window


@pytest.mark.parametrize(("season", "step"), [("", 1), ("hour of day", 24), ("hour of week", 168)])
def test_a_number_is_judged_by_three_earlier_occurrences_of_its_hour(season: str, step: int) -> None:
    two, three = begin(season), begin(season)

    assert two.find(A, fill(two, 2, step, 100.0)) is None
    window = fill(three, 3, step, 100.0)
    assert three.find(A, window) == Usual(102.0, 1.0)
    assert three.find(("b",), window) is None
    assert three.learns_until() == NOON + 3 * step * HOUR


def test_other_hours_of_the_season_know_nothing_of_it() -> None:
    sketch = begin("hour of day")
    window = fill(sketch, 3, 24, 100.0)

    assert sketch.find(A, window - 2 * HOUR) is None


def test_numbers_of_the_hour_that_goes_on_are_not_judged_by_each_other() -> None:
    sketch = begin()
    window = fill(sketch, 3, 1, 100.0)
    for minute in range(58):
        take(sketch, window + minute * MINUTE, {A: 900.0})

    assert sketch.find(A, window + 58 * MINUTE) == Usual(102.0, 1.0)


@pytest.mark.parametrize(
    ("numbers", "number", "outside"),
    [
        ([10, 11, 12, 13, 14], 16.5, True),
        ([10, 11, 12, 13, 14], 15.5, False),
        ([10, 10, 10, 10, 14], 13.1, False),  # the mean distance 0.8 in place of a MAD of 0
        ([10, 10, 10, 10, 14], 13.3, True),
        ([10, 10, 10, 10, 10], 10.0, False),
        ([10, 10, 10, 10, 10], 10.0 + 1e-9, False),
        ([10, 10, 10, 10, 10], 10.1, True),
        ([0, 0, 0, 0, 0], 0.0, False),
        ([0, 0, 0, 0, 0], 1.0, True),
        ([-10, -11, -12, -13, -14], -17.0, True),
    ],
)
def test_a_number_is_outside_beyond_four_spreads(numbers: list[float], number: float, outside: bool) -> None:
    sketch = begin(slide=12 * MINUTE)
    for hour in range(3):
        for place, one in enumerate(numbers):
            take(sketch, NOON + hour * HOUR + (place + 1) * 12 * MINUTE, {A: float(one)})
    take(sketch, window := NOON + 3 * HOUR + 12 * MINUTE, {})
    usual = sketch.find(A, window)

    assert usual is not None
    assert usual.median == median(numbers)
    assert usual.is_outside(number, 4.0) is outside


def test_the_newest_occurrences_count_and_a_key_that_was_away_for_long_is_forgotten() -> None:
    sketch = begin("hour of week")
    fill(sketch, 6, 168, 100.0)
    window = NOON + 12 * 168 * HOUR + MINUTE
    for week in range(6, 12):
        for minute in range(60):
            take(sketch, NOON + (week * 60 * 168 + minute + 1) * MINUTE, {("b",): 7.0})
    take(sketch, window, {("b",): 7.0})

    assert sketch.find(("b",), window) == Usual(7.0, 0.0)
    later = NOON + 20 * 168 * HOUR + MINUTE
    take(sketch, NOON + 19 * 168 * HOUR + MINUTE, {("b",): 7.0})
    take(sketch, later, {})
    assert sketch.find(A, later) is None
    assert [key for key, _ in sketch.list_slot(sketch.slot_of(NOON // HOUR))] == [("b",)]


def test_beyond_the_room_there_are_no_further_keys_and_numbers() -> None:
    sketch = begin()
    for hour in range(4):
        window = NOON + (hour * 60 + 1) * MINUTE
        list(sketch.merge(window, 15 - sketch.size, 2))
        sketch.add(window, {A: 1.0, ("b",): 2.0, ("c",): 3.0})

    assert (sketch.size, sketch.keys, sketch.passed_over) == (15, {A, ("b",)}, True)


def test_of_windows_shorter_than_a_minute_one_a_minute_counts() -> None:
    sketch = begin(slide=1_000_000)
    for second in range(1, 121):
        sketch.add(NOON + second * 1_000_000, {A: float(second)})

    assert sketch.list_open() == {NOON + MINUTE: [(A, 60.0)], NOON + 2 * MINUTE: [(A, 120.0)]}


@pytest.mark.parametrize("seed", range(5))
def test_files_and_repeated_windows_change_nothing(seed: int) -> None:
    chance = random.Random(seed)
    whole, stored = begin(), begin()
    windows = [NOON + minute * MINUTE for minute in range(1, 8 * 60)]
    numbers = [{(key,): chance.uniform(0, 9) for key in "abc" if chance.random() < 0.8} for _ in windows]
    for place, window in enumerate(windows):
        take(whole, window, numbers[place])
        if chance.random() < 0.05:  # the driver is killed, and its last windows come again
            again = begin()
            again.load_open(NOON // HOUR, ((one, dict(rows)) for one, rows in stored.list_open().items()))
            again.load_slot(0, stored.list_slot(0))
            again.forget_merged()
            stored = again
            for earlier in range(max(place - 70, 0), place):
                take(stored, windows[earlier], numbers[earlier])
        take(stored, window, numbers[place])

    found = [sketch.find((key,), windows[-1]) for sketch in (whole, stored) for key in "abc"]
    assert found[:3] == found[3:]
    assert None not in found


@pytest.mark.parametrize(
    "rows", [[(A, [1.0, 2.0])], [(A, [])], [(A, [1.0, 2, 3, 4, 5, float("nan")])], [(A, ["x"])]]
)
def test_a_damaged_slot_is_refused(rows: list[tuple[tuple[str], list[float]]]) -> None:
    with pytest.raises((ValueError, TypeError)):
        begin().load_slot(0, rows)
