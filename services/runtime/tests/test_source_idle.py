"""Silent streams close their windows, and only theirs, and only when it is time."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.source.planner.idle import Clock, Windows, next_tick

MINUTE = 60_000
TUMBLE = Windows(size=10_000, slide=10_000)
HOP = Windows(size=60_000, slide=10_000)
SESSION = Windows(size=30_000, slide=0)
FAR = 10**12


def clock(reached: int | None, *, data: int | None = None, delay: int = 5_000, silent: bool = True) -> Clock:
    return Clock(reached, reached if data is None else data, delay, silent)


def test_the_tick_that_closes_the_last_window_comes_when_idle_timeout_has_passed() -> None:
    own = clock(7_000)

    assert (next_tick(own, [], TUMBLE, 14_999), next_tick(own, [], TUMBLE, 15_000)) == (None, 15_000)


def test_a_back_fill_of_long_ago_has_its_windows_closed_and_no_later_ones() -> None:
    assert next_tick(clock(7_000), [], TUMBLE, FAR) == 15_000


def test_no_tick_follows_the_one_that_closed_the_last_window() -> None:
    assert next_tick(clock(7_000).after(15_000), [], TUMBLE, FAR) is None


def test_without_any_record_there_is_no_tick() -> None:
    assert next_tick(Clock(None, None, 5_000, True), [Clock(None, None, 0, True)], TUMBLE, FAR) is None


def test_a_topic_that_never_had_a_record_ticks_for_the_windows_of_another() -> None:
    empty = Clock(None, None, 2_000, True)

    assert next_tick(empty, [clock(7_000)], TUMBLE, FAR) == 12_000


def test_a_silent_stream_follows_one_that_is_behind_and_does_not_run_ahead() -> None:
    behind = clock(3 * MINUTE, silent=False)
    own = clock(MINUTE, data=10 * MINUTE)

    assert next_tick(own, [behind], TUMBLE, FAR) == 3 * MINUTE


def test_a_silent_stream_waits_for_one_that_has_not_read_anything_yet() -> None:
    assert next_tick(clock(7_000), [Clock(None, None, 5_000, False)], TUMBLE, FAR) is None


def test_two_silent_streams_do_not_wait_for_each_other() -> None:
    assert next_tick(clock(7_000), [clock(3_000)], TUMBLE, FAR) == 15_000


def test_a_tick_that_closes_no_window_is_not_emitted() -> None:
    assert next_tick(clock(31_000, data=90_000), [], TUMBLE, 34_900) is None


def test_the_last_window_of_a_hop_begins_with_the_last_row() -> None:
    assert next_tick(clock(7_000), [], HOP, FAR) == 65_000


def test_a_session_ends_a_gap_after_its_last_row() -> None:
    assert next_tick(clock(7_000), [], SESSION, FAR) == 42_000


times = st.integers(0, 200_000)
windows = st.sampled_from([TUMBLE, HOP, SESSION, Windows(25_000, 10_000)])
clocks = st.builds(Clock, st.none() | times, st.none() | times, st.integers(0, 20_000), st.booleans())


@given(own=clocks, others=st.lists(clocks, max_size=3), kind=windows, idle_until=st.integers(0, 400_000))
def test_a_tick_is_never_ahead_of_what_is_allowed(
    own: Clock, others: list[Clock], kind: Windows, idle_until: int
) -> None:
    tick = next_tick(own, others, kind, idle_until)
    newest = max((c.data for c in (own, *others) if c.data is not None), default=0)

    assert tick is None or (
        tick <= idle_until
        and tick - own.delay <= kind.last_end(newest)
        and all(tick - own.delay <= other.watermark for other in others if not other.silent)
        and (own.reached is None or tick > own.reached)
    )


@given(data=times, delay=st.integers(0, 20_000), kind=windows, polls=st.lists(st.integers(1, 7_000)))
def test_ticks_close_every_window_and_then_end(
    data: int, delay: int, kind: Windows, polls: list[int]
) -> None:
    own, ticks, now = Clock(data, data, delay, True), 0, data
    for pause in (*polls, *[1_000] * 120):
        now += pause
        tick = next_tick(own, [], kind, now)
        if tick is not None:
            own, ticks = own.after(tick), ticks + 1

    bound = 1 + (kind.last_end(data) - data + delay) // (kind.slide or 1_000) + 1
    assert (own.watermark >= kind.last_end(data), ticks <= bound) == (True, True)


@given(time=times, watermark=times, kind=windows)
def test_a_row_is_late_when_its_last_window_is_closed(time: int, watermark: int, kind: Windows) -> None:
    assert (time < kind.first_in_time(watermark)) == (kind.last_end(time) <= watermark)
