"""Parts of given records, and a query's clock, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.preview.clock import fix_clock
from runtime.source.given import GivenRecords, part_ends
from runtime.source.given_records import read_given
from runtime.source.offsets import Partition
from runtime.source.tasks import OffsetRange


@pytest.mark.parametrize(
    ("seconds", "ends"),
    [
        ([], ()),
        ([1, 2, 3], (3,)),
        ([10, 6, 5], (3,)),
        ([10, 4], (1, 2)),
        ([10, 4, 3, 2], (1, 4)),
        ([10, 4, 20, 14, 30], (1, 3, 5)),
    ],
)
def test_a_part_ends_before_what_is_late_by_all_before_it(seconds: list[int], ends: tuple[int, ...]) -> None:
    times = [(index, second * 1_000_000) for index, second in enumerate(seconds)]

    assert part_ends(times, len(seconds), 5_000) == ends


@given(st.lists(st.integers(0, 40), max_size=30))
def test_no_part_has_a_record_that_the_records_before_it_in_the_part_make_late(seconds: list[int]) -> None:
    ends = part_ends(
        [(index, second * 1_000_000) for index, second in enumerate(seconds)], len(seconds), 5_000
    )

    begin = 0
    for end in ends:
        newest_before = max(seconds[:begin], default=None)
        for index in range(begin, end):
            newest = max(seconds[:index], default=0)
            late = seconds[index] < newest - 5
            # what is late is late by the records of earlier parts already
            assert not late or (newest_before is not None and newest == newest_before)
        begin = end
    assert begin == len(seconds)


def test_a_range_has_its_records_at_their_offsets() -> None:
    records = GivenRecords((b"a", b"b", b"c"), 7, (2, 3))

    [read] = read_given(records, OffsetRange(Partition("t", 0), "given", 1, 3))

    assert (read.offsets.tolist(), read.times.tolist(), read.values.to_pylist()) == (
        [1, 2],
        [7, 7],
        [b"b", b"c"],
    )
    assert list(read_given(records, OffsetRange(Partition("t", 0), "given", 3, 3))) == []
    assert [records.next_end(offset) for offset in (0, 2, 3)] == [2, 3, 3]


def test_only_calls_ask_the_clock() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, 600, UTC)
    sql = "SELECT current_timestamp(), current_date(), 'current_date() \\'current_date()', `current_date()`"

    assert fix_clock(sql, now) == (
        "SELECT TIMESTAMP'2026-01-02 03:04:05.000600Z', CAST(TIMESTAMP'2026-01-02 03:04:05.000600Z' AS DATE),"
        " 'current_date() \\'current_date()', `current_date()`"
    )
