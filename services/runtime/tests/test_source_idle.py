"""Idle streams close their windows, and only theirs, and only when it is time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.source.planner.idle import next_advance
from runtime.source.watermark import WatermarkState, Windows

MINUTE = 60_000
TUMBLE = Windows(size=10_000, slide=10_000)
HOP = Windows(size=60_000, slide=10_000)
SESSION = Windows(size=30_000, slide=0)
UPDATED = Windows(20_000, 10_000, (0, 10_000, 35_000))
FAR = 10**12


def state(
    observed: int | None, *, newest: int | None = None, delay: int = 5_000, idle: bool = True
) -> WatermarkState:
    return WatermarkState(observed, observed if newest is None else newest, delay, idle)


def test_the_advance_that_closes_the_last_window_comes_when_idle_timeout_has_passed() -> None:
    own = state(7_000)

    assert (next_advance(own, [], TUMBLE, 14_999), next_advance(own, [], TUMBLE, 15_000)) == (None, 15_000)


def test_a_back_fill_of_long_ago_has_its_windows_closed_and_no_later_ones() -> None:
    assert next_advance(state(7_000), [], TUMBLE, FAR) == 15_000


def test_no_advance_follows_the_one_that_closed_the_last_window() -> None:
    assert next_advance(state(7_000).after(15_000), [], TUMBLE, FAR) is None


def test_without_any_record_there_is_no_advance() -> None:
    own, other = WatermarkState(None, None, 5_000, True), WatermarkState(None, None, 0, True)

    assert next_advance(own, [other], TUMBLE, FAR) is None


def test_a_topic_that_never_had_a_record_advances_for_the_windows_of_another() -> None:
    empty = WatermarkState(None, None, 2_000, True)

    assert next_advance(empty, [state(7_000)], TUMBLE, FAR) == 12_000


def test_a_idle_stream_follows_one_that_is_behind_and_does_not_run_ahead() -> None:
    behind = state(3 * MINUTE, idle=False)
    own = state(MINUTE, newest=10 * MINUTE)

    assert next_advance(own, [behind], TUMBLE, FAR) == 3 * MINUTE


def test_a_idle_stream_waits_for_one_that_has_not_read_anything_yet() -> None:
    assert next_advance(state(7_000), [WatermarkState(None, None, 5_000, False)], TUMBLE, FAR) is None


def test_two_idle_streams_do_not_wait_for_each_other() -> None:
    assert next_advance(state(7_000), [state(3_000)], TUMBLE, FAR) == 15_000


def test_an_advance_that_closes_no_window_is_not_emitted() -> None:
    assert next_advance(state(31_000, newest=90_000), [], TUMBLE, 34_900) is None


def test_the_last_window_of_a_hop_begins_with_the_last_row() -> None:
    assert next_advance(state(7_000), [], HOP, FAR) == 65_000


def test_a_session_ends_a_gap_after_its_last_row() -> None:
    assert next_advance(state(7_000), [], SESSION, FAR) == 42_000


times = st.integers(0, 200_000)
windows = st.sampled_from([TUMBLE, HOP, SESSION, UPDATED, Windows(25_000, 10_000)])
states = st.builds(
    WatermarkState, st.none() | times, st.none() | times, st.integers(0, 20_000), st.booleans()
)


@given(own=states, others=st.lists(states, max_size=3), kind=windows, idle_until=st.integers(0, 400_000))
def test_an_idle_advance_is_never_ahead_of_what_is_allowed(
    own: WatermarkState, others: list[WatermarkState], kind: Windows, idle_until: int
) -> None:
    advance = next_advance(own, others, kind, idle_until)
    newest = max((s.newest_record for s in (own, *others) if s.newest_record is not None), default=0)

    assert advance is None or (
        advance <= idle_until
        and advance - own.delay <= kind.last_gate(newest)
        and all(advance - own.delay <= other.watermark for other in others if not other.idle)
        and (own.observed is None or advance > own.observed)
    )


@given(newest=times, delay=st.integers(0, 20_000), kind=windows, polls=st.lists(st.integers(1, 7_000)))
def test_advances_close_every_window_and_then_end(
    newest: int, delay: int, kind: Windows, polls: list[int]
) -> None:
    own, advances, now = WatermarkState(newest, newest, delay, True), 0, newest
    for pause in (*polls, *[1_000] * 120):
        now += pause
        advance = next_advance(own, [], kind, now)
        if advance is not None:
            own, advances = own.after(advance), advances + 1

    ends = (kind.last_gate(newest) - newest + delay) // (kind.slide or 1_000) + 1
    bound = 1 + ends * len(kind.gates)
    assert (own.watermark >= kind.last_gate(newest), advances <= bound) == (True, True)


@given(time=times, watermark=times, kind=windows)
def test_a_row_is_in_no_window_when_its_last_one_is_closed(time: int, watermark: int, kind: Windows) -> None:
    assert (time < kind.first_open(watermark)) == (kind.last_gate(time) <= watermark)


@given(time=times, watermark=times, micros=st.integers(0, 999), kind=windows)
def test_a_row_is_late_for_each_of_its_windows_that_is_closed(
    time: int, watermark: int, micros: int, kind: Windows
) -> None:
    instant = time * 1000 + micros
    if kind.slide:
        begins = range(time // kind.slide * kind.slide, time - kind.size, -kind.slide)
        closed = sum(begin + kind.size + kind.allowed_lateness <= watermark for begin in begins)
    else:
        closed = int(instant + kind.size * 1000 <= watermark * 1000)

    assert kind.count_missed(np.array([instant]), watermark).tolist() == [closed]
    assert (instant < kind.first_on_time_us(watermark)) == (closed > 0)
