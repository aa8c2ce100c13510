"""Records that a launch read and completed: never one that a window of its own still waits for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.launch import completion, progress
from runtime.launch.completion import Completion
from runtime.source.watermark import NEVER, Windows

MINUTE = Windows(60_000, 60_000)
SESSION = Windows(10_000, 0)
AT = {"t/0": 10}


def read(state: Completion, offset: int, newest: int | None, closed: int = NEVER) -> Completion:
    return completion.batch_committed(state, {"t/0": offset}, newest=newest, closed=closed)


def test_without_windows_a_batch_is_completed_when_it_is_committed() -> None:
    assert read(Completion(None), 10, 5_000).offsets == AT


def test_a_record_is_completed_when_its_last_window_is_written() -> None:
    first = read(Completion(MINUTE), 10, 59_999)
    before, after = (read(first, 20, 130_000, closed).offsets for closed in (59_999, 60_000))

    assert (first.offsets, before, after) == ({}, {}, AT)


def test_a_record_of_several_windows_waits_for_all_of_them() -> None:
    hop = Windows(60_000, 20_000)
    first = read(Completion(hop), 10, 20_000)

    assert [read(first, 20, 200_000, closed).offsets for closed in (40_000, 79_999, 80_000)] == [{}, {}, AT]


def test_a_batch_that_closes_what_it_reads_is_completed_at_once() -> None:
    assert read(Completion(MINUTE), 10, 1_000, 60_000).offsets == AT


def test_records_without_event_time_are_completed_with_those_before_them() -> None:
    assert read(Completion(MINUTE), 10, None).offsets == AT
    assert read(read(Completion(MINUTE), 5, 1_000), 10, 1_000).offsets == {}


def test_what_an_earlier_launch_read_into_open_windows_is_waited_for() -> None:
    exact = completion.begin(MINUTE, newest=61_000, is_exact=True, ahead_until=900_000)
    guessed = completion.begin(MINUTE, newest=61_000, is_exact=False, ahead_until=299_000)
    first = completion.begin(MINUTE, newest=None, is_exact=False, ahead_until=900_000)

    assert [read(state, 10, None, 119_999).offsets for state in (exact, guessed, first)] == [{}, {}, AT]
    assert [read(state, 10, None, 120_000).offsets for state in (exact, guessed)] == [AT, {}]
    assert read(guessed, 10, None, 300_000).offsets == AT
    assert completion.begin(None, newest=61_000, is_exact=False, ahead_until=9) == Completion(None)


@given(
    st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 300_000)), max_size=60),
    st.sampled_from([MINUTE, SESSION, Windows(60_000, 20_000), Windows(60_000, 20_000, (0, 90_000))]),
)
def test_no_offset_is_completed_before_its_windows_are_written(
    batches: list[tuple[int, int]], windows: Windows
) -> None:
    state, newest, closed, needs = Completion(windows), 0, NEVER, list[int]()
    for number, (time, passed) in enumerate(batches, start=1):
        newest, closed = max(newest, time), max(closed, passed)
        needs.append(windows.last_gate(newest))
        state = read(state, number, newest, closed)

        completed = state.offsets.get("t/0", 0)
        assert completed == sum(end <= closed for end in needs)


def test_what_is_pending_is_bounded_and_waits_rather_longer() -> None:
    state = Completion(SESSION)
    for number in range(3_000):
        state = read(state, number, number * 100)

    assert len(state.pending) == 1_000
    assert read(state, 3_000, 300_000, 309_900).offsets == {"t/0": 998}
    assert read(state, 3_000, 300_000, 310_000).offsets == {"t/0": 3_000}


def test_a_heartbeat_says_what_is_completed() -> None:
    done = progress.initial("d", 7, "h1", 42, sinks=("crm",))
    for offsets in ({"t/0": 1}, {"t/0": 5, "t/1": 2}):
        done = progress.set_completed(done, offsets)

    assert dict(done.beat.completed) == {"t/0": 5, "t/1": 2}
