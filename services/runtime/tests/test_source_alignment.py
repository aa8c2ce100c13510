"""A batch that cannot hold everything ends in every partition at the same time: no row becomes late by it."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.source.offsets import Partition, Positions
from runtime.source.planner.alignment import align, follows_event_time, search, shares
from runtime.source.planner.firstrows import first_part
from runtime.source.planner.sampling import SAMPLE, SAMPLE_BYTES, UNIT, Sample, SampledRecord
from runtime.source.watermark import Windows

DELAY = 20


class Log:
    """Partitions as event times by offset: an offset that is left out is a gap."""

    def __init__(
        self, times: Mapping[int, Sequence[int] | Mapping[int, int]], *, size: int = 0, tail: int = 0
    ) -> None:
        self.times = {
            Partition("t", number): dict(column if isinstance(column, Mapping) else enumerate(column))
            for number, column in times.items()
        }
        self.offsets = {partition: sorted(column) for partition, column in self.times.items()}
        self.start = dict.fromkeys(self.times, 0)
        self.end = {
            partition: max(offsets, default=-1) + 1 + tail for partition, offsets in self.offsets.items()
        }
        self.size, self.questions = size, 0

    def samples(self, at: Positions) -> Mapping[Partition, Sample]:
        self.questions += 1
        count = min(SAMPLE, max(1, -(-SAMPLE_BYTES // self.size))) if self.size else SAMPLE
        found = {}
        for partition, offset in at.items():
            offsets = self.offsets[partition]
            first = bisect_left(offsets, offset)
            times = self.times[partition]
            found[partition] = [
                SampledRecord(one, times[one], self.size) for one in offsets[first : first + count]
            ]
        return found

    def first_at(self, horizon: int, start: Positions, end: Positions) -> Positions:
        """What Kafka answers: the first record that is not older."""
        found = {}
        for partition, low in start.items():
            late = [
                at for at in self.offsets[partition] if at >= low and self.times[partition][at] >= horizon
            ]
            if late:
                found[partition] = late[0]
        return found

    def searched(self, horizon: int, start: Positions, end: Positions) -> Positions:
        return search(horizon, start, end, self.samples)

    def read(self, start: Positions, end: Positions) -> list[int]:
        """The event times of the records from `start` up to `end`."""
        return [
            self.times[partition][at]
            for partition, offsets in self.offsets.items()
            for at in offsets[bisect_left(offsets, start[partition]) : bisect_left(offsets, end[partition])]
        ]


def batches(log: Log, rows: int, *, by_search: bool) -> Iterator[list[int]]:
    """Reads the whole log in aligned batches: the event times of each."""
    start = dict(log.start)
    while start != log.end:
        end = align(start, log.end, rows, log.samples, log.searched if by_search else log.first_at)
        assert end != start, "a batch is never empty"
        yield log.read(start, end)
        start = end


def late_rows(log: Log, rows: int, *, by_search: bool) -> int:
    """How many rows a watermark (the maximum so far) finds late."""
    watermark, late = None, 0
    for read in batches(log, rows, by_search=by_search):
        late += sum(1 for time in read if watermark is not None and time <= watermark)
        watermark = max([*read, *([] if watermark is None else [watermark + DELAY])], default=0) - DELAY
    return late


ascending = st.lists(st.integers(0, 3000), max_size=250).map(sorted)
logs = st.dictionaries(st.integers(0, 3), ascending, min_size=1).map(Log)


@given(log=logs, rows=st.integers(1, 200))
def test_partitions_in_order_lose_no_row_by_kafkas_index(log: Log, rows: int) -> None:
    assert late_rows(log, rows, by_search=False) == 0


@given(log=logs, rows=st.integers(1, 200))
def test_partitions_in_order_lose_no_row_by_search(log: Log, rows: int) -> None:
    assert late_rows(log, rows, by_search=True) == 0


@st.composite
def disordered(draw: st.DrawFn) -> Log:
    """Partitions whose records are at most DELAY - 1 older than the newest one before them."""
    columns = {}
    for number in range(draw(st.integers(1, 3))):
        column = draw(ascending)
        columns[number] = [time - draw(st.integers(0, DELAY - 1)) for time in column]
    return Log(columns)


@given(log=disordered(), rows=st.integers(1, 200))
def test_records_out_of_order_within_the_delay_are_not_late(log: Log, rows: int) -> None:
    assert late_rows(log, rows, by_search=False) == 0


@given(log=logs, rows=st.integers(1, 200))
def test_no_batch_of_a_log_without_gaps_has_more_records_than_it_may(log: Log, rows: int) -> None:
    assert all(len(batch) <= max(rows, len(log.end)) for batch in batches(log, rows, by_search=False))


@st.composite
def sparse(draw: st.DrawFn) -> Log:
    """Partitions of stretches, in each of which a record is so many offsets after the other."""
    columns = {}
    for number in range(draw(st.integers(1, 3))):
        offset, time, column = 0, 0, {}
        stretch = st.tuples(st.integers(0, 400), st.sampled_from([1, 2, 30, 1_000, 100_000]))
        for count, every in draw(st.lists(stretch, min_size=1, max_size=4)):
            for _ in range(count):
                offset += every
                time += draw(st.integers(0, 3)) if count < 20 else 1
                column[offset] = time
        columns[number] = column
    return Log(columns, tail=draw(st.sampled_from([0, 1, 100_000])))


@given(log=sparse(), rows=st.integers(1, 300), by_search=st.booleans())
def test_gaps_make_no_row_late(log: Log, rows: int, by_search: bool) -> None:
    assert late_rows(log, rows, by_search=by_search) == 0


def thinned(records: int, every: int, *, first: int = 0) -> dict[int, int]:
    """A record at each so many offsets, a second after the other, `first` of them without gaps."""
    return {at if at < first else first + (at - first) * every: 1_000 * at for at in range(records)}


@pytest.mark.parametrize("by_search", [False, True])
@pytest.mark.parametrize(
    "columns",
    [
        pytest.param([thinned(10_000, 1_000)], id="compacted"),
        pytest.param([thinned(10_000, 3)] * 4, id="transactions of two records"),
        pytest.param([thinned(2_500, 1_000), thinned(7_500, 1)], id="one of two compacted"),
        pytest.param([thinned(10_000, 1_000, first=150)], id="dense, then compacted"),
        pytest.param(
            [{1_000 * at if at < 5_000 else 5_000_000 + at: 1_000 * at for at in range(10_000)}],
            id="compacted, then dense",
        ),
        pytest.param(
            [{at + 1_000_000 * (at // 400): 1_000 * at for at in range(10_000)}],
            id="blocks with gaps between",
        ),
    ],
)
def test_gaps_do_not_count(columns: list[dict[int, int]], by_search: bool) -> None:
    """10,000 records, a thousand at a time: as many batches with gaps as without, and as few questions."""
    log = Log(dict(enumerate(columns)))

    sizes = [len(batch) for batch in batches(log, 1_000, by_search=by_search)]

    assert sum(sizes) == sum(map(len, columns))
    assert max(sizes) <= 4 * 1_000
    assert len(sizes) <= 3 * sum(sizes) // 1_000
    assert log.questions <= (200 if by_search else 60) * len(sizes)


def test_large_records_make_a_batch_end_sooner() -> None:
    log = Log({0: thinned(1_000, 1), 1: thinned(1_000, 1)}, size=100 * UNIT)

    sizes = [len(batch) for batch in batches(log, 10_000, by_search=False)]

    assert max(sizes) <= 2 * 10_000 // 100
    assert len(sizes) <= 3 * 2_000 * 100 // 10_000


def test_where_nothing_can_be_seen_a_batch_has_no_more_offsets_than_it_may_have_records() -> None:
    log = Log({0: thinned(10, 1_000)})

    end = align(log.start, log.end, 500, lambda _: {}, log.first_at)

    assert end == {Partition("t", 0): 500}


def test_a_batch_by_equal_counts_would_have_lost_most_rows() -> None:
    dense, sparse = range(6000), range(0, 6000, 10)
    log = Log({0: sparse, 1: dense})

    first_by_count = max([*sparse[:150], *dense[:150]])
    lost = sum(1 for time in dense[150:] if time <= first_by_count - DELAY)

    assert (lost > 1000, late_rows(log, 300, by_search=True), late_rows(log, 300, by_search=False)) == (
        True,
        0,
        0,
    )


def test_what_fits_is_read_whole() -> None:
    log = Log({0: [5, 1, 9], 1: [100]})

    assert align(log.start, log.end, 4, log.samples, log.first_at) == log.end


def test_records_of_one_instant_still_make_progress() -> None:
    log = Log({0: [7] * 10, 1: [7] * 10})

    end = align(log.start, log.end, 4, log.samples, log.first_at)

    assert end == {Partition("t", 0): 2, Partition("t", 1): 2}


@given(
    backlog=st.dictionaries(st.integers(0, 5), st.integers(1, 100), min_size=1),
    rows=st.integers(1, 300),
)
def test_shares_use_all_rows_there_are_and_no_more(backlog: dict[int, int], rows: int) -> None:
    size = {Partition("t", number): float(one) for number, one in backlog.items()}

    given = shares(size, rows)
    taken = sum(min(size[p], given[p]) for p in size)

    assert min(sum(backlog.values()), rows) <= taken <= max(rows, len(backlog))


@given(log=sparse(), horizon=st.integers(0, 2_000))
def test_the_search_finds_what_kafkas_index_would(log: Log, horizon: int) -> None:
    assert log.searched(horizon, log.start, log.end) == log.first_at(horizon, log.start, log.end)


@pytest.mark.parametrize("horizon", [1, 333_333, 999_998])
def test_in_a_steady_flow_the_search_asks_a_few_times_however_long_it_is(horizon: int) -> None:
    log = Log({number: range(number, 1_000_000, number + 1) for number in range(3)})

    assert log.searched(horizon, log.start, log.end) == log.first_at(horizon, log.start, log.end)
    assert log.questions <= 5


def test_where_the_flow_is_not_steady_the_search_still_halves() -> None:
    log = Log({0: [round(1.0001**at) for at in range(200_000)]})

    log.searched(10_000, log.start, log.end)

    assert log.questions <= 2 * 17


def test_the_search_steps_over_a_record_out_of_order() -> None:
    column = [10, 20, 30, 5, 40, 50, 60, 70, 80]
    log = Log({0: column})

    assert log.searched(40, log.start, log.end) == {Partition("t", 0): 4}


def test_a_back_fill_of_today_does_not_follow_event_time() -> None:
    hour = 3_600_000
    near, far = {Partition("t", 0): 900.0}, {Partition("t", 0): 900.0, Partition("t", 1): 5.0 * hour}

    assert (follows_event_time(near, 5000), follows_event_time(far, 5000)) == (True, False)


def first_part_of(log: Log, whole_from: int = 0) -> Positions | None:
    windows = Windows(10_000, 10_000)
    return first_part(log.start, log.end, windows, DELAY, whole_from, log.samples)


@pytest.mark.parametrize("whole_from", [0, 5_001, 10_000])
def test_the_first_part_of_a_preview_closes_a_whole_window_and_leaves_nothing_late(whole_from: int) -> None:
    log = Log({0: range(5_000, 95_000, 7), 1: range(8_000, 95_000, 90), 2: range(60_000, 61_000)})

    until = first_part_of(log, whole_from)

    assert until is not None
    read, left = log.read(log.start, until), log.read(until, log.end)
    closed = max(read) - DELAY
    assert min(left) >= closed
    assert closed >= (20_000 if whole_from else 10_000)
    assert len(read) < len(left)


def test_a_first_part_that_is_most_of_a_preview_is_none() -> None:
    assert first_part_of(Log({0: range(18_000)})) is None
    assert first_part_of(Log({0: range(30_000)}), whole_from=15_000) is None
    assert first_part_of(Log({0: []})) is None
