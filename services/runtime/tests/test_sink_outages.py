"""What becomes of rows while a sink takes none, or refuses most: pauses, a budget, the flood breaker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.clients.breaker import LEAST, FloodBreaker
from runtime.launch.outages import (
    DAY_BYTES,
    FIRST_PAUSE_S,
    LONGEST_ASKED_S,
    LONGEST_PAUSE_S,
    DayBudget,
    left_s,
    pause_s,
)

MINUTE, DAY = 60.0, 86_400.0


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True), st.none() | st.floats(-1e9, 1e9))
def test_no_pause_is_longer_than_its_cap_nor_shorter_than_what_is_asked_for(
    attempt: int, chance: float, asked: float | None
) -> None:
    pause = pause_s(attempt, chance, asked)

    assert 0 < pause <= max(LONGEST_PAUSE_S, min(asked or 0, LONGEST_ASKED_S))
    assert pause >= min(asked or 0, LONGEST_ASKED_S)


def test_pauses_double_and_end_at_a_cap_and_chance_takes_from_all_of_them() -> None:
    longest = [pause_s(attempt, 0) for attempt in range(1, 8)]

    assert longest == [FIRST_PAUSE_S, 1, 2, 4, 8, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert [pause_s(attempt, 0.75) for attempt in range(1, 8)] == [each / 4 for each in longest]


def test_what_a_sink_asks_for_is_over_some_time_and_never_a_year() -> None:
    assert (left_s(9, 4), left_s(9, 10), left_s(31_536_000, 0)) == (5, 0, LONGEST_ASKED_S)


def test_after_so_many_bytes_in_a_day_nothing_more_is_set_aside_and_the_next_day_it_is() -> None:
    half = DayBudget().spend(MINUTE, DAY_BYTES // 2)
    full = half.spend(2 * MINUTE, DAY_BYTES // 2)

    assert (half.is_left(DAY / 2), full.is_left(DAY / 2), full.is_left(DAY + MINUTE)) == (True, False, True)


@pytest.mark.parametrize(
    ("steps", "aside", "is_open"),
    [
        ([(1_000, LEAST - 1)], LEAST - 1, False),
        ([(LEAST - 1, LEAST - 1)], LEAST - 1, False),
        ([(LEAST, LEAST)], 0, True),
        ([(50, 50), (50, 50)], 0, True),
        ([(1_000, 400), (1_000, 600)], 1_000, False),
        ([(1_000, 400), (200, 200)], 600, False),
        ([(1_000, 400), (1_000, 700)], 400, True),
    ],
)
def test_a_sink_that_refuses_most_has_nothing_more_set_aside(
    steps: list[tuple[int, int]], aside: int, is_open: bool
) -> None:
    breaker = FloodBreaker[int](0.5)
    taken = [each for rows, refused in steps for each in breaker.add(rows, refused, refused)]

    assert (sum([*taken, *breaker.flush()]), breaker.is_open) == (aside, is_open)


@given(st.lists(st.integers(0, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))))
def test_without_a_share_all_is_set_aside_unless_none_of_many_passes(steps: list[tuple[int, int]]) -> None:
    breaker = FloodBreaker[int](None)
    ready, rows, refused = 0, 0, 0
    for more, wrong in steps:
        rows, refused = rows + more, refused + wrong
        ready += sum(breaker.add(more, wrong, wrong))
        assert breaker.is_open == (refused == rows >= LEAST)
        assert ready in (0, refused)
        assert ready == refused or refused == rows
        if breaker.is_open:
            assert not breaker.flush()
            return
    ready += sum(breaker.flush())

    assert ready == refused


@given(st.lists(st.integers(0, 300)))
def test_rows_that_no_server_has_seen_are_set_aside_however_many(steps: list[int]) -> None:
    breaker = FloodBreaker[int](None)
    ready = sum(sum(breaker.add(rows, rows, rows, by_server=0)) for rows in steps)

    assert ready + sum(breaker.flush()) == sum(steps)


@given(st.lists(st.integers(0, 300)))
def test_where_all_may_be_refused_they_are_set_aside_as_they_come(steps: list[int]) -> None:
    breaker = FloodBreaker[int](0.5, is_off=True)

    assert [sum(breaker.add(rows, rows, rows)) for rows in steps] == steps
