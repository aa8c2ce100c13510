"""A batch that cannot hold everything ends in every partition at the same time: no row becomes late by it."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from runtime.source import alignment
from runtime.source.alignment import Sample, aligned, follows_event_time, search, shares
from runtime.source.offsets import Partition, Positions

DELAY = 20


class Log:
    """Partitions as lists of event times; offsets are indices, except where `gaps` says a record is gone."""

    def __init__(self, times: Mapping[int, Sequence[int]]) -> None:
        self.times = {Partition("t", number): list(column) for number, column in times.items()}
        self.start = dict.fromkeys(self.times, 0)
        self.end = {partition: len(column) for partition, column in self.times.items()}

    def samples(self, at: Positions) -> Mapping[Partition, Sample]:
        return {
            partition: list(enumerate(self.times[partition]))[offset : offset + alignment.SAMPLE]
            for partition, offset in at.items()
        }

    def first_at(self, horizon: int, start: Positions, end: Positions) -> Positions:
        """What Kafka answers: the first record that is not older."""
        found = {}
        for partition, low in start.items():
            late = [i for i, time in enumerate(self.times[partition]) if i >= low and time >= horizon]
            if late:
                found[partition] = late[0]
        return found

    def searched(self, horizon: int, start: Positions, end: Positions) -> Positions:
        return search(horizon, start, end, self.samples)


def late_rows(log: Log, rows: int, *, by_search: bool) -> int:
    """Reads the whole log in aligned batches; how many rows a watermark (the maximum so far) finds late."""
    start, watermark, late = dict(log.start), None, 0
    while start != log.end:
        end = aligned(start, log.end, rows, log.samples, log.searched if by_search else log.first_at)
        assert end != start, "a batch is never empty"
        assert sum(end[p] - start[p] for p in end) <= max(rows, len(end)), "the cap holds"
        read = [time for p in end for time in log.times[p][start[p] : end[p]]]
        late += sum(1 for time in read if watermark is not None and time <= watermark)
        watermark = max([*read, *([] if watermark is None else [watermark + DELAY])]) - DELAY
        start = end
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

    assert aligned(log.start, log.end, 4, log.samples, log.first_at) == log.end


def test_records_of_one_instant_still_make_progress() -> None:
    log = Log({0: [7] * 10, 1: [7] * 10})

    end = aligned(log.start, log.end, 4, log.samples, log.first_at)

    assert end == {Partition("t", 0): 2, Partition("t", 1): 2}


@given(
    backlog=st.dictionaries(st.integers(0, 5), st.integers(0, 100), min_size=1),
    rows=st.integers(1, 300),
)
def test_shares_use_all_rows_there_are_and_no_more(backlog: dict[int, int], rows: int) -> None:
    start = {Partition("t", number): 10 for number in backlog}
    end = {Partition("t", number): 10 + size for number, size in backlog.items()}

    until = shares(start, end, rows)
    taken = sum(until[p] - start[p] for p in start)
    hungry = sum(1 for size in backlog.values() if size)

    assert (
        min(sum(backlog.values()), rows) <= taken <= max(rows, hungry),
        all(until[p] <= end[p] for p in end),
    ) == (
        True,
        True,
    )


def test_the_search_steps_over_a_record_out_of_order() -> None:
    column = [10, 20, 30, 5, 40, 50, 60, 70, 80]
    log = Log({0: column})

    assert log.searched(40, log.start, log.end) == {Partition("t", 0): 4}


def test_a_back_fill_of_today_does_not_follow_event_time() -> None:
    hour = 3_600_000
    near, far = {Partition("t", 0): 900.0}, {Partition("t", 0): 900.0, Partition("t", 1): 5.0 * hour}

    assert (follows_event_time(near, 5000), follows_event_time(far, 5000)) == (True, False)
