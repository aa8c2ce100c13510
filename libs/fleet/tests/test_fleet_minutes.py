"""Minute sums of a dagger: differences of what heartbeats count, and the same however often they are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import telemetry_pb2
from hypothesis import given
from hypothesis import strategies as st

from fleet.health.minutes import FIELDS, HOUR, MINUTES, UNKNOWN, MinuteSums, minute_of, newest_in

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SKEW = timedelta(hours=3)
NOON_MINUTE = minute_of(NOON)


def beat(
    second: float, *, generation: int = 3, fresh_ms: int | None = None, **fields: Any
) -> telemetry_pb2.Heartbeat:
    """Build a heartbeat of so many seconds after noon, of a driver whose clock is hours off."""
    heartbeat = telemetry_pb2.Heartbeat(dagger="bookings", generation=generation, **fields)
    heartbeat.time.FromDatetime(NOON + second * SECOND + SKEW)
    if fresh_ms is not None:
        heartbeat.freshness["influx"].recent_p95_ms = fresh_ms
        heartbeat.freshness["kafka"].rows = 0
    return heartbeat


def fold(*beats: tuple[float, telemetry_pb2.Heartbeat], sums: MinuteSums | None = None) -> MinuteSums:
    """Sums after heartbeats, each of which came so many seconds after noon."""
    sums = sums or MinuteSums()
    for second, heartbeat in beats:
        sums.add(heartbeat, NOON + second * SECOND)
    return sums


def numbers(sums: MinuteSums, since: int = 0) -> dict[str, list[int]]:
    _, series = sums.since(since)
    return {name: list(values) for name, values in zip(FIELDS, series, strict=True)}


def test_a_minute_has_what_was_counted_since_the_heartbeat_before() -> None:
    first = beat(
        5, rows_in=100, rows_out=[7, 9], late_rows=1, quarantined={"MALFORMED": 2}, lag={"a/0": 5, "a/1": 1}
    )
    second = beat(
        50, rows_in=160, rows_out=[8, 12], late_rows=1, lag={"a/0": 50}, quarantined={"MALFORMED": 2}
    )
    third = beat(65, rows_in=170, rows_out=[8, 13], late_rows=4, fresh_ms=900, quarantined={"MALFORMED": 3})

    sums = fold((5, first), (50, second), (65, third))

    assert sums.since(0)[0] == NOON_MINUTE
    assert numbers(sums) == {
        "records": [60, 10], "rows": [3, 1], "late_rows": [0, 3], "quarantined": [0, 1],
        "lag": [50, UNKNOWN], "freshness_p95_ms": [UNKNOWN, 900],
    }  # fmt: skip


def test_a_later_launch_counts_from_zero_and_an_older_one_no_more() -> None:
    sums = fold(
        (5, beat(5, rows_in=100)),
        (65, beat(65, generation=9, rows_in=30)),
        (70, beat(70, generation=3, rows_in=900)),
    )

    assert numbers(sums)["records"] == [0, 30]


def test_a_heartbeat_that_comes_twice_or_late_adds_nothing() -> None:
    sums = fold(
        (5, beat(5, rows_in=1)),
        (15, beat(15, rows_in=7)),
        (16, beat(15, rows_in=7)),
        (17, beat(10, rows_in=4)),
        (20, beat(20, rows_in=8)),
    )

    assert numbers(sums)["records"] == [7]


def test_minutes_of_which_nothing_was_heard_are_unknown_and_not_zero() -> None:
    sums = fold((5, beat(5, rows_in=1)), (185, beat(185, rows_in=61)))

    assert numbers(sums)["records"] == [0, UNKNOWN, UNKNOWN, 60]


def test_a_day_is_kept_and_no_more() -> None:
    day_s = MINUTES * 60
    sums = fold((5, beat(5, rows_in=1)), (65, beat(65, rows_in=2)), (day_s + 5, beat(day_s + 5, rows_in=9)))

    begin, series = sums.since(0)

    assert (begin, len(series[0])) == (NOON_MINUTE + 1, MINUTES)
    assert (series[0][0], series[0][1], series[0][-1]) == (1, UNKNOWN, 7)


def test_an_answer_begins_where_it_is_asked_for() -> None:
    sums = fold(*[(60.0 * n, beat(60 * n, rows_in=n)) for n in range(5)])

    assert sums.since(NOON_MINUTE + 3)[0] == NOON_MINUTE + 3
    assert numbers(sums, NOON_MINUTE + 3)["records"] == [1, 1]
    assert sums.since(NOON_MINUTE + 9) == (-1, [()] * len(FIELDS))


@pytest.mark.parametrize("cut", [0, 61, 200, 4_000, 7_300])
def test_a_rebuild_from_the_heartbeats_that_remain_equals_what_was_summed_as_they_came(cut: int) -> None:
    beats = [
        (
            float(second),
            beat(
                second, rows_in=second * 7, rows_out=[second // 9], lag={"a/0": second % 53}, fresh_ms=second
            ),
        )
        for second in range(0, 9_000, 5)
    ]
    live = fold(*beats)
    rebuilt = fold(*[each for each in beats if each[0] >= cut])

    # The first minute that remains is cut itself.
    whole = NOON_MINUTE + cut // 60 + 1
    assert rebuilt.since(whole) == live.since(whole)


@given(
    st.lists(st.tuples(st.integers(0, 8_000), st.integers(1, 3), st.integers(0, 99)), max_size=60), st.data()
)
def test_sums_restored_from_their_blocks_go_on_as_if_nothing_had_happened(
    drawn: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    seconds = sorted({second for second, _, _ in drawn})
    beats = [
        (float(second), beat(second, generation=1 + second // 3_000, rows_in=second * more, late_rows=late))
        for second, (_, more, late) in zip(seconds, drawn, strict=False)
    ]
    live = fold(*beats)
    saved_at = data.draw(st.integers(0, 8_000))
    saved = fold(*[each for each in beats if each[0] <= saved_at])
    blocks = {hour: saved.block(hour) for hour in range(NOON_MINUTE // HOUR, NOON_MINUTE // HOUR + 4)}
    newest = max(newest_in(hour, block) for hour, block in blocks.items())

    restored = MinuteSums()
    for hour, block in sorted(blocks.items()):
        restored.restore(hour, block, before=newest)
    # From the begin on: what is complete is not counted twice.
    fold(*beats, sums=restored)

    assert restored.since(0) == live.since(0)


def test_a_block_of_another_size_has_nothing() -> None:
    sums = MinuteSums()
    sums.restore(NOON_MINUTE // HOUR, b"another version's", before=NOON_MINUTE + 60)

    assert sums.newest == -1
    assert newest_in(NOON_MINUTE // HOUR, b"another version's") == -1


def test_a_thousand_daggers_take_less_than_200_mib() -> None:
    assert 1_000 * MinuteSums().size_bytes < 200 * 2**20
